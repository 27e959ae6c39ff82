package link

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// closed is a kind that no hub may place, in a group with kinds that a hub may place. why is the rest of a sentence about the objects.
type closed struct{ group, kind, resource, why string }

// closedKinds returns the kinds that are closed individually. NeverPlaced also covers the groups that are closed as a whole.
func closedKinds() []closed {
	const (
		itsOwn = "belong to the cluster whose components write them"
		daemon = "have the node daemons act in pods of all namespaces, whatever the limits of namespaces are"
	)
	return []closed{
		{"", "Secret", "secrets", "are not read by a hub: place them by a ResourceDistribution with targets.clusters"},
		{"", "Node", "nodes", itsOwn},
		{"", "Event", "events", itsOwn},
		{"", "Binding", "bindings", itsOwn},
		{"", "ComponentStatus", "componentstatuses", itsOwn},
		{"apps.kruise.io", "NodePodProbe", "nodepodprobes", daemon},
		{"apps.kruise.io", "NodeImage", "nodeimages", daemon},
	}
}

// closedGroup returns why no object in a group may be placed, in the form used by closed, or "".
func closedGroup(group string) string {
	switch group {
	case "fleet.kruise.io":
		return "are the fleet's own, which hub and agent write"
	case "coordination.k8s.io", "events.k8s.io":
		return "belong to the cluster whose components write them"
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiregistration.k8s.io", "apiextensions.k8s.io", "certificates.k8s.io",
		"authentication.k8s.io", "authorization.k8s.io":
		return "decide what others may do in their cluster: its administrator creates them"
	}
	return ""
}

func neverPlaced(group, name string, matches func(closed) bool) string {
	why := closedGroup(group)
	if i := slices.IndexFunc(closedKinds(), matches); i >= 0 {
		why = closedKinds()[i].why
	}
	if why == "" {
		return ""
	}
	return name + " " + why
}

// NeverPlaced returns why no hub may place objects of a kind in a member, or "": they belong to one cluster by nature, or they would give the
// hub more rights there than its chart does. Chart flotilla-member rejects the same kinds in hub.kinds.
func NeverPlaced(kind schema.GroupKind) string {
	return neverPlaced(kind.Group, "objects of kind "+kind.Kind, func(c closed) bool { return c.group == kind.Group && c.kind == kind.Kind })
}

// ParseResources parses resources such as deployments.apps, as given in flags. It rejects resources that are never placed.
func ParseResources(names []string) ([]schema.GroupResource, error) {
	out := make([]schema.GroupResource, 0, len(names))
	for _, name := range names {
		r := schema.ParseGroupResource(name)
		if len(validation.IsDNS1123Label(r.Resource)) > 0 || r.Group != "" && len(validation.IsDNS1123Subdomain(r.Group)) > 0 {
			return nil, fmt.Errorf("%q is not a resource: use one such as configmaps or deployments.apps", name)
		}
		if why := neverPlaced(r.Group, name, func(c closed) bool { return c.group == r.Group && c.resource == r.Resource }); why != "" {
			return nil, fmt.Errorf("%q is never placed: %s", name, why)
		}
		out = append(out, r)
	}
	return out, nil
}

// ResourceLimits are the resources that a hub may place in a member. Nil means no limits.
type ResourceLimits struct {
	// Further are the resources in addition to the ones that every hub may place.
	Further []schema.GroupResource
}

// AlwaysPlaced returns the resources that any hub may place in any member, as far as the namespace limits allow.
func AlwaysPlaced() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: "apps", Resource: "deployments"},
		{Group: "apps.kruise.io", Resource: "clonesets"},
		{Group: "apps.kruise.io", Resource: "resourcedistributions"},
		{Group: "apps.kruise.io", Resource: "uniteddeployments"},
		{Group: "apps.kruise.io", Resource: "workloadspreads"},
	}
}

// Refuses returns why objects of a resource may not be placed, or "".
func (l *ResourceLimits) Refuses(r schema.GroupResource) string {
	if l == nil || slices.Contains(AlwaysPlaced(), r) || slices.Contains(l.Further, r) {
		return ""
	}
	return fmt.Sprintf("this cluster accepts no %s from a hub: add them to hub.kinds of its chart flotilla-member", r)
}

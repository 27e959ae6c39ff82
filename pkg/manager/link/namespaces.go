package link

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceLimits limits where a hub may place objects in a member. The zero value means no limits.
type NamespaceLimits struct {
	// Allowed are the only namespaces that the hub may use; empty means all except the denied ones.
	Allowed []string
	// Denied are namespaces that the hub may not use, even if they are allowed.
	Denied []string
}

// Refuses returns why nothing may be placed in a namespace, or "".
func (l NamespaceLimits) Refuses(namespace string) string {
	switch {
	case slices.Contains(l.Denied, namespace):
		return fmt.Sprintf("this cluster accepts nothing from a hub in namespace %q: it is in hub.deniedNamespaces of its chart flotilla-member", namespace)
	case len(l.Allowed) > 0 && !slices.Contains(l.Allowed, namespace):
		return fmt.Sprintf("this cluster accepts nothing from a hub in namespace %q: add it to hub.allowedNamespaces of its chart flotilla-member",
			namespace)
	default:
		return ""
	}
}

// RefusesAny returns why objects may not be placed in all namespaces except the excluded ones, or "". Copies are never placed in kube-system and
// kube-public.
func (l NamespaceLimits) RefusesAny(excluded []string) string {
	if len(l.Allowed) > 0 {
		return "this cluster accepts objects from a hub only in hub.allowedNamespaces of its chart flotilla-member: select these by name, and no others"
	}
	for _, name := range l.Denied {
		if name != metav1.NamespaceSystem && name != metav1.NamespacePublic && !slices.Contains(excluded, name) {
			return fmt.Sprintf("this cluster accepts nothing from a hub in namespace %q: "+
				"exclude it, because it is in hub.deniedNamespaces of its chart flotilla-member", name)
		}
	}
	return ""
}

// RefusesClusterScoped returns why cluster-scoped objects may not be placed, or "": such an object affects all namespaces.
func (l NamespaceLimits) RefusesClusterScoped() string {
	if len(l.Allowed) > 0 {
		return "this cluster accepts objects from a hub only in hub.allowedNamespaces of its chart flotilla-member, but the object is in no namespace"
	}
	return ""
}

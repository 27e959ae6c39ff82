package propagation

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// unitedKind is the kind whose dependencies are placed without the objects themselves. Package uniteddeployment writes a Propagation for each
// such object, with the clusters of its subsets.
func unitedKind() schema.GroupKind {
	return schema.GroupKind{Group: "apps.kruise.io", Kind: "UnitedDeployment"}
}

// subsetTemplates returns the pod templates of a UnitedDeployment: the template of its workload, and the result of each subset's patch.
func subsetTemplates(object map[string]any) []map[string]any {
	var out []map[string]any
	for _, workload := range []string{"statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate"} {
		template := under(object, "spec", "template", workload, "spec", "template")
		if template == nil {
			continue
		}
		out = append(out, template)
		for _, subset := range list(under(object, "spec", "topology"), "subsets") {
			if by := under(subset, "patch"); by != nil {
				out = append(out, patched(template, by))
			}
		}
	}
	return out
}

// patched applies a subset's patch to a pod template. A patch that doesn't fit, which admission refuses, changes nothing.
func patched(template, by map[string]any) map[string]any {
	patch, err := json.Marshal(by)
	if err != nil {
		return template
	}
	out, err := podpatch.Merge(template, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return template
	}
	return out
}

// serviceName returns the Service that gives the pods of an object their DNS names, or "".
func serviceName(kind schema.GroupKind, object map[string]any) string {
	switch {
	case kind.Kind == "StatefulSet":
		return text(under(object, "spec"), "serviceName")
	case kind == unitedKind():
		for _, workload := range []string{"statefulSetTemplate", "advancedStatefulSetTemplate"} {
			if name := text(under(object, "spec", "template", workload, "spec"), "serviceName"); name != "" {
				return name
			}
		}
	}
	return ""
}

// mayRunOldPods reports whether pods of an earlier template of a UnitedDeployment may still run in some cluster, so that their dependencies
// must stay. A cluster that doesn't answer may have such pods.
func mayRunOldPods(live *unstructured.Unstructured) bool {
	s := under(live.Object, "status")
	n := func(field string) int64 { value, _ := s[field].(int64); return value }
	return n("observedGeneration") < live.GetGeneration() || n("updatedReplicas") < n("replicas") || n("staleClusters") > 0
}

// confirmUnited reads the selected UnitedDeployments again, from the apiserver, since a template that the cache doesn't show yet may need more.
func (o *observed) confirmUnited(ctx context.Context, live client.Reader) error {
	o.united = nil
	for _, s := range o.spec.Selectors {
		all, err := read(ctx, live, o.source.GetNamespace(), s)
		if err != nil {
			return err
		}
		o.united = append(o.united, all...)
	}
	return nil
}

// misplaced returns why a selector selects nothing with this spec, or nil. UnitedDeployments are selected only for their dependencies, and
// nothing else is selected with them. Admission refuses such a spec.
func misplaced(spec *fleetv1alpha1.PropagationSpec, kind schema.GroupVersionKind) *problem {
	switch united := kind.GroupKind() == unitedKind(); {
	case united && !dependenciesOnly(spec):
		return &problem{Kind: kind.Kind, Reason: fleetv1alpha1.ReasonKindNotAllowed, Message: unitedHasClusters}
	case !united && dependenciesOnly(spec):
		return &problem{Kind: kind.Kind, Reason: fleetv1alpha1.ReasonKindNotAllowed, Message: onlyUnited}
	}
	return nil
}

const (
	unitedHasClusters = "a UnitedDeployment names its own clusters, in spec.topology.subsets: set spec.topology.dependencies: Auto " +
		"to place what its pods need"
	onlyUnited = "dependencies: Only is for UnitedDeployments, and does not place the selected objects themselves: set Auto to place both"
)

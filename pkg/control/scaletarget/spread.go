package scaletarget

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// spreadIndex is the index of WorkloadSpreads by the group, kind and name of their target.
const spreadIndex = "flotilla.target"

// IndexSpreads adds the index that Spreads needs.
func IndexSpreads(ctx context.Context, i client.FieldIndexer) error {
	return ownership.AddIndex(ctx, i, "WorkloadSpreads by target", &appsv1beta1.WorkloadSpread{}, spreadIndex, spreadKeys)
}

func spreadKeys(o client.Object) []string {
	if s, ok := o.(*appsv1beta1.WorkloadSpread); ok {
		return []string{SpreadTarget(s).IndexKey()}
	}
	return nil
}

// SpreadTarget returns the target of a WorkloadSpread. A version that can't be parsed counts as no group.
func SpreadTarget(s *appsv1beta1.WorkloadSpread) Ref {
	t := s.Spec.TargetRef
	return Ref{
		Kind:           schema.FromAPIVersionAndKind(t.APIVersion, t.Kind),
		NamespacedName: types.NamespacedName{Namespace: s.Namespace, Name: t.Name},
	}
}

// Spreads returns the WorkloadSpreads with a target, from the cache, oldest first: only the first one counts. Admission rejects a second one,
// but two may be created at the same time. The objects belong to the cache.
func Spreads(ctx context.Context, r client.Reader, ref Ref) ([]*appsv1beta1.WorkloadSpread, error) {
	var list appsv1beta1.WorkloadSpreadList
	err := r.List(ctx, &list, client.InNamespace(ref.Namespace), client.MatchingFields{spreadIndex: ref.IndexKey()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list WorkloadSpreads: %w", err)
	}
	out := make([]*appsv1beta1.WorkloadSpread, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	slices.SortFunc(out, func(a, b *appsv1beta1.WorkloadSpread) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// Federated reports whether a subset of a WorkloadSpread names a cluster or selects clusters.
func Federated(s *appsv1beta1.WorkloadSpread) bool {
	return slices.ContainsFunc(s.Spec.Subsets, func(s appsv1beta1.WorkloadSpreadSubset) bool {
		return s.Cluster != "" || s.ClusterSelector != nil
	})
}

// SpreadOfHub reports whether a WorkloadSpread belongs to the hub, so that a member's controller ignores it: its subsets name clusters, or it
// has the hub's finalizer.
func SpreadOfHub(s *appsv1beta1.WorkloadSpread) bool {
	return Federated(s) || slices.Contains(s.Finalizers, keys.FleetRow)
}

// Template reports whether a workload has the label keys.FleetTemplate: it is placed in clusters, and doesn't run here.
func Template(o metav1.Object) bool { return o.GetLabels()[keys.FleetTemplate] == "true" }

// ValidateTemplate validates the label keys.FleetTemplate of a workload; old is nil for a new one. hub is true if this cluster has a hub.
func ValidateTemplate(old, o metav1.Object, hub bool) field.ErrorList {
	path := field.NewPath("metadata", "labels").Key(keys.FleetTemplate)
	value, has := o.GetLabels()[keys.FleetTemplate]
	isTemplate := value == "true"
	switch {
	case has && !isTemplate && value != "false": // "false" is for a namespace of templates.
		return field.ErrorList{field.NotSupported(path, value, []string{"true", "false"})}
	case isTemplate && !hub:
		return field.ErrorList{field.Forbidden(path, "only a hub has templates, and this cluster is not a hub, so nothing would run it: remove the label")}
	case old == nil || Template(old) == isTemplate:
		return nil
	case isTemplate:
		return field.ErrorList{field.Forbidden(path,
			"this cluster may already run pods of it: create it with the label, under another name or after this one is deleted")}
	}
	return field.ErrorList{field.Forbidden(path,
		"this cluster would start to run it in addition to the clusters that do: keep the label, or delete the object and create it again")}
}

package persistentpodstate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// targetIndex indexes PersistentPodStates by the group, kind and name of their target.
const targetIndex = "flotilla.target"

func indexByTarget(ctx context.Context, i client.FieldIndexer) error {
	return ownership.AddIndex(ctx, i, "PersistentPodStates by target", &appsv1beta1.PersistentPodState{}, targetIndex, targetOf)
}

func targetOf(o client.Object) []string {
	if s, ok := o.(*appsv1beta1.PersistentPodState); ok {
		return []string{refOf(s).IndexKey()}
	}
	return nil
}

// refOf returns the target of a PersistentPodState. An apiVersion that can't be parsed gives an empty group.
func refOf(s *appsv1beta1.PersistentPodState) scaletarget.Ref {
	t := s.Spec.TargetRef
	return scaletarget.Ref{
		Kind:           schema.FromAPIVersionAndKind(t.APIVersion, t.Kind),
		NamespacedName: types.NamespacedName{Namespace: s.Namespace, Name: t.Name},
	}
}

// statesWithTarget returns the cached PersistentPodStates with a target, oldest first. They are shared with the cache.
func statesWithTarget(ctx context.Context, r client.Reader, ref scaletarget.Ref) ([]*appsv1beta1.PersistentPodState, error) {
	var list appsv1beta1.PersistentPodStateList
	err := r.List(ctx, &list, client.InNamespace(ref.Namespace), client.MatchingFields{targetIndex: ref.IndexKey()},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list PersistentPodStates: %w", err)
	}
	out := make([]*appsv1beta1.PersistentPodState, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	slices.SortFunc(out, compareAge)
	return out, nil
}

// compareAge sorts the oldest first. Only the oldest counts: admission rejects a second one, but two may be created at the same time.
func compareAge(a, b *appsv1beta1.PersistentPodState) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// builtIn reports whether a kind may be a target without being whitelisted.
func builtIn(kind schema.GroupKind) bool {
	return kind == scaletarget.StatefulSet() || kind == scaletarget.AdvancedStatefulSet()
}

// allowed reports whether a kind may be a target.
func allowed(kind schema.GroupKind, listed []schema.GroupVersionKind) bool {
	return builtIn(kind) || slices.ContainsFunc(listed, func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind })
}

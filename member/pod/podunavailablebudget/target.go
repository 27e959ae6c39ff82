package podunavailablebudget

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// Kinds of workloads.
var (
	replicaSet, deployment, statefulSet = native("ReplicaSet"), native("Deployment"), native("StatefulSet") //nolint:gochecknoglobals // Constants.
	daemonSet, job                      = native("DaemonSet"), batchv1.SchemeGroupVersion.WithKind("Job")   //nolint:gochecknoglobals // Constants.
	cloneSet, advanced, advancedDaemon  = kruise("CloneSet"), kruise("StatefulSet"), kruise("DaemonSet")    //nolint:gochecknoglobals // Constants.
	unitedDeployment                    = kruise("UnitedDeployment")                                        //nolint:gochecknoglobals // A constant.
)

func native(kind string) schema.GroupVersionKind { return appsv1.SchemeGroupVersion.WithKind(kind) }
func kruise(kind string) schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }

// cachedKinds returns the cached kinds that may have a controller themselves.
func cachedKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{replicaSet, deployment, statefulSet, cloneSet, advanced}
}

// sameKind returns a function that reports whether a kind equals this one, in any version.
func sameKind(kind schema.GroupVersionKind) func(schema.GroupVersionKind) bool {
	return func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind.GroupKind() }
}

// isCached reports whether the manager caches objects of a kind anyway.
func isCached(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(cachedKinds(), sameKind(kind))
}

// replicaSets returns an empty object of the type that the cache uses for ReplicaSets.
func replicaSets() client.Object { return scaletarget.Empty(replicaSet) }

// refOf returns the target of a budget, or false if the budget has a selector. An apiVersion that can't be parsed gives an empty group.
func refOf(b *policyv1beta1.PodUnavailableBudget) (scaletarget.Ref, bool) {
	t := b.Spec.TargetRef
	if t == nil {
		return scaletarget.Ref{}, false
	}
	return scaletarget.Ref{
		Kind:           schema.FromAPIVersionAndKind(t.APIVersion, t.Kind),
		NamespacedName: types.NamespacedName{Namespace: b.Namespace, Name: t.Name},
	}, true
}

// chain returns the controllers of an object, as far up as the cache has their kinds. Reading another kind would start a watch that the
// manager may not be allowed to have.
func chain(ctx context.Context, cache client.Reader, o metav1.Object) ([]scaletarget.Ref, error) {
	out, _, err := scaletarget.Chain(ctx, cache, o, isCached)
	return out, err
}

// protectingBudgets returns the cached budgets that protect a pod, oldest first. They are shared with the cache.
func protectingBudgets(ctx context.Context, cache client.Reader, pod *corev1.Pod) ([]*policyv1beta1.PodUnavailableBudget, error) {
	var list policyv1beta1.PodUnavailableBudgetList
	if err := cache.List(ctx, &list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodUnavailableBudgets: %w", err)
	}
	var out []*policyv1beta1.PodUnavailableBudget
	var above []scaletarget.Ref
	for i := range list.Items {
		b := &list.Items[i]
		if b.DeletionTimestamp != nil {
			continue
		}
		ref, byRef := refOf(b)
		if byRef && above == nil {
			var err error
			if above, err = chain(ctx, cache, pod); err != nil {
				return nil, err
			}
		}
		if byRef && slices.ContainsFunc(above, ref.Same) || !byRef && ownership.Selects(b.Spec.Selector, pod) {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *policyv1beta1.PodUnavailableBudget) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// budgetOf returns the budget that counts for a pod, or nil.
func budgetOf(ctx context.Context, cache client.Reader, pod *corev1.Pod) (*policyv1beta1.PodUnavailableBudget, error) {
	all, err := protectingBudgets(ctx, cache, pod)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// indexes adds the field indexes that are needed to find the pods of a budget.
func indexes(ctx context.Context, i client.FieldIndexer) error {
	return ownership.IndexByOwner(ctx, i, &corev1.Pod{}, replicaSets(), &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1beta1.CloneSet{},
		&appsv1beta1.StatefulSet{})
}

package podunavailablebudget

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// observed is what one reconcile has read. All objects are shared with the cache and must not be modified.
type observed struct {
	budget *policyv1beta1.PodUnavailableBudget
	// counts means that no older budget protects the pods.
	counts bool
	// pods holds the pods that the budget counts: neither terminated nor being deleted. Ignored pods count too, since they are among the
	// replicas of their workload.
	pods []*corev1.Pod
	// granted maps the names in grants to pods. Pods with an expired grant are as read from the apiserver, all others as in the cache.
	granted map[string]*corev1.Pod
	// reread maps pods as they were in the cache to the same pods as read from the apiserver, for those counted from the apiserver. The value is
	// nil if the apiserver doesn't have the pod.
	reread map[*corev1.Pod]*corev1.Pod
	// expected is how many pods there should be. fault is why that is unknown.
	expected int32
	fault    error
	// ends means that the target is gone or is being deleted with its pods, so no pod is protected.
	ends bool
}

// observe reads everything that a reconcile needs.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName, now time.Time) (observed, error) {
	o := observed{budget: &policyv1beta1.PodUnavailableBudget{}}
	children := func(from client.Reader, live bool) error { return r.children(ctx, from, live, &o, now) }
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) {
			if !yield(o.budget) {
				return
			}
			for _, pod := range o.pods {
				if !yield(pod) {
					return
				}
			}
		}
	}
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.budget, children, shown); err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.begun.Forget(key)
		}
		return o, fmt.Errorf("read PodUnavailableBudget: %w", err)
	}
	// Once the grant is gone, the next reconcile would count what the cache shows, which may be behind.
	for cached, live := range o.reread {
		if live == nil || live.UID != cached.UID || live.DeletionTimestamp != nil {
			r.Expect.Deleted(o.budget.UID, cached)
		} else {
			r.Expect.Written(o.budget.UID, live)
		}
	}
	return o, nil
}

// children reads the pods of a budget and how many are expected. live means that the reader is the apiserver, which has no index.
func (r *Reconciler) children(ctx context.Context, from client.Reader, live bool, o *observed, now time.Time) error {
	o.pods, o.granted, o.reread = nil, map[string]*corev1.Pod{}, map[*corev1.Pod]*corev1.Pod{}
	o.counts, o.expected, o.fault, o.ends = true, 0, nil, false
	all, target, err := r.protectedPods(ctx, from, live, o.budget)
	if apierrors.IsForbidden(err) {
		o.fault = err
		return nil
	}
	if err != nil {
		return err
	}
	for _, pod := range all {
		if podpatch.Active(pod) {
			o.pods = append(o.pods, pod)
		}
	}
	if len(o.pods) > 0 {
		first, err := budgetOf(ctx, r.Client, o.pods[0])
		if err != nil {
			return err
		}
		o.counts = first == nil || first.UID == o.budget.UID
	}
	if !live {
		if err := r.expectDeletions(ctx, o); err != nil {
			return err
		}
	}
	if err := r.readGranted(ctx, from, o, now); err != nil {
		return err
	}
	ref, byRef := refOf(o.budget)
	o.ends = byRef && target == nil
	if o.budget.Spec.ProtectTotalReplicas == nil && !o.ends {
		o.expected, o.fault = r.expectedPods(ctx, target, ref.Kind, o.pods)
	}
	return nil
}

// expectDeletions makes the first reconcile of a budget in this process wait until the cache shows which pods are being deleted. A previous
// leader may have seen that and dropped their grants, so a cache that is behind would let them count as available.
func (r *Reconciler) expectDeletions(ctx context.Context, o *observed) error {
	if r.begun.Get(o.budget) {
		return nil
	}
	if len(o.pods) > 0 {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := r.Live.List(ctx, list, client.InNamespace(o.budget.Namespace)); err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		stays := make(map[types.UID]bool, len(list.Items))
		for i := range list.Items {
			stays[list.Items[i].UID] = list.Items[i].DeletionTimestamp == nil
		}
		for _, pod := range o.pods {
			if !stays[pod.UID] {
				r.Expect.Deleted(o.budget.UID, pod)
			}
		}
	}
	r.begun.Change(o.budget, func(begun *bool) { *begun = true })
	return nil
}

// protectedPods returns the pods that a budget protects, and its target. The target is nil if the budget has a selector, or if the target is
// gone or being deleted.
func (r *Reconciler) protectedPods(
	ctx context.Context, from client.Reader, live bool, b *policyv1beta1.PodUnavailableBudget,
) ([]*corev1.Pod, client.Object, error) {
	ref, byRef := refOf(b)
	if !byRef {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			return nil, nil, fmt.Errorf("spec.selector: %w", err)
		}
		var pods corev1.PodList
		if err := from.List(ctx, &pods, client.InNamespace(b.Namespace), client.MatchingLabelsSelector{Selector: selector},
			client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, fmt.Errorf("list pods: %w", err)
		}
		return pointers(pods.Items), nil, nil
	}
	target, err := r.readTarget(ctx, ref)
	if err != nil || leavesWithPods(target) {
		return nil, nil, err
	}
	owners, err := r.descendants(ctx, target, ref.Kind)
	if err != nil {
		return nil, nil, err
	}
	var out []*corev1.Pod
	for _, owner := range owners {
		pods, err := ownership.Pods(ctx, from, owner, owner.kind, live)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, pods...)
	}
	return out, target, nil
}

// readTarget reads the workload of a budget, or returns nil if there is none. Without a workload no pod is protected, so the apiserver has to
// confirm what a cache that may be behind shows.
func (r *Reconciler) readTarget(ctx context.Context, ref scaletarget.Ref) (client.Object, error) {
	known := isCached(ref.Kind)
	if known {
		if o, err := scaletarget.Get(ctx, r.Client, ref); err != nil || o != nil {
			return o, err
		}
	}
	o, err := scaletarget.Get(ctx, r.Live, ref)
	if err != nil {
		return nil, err
	}
	if o != nil && !known && !slices.ContainsFunc([]schema.GroupVersionKind{unitedDeployment, advancedDaemon}, sameKind(ref.Kind)) {
		r.Watch(ref.Kind)
	}
	return o, nil
}

// leavesWithPods reports whether a workload is gone, or is being deleted together with its pods. The garbage collector deletes such pods, and
// nothing replaces them.
func leavesWithPods(w client.Object) bool {
	return w == nil || w.GetDeletionTimestamp() != nil && !slices.Contains(w.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// owner is a workload that may control pods.
type owner struct {
	client.Object

	kind schema.GroupVersionKind
}

// descendants returns a workload and the workloads below it that may control its pods.
func (r *Reconciler) descendants(ctx context.Context, target client.Object, kind schema.GroupVersionKind) ([]owner, error) {
	out := []owner{{target, kind}}
	var kinds []schema.GroupVersionKind
	switch kind.GroupKind() {
	case deployment.GroupKind():
		kinds = []schema.GroupVersionKind{replicaSet}
	case unitedDeployment.GroupKind():
		kinds = []schema.GroupVersionKind{deployment, statefulSet, cloneSet, advanced, replicaSet} // ReplicaSets of Deployments of it.
	}
	for _, child := range kinds {
		for _, o := range out {
			found, err := r.childrenOf(ctx, o, child)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

// childrenOf returns the objects of a kind that o controls.
func (r *Reconciler) childrenOf(ctx context.Context, o owner, kind schema.GroupVersionKind) ([]owner, error) {
	children := listOf(kind)
	if err := r.Client.List(ctx, children, ownership.OwnedBy(o, false)...); err != nil {
		return nil, fmt.Errorf("list %ss: %w", kind.Kind, err)
	}
	var out []owner
	err := meta.EachListItem(children, func(item runtime.Object) error {
		if child, ok := item.(client.Object); ok && ownership.ControlledBy(child, o, o.kind) {
			out = append(out, owner{child, kind})
		}
		return nil
	})
	return out, err
}

func listOf(kind schema.GroupVersionKind) client.ObjectList {
	switch kind {
	case deployment:
		return &appsv1.DeploymentList{}
	case statefulSet:
		return &appsv1.StatefulSetList{}
	case cloneSet:
		return &appsv1beta1.CloneSetList{}
	case advanced:
		return &appsv1beta1.StatefulSetList{}
	}
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(kind)
	return l
}

// readGranted reads the pods of grants. A pod whose grant may be dropped is read from the apiserver: a cache that is behind could still show
// it as available, and it would be counted.
func (r *Reconciler) readGranted(ctx context.Context, from client.Reader, o *observed, now time.Time) error {
	fromServer := map[string]bool{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(o.budget.Status.DisruptedPods)), slices.Collect(maps.Keys(o.budget.Status.UnavailablePods))) {
		key := types.NamespacedName{Namespace: o.budget.Namespace, Name: name}
		pod, err := podOf(ctx, from, key)
		if err == nil && grantExpired(&o.budget.Status, name, pod, now) {
			fromServer[name] = true
			pod, err = podOf(ctx, r.Live, key)
		}
		if err != nil {
			return err
		}
		o.granted[name] = pod
	}
	cached := o.pods
	o.pods = nil
	for _, pod := range cached {
		counted, granted := o.granted[pod.Name]
		if !granted {
			counted = pod
		}
		if fromServer[pod.Name] {
			o.reread[pod] = counted
		}
		if counted != nil && counted.DeletionTimestamp == nil {
			o.pods = append(o.pods, counted)
		}
	}
	return nil
}

// podOf reads a pod, or returns nil if it doesn't exist.
func podOf(ctx context.Context, from client.Reader, key types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	switch err := from.Get(ctx, key, pod); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get pod %s: %w", key.Name, err)
	}
	return pod, nil
}

// grantExpired reports whether a grant has expired and, judging by the cached pod, the kubelet has acted on any update.
func grantExpired(s *policyv1beta1.PodUnavailableBudgetStatus, name string, pod *corev1.Pod, now time.Time) bool {
	if at, ok := s.DisruptedPods[name]; ok && !now.Before(at.Add(deletionTime)) {
		return true
	}
	at, ok := s.UnavailablePods[name]
	if !ok || now.Before(at.Add(updateTime)) {
		return false
	}
	if pod == nil {
		return true
	}
	lags, _ := inplace.RestartPending(pod, at.Time, now)
	return !lags
}

// expectedPods returns how many pods a budget should have: the replicas of its target, or those of all workloads that own its pods. A pod
// counts as one if it has no workload, or if its workload is being deleted or has no replicas.
func (r *Reconciler) expectedPods(
	ctx context.Context, target client.Object, kind schema.GroupVersionKind, pods []*corev1.Pod,
) (int32, error) {
	if target != nil {
		n, known, err := r.wantedReplicas(ctx, target, kind)
		if err != nil || known {
			return n, err
		}
		if !countsReplicas(target) {
			return podCount(pods), nil
		}
		return 0, fmt.Errorf("%s %s has no scale subresource: protect its pods by a selector, or set spec.protectTotalReplicas", kind.Kind, target.GetName())
	}
	byWorkload, total := map[types.UID]int32{}, int64(0)
	at := map[types.UID]scaletarget.Ref{}
	for _, pod := range pods {
		top, err := r.topWorkload(ctx, pod)
		if err != nil {
			return 0, err
		}
		if top == nil || top.Kind.GroupKind() == job.GroupKind() { // A Job wants fewer pods the more of them have finished.
			total++
			continue
		}
		byWorkload[top.UID]++
		at[top.UID] = *top
	}
	for uid, n := range byWorkload {
		w, err := r.readTarget(ctx, at[uid])
		if err != nil {
			return 0, err
		}
		if leavesWithPods(w) {
			total += int64(n)
			continue
		}
		wants, known, err := r.wantedReplicas(ctx, w, at[uid].Kind)
		if err != nil {
			return 0, err
		}
		if !known {
			wants = n
		}
		total += int64(wants)
	}
	return int32(min(total, math.MaxInt32)), nil
}

// topWorkload returns the workload whose replicas include a pod: the pod's controller, or the Deployment that controls its ReplicaSet. A node,
// which controls static pods, doesn't count.
func (r *Reconciler) topWorkload(ctx context.Context, pod *corev1.Pod) (*scaletarget.Ref, error) {
	ref, ok := scaletarget.Controller(pod)
	if !ok || ref.Kind == corev1.SchemeGroupVersion.WithKind("Node") {
		return nil, nil
	}
	if ref.Kind.GroupKind() != replicaSet.GroupKind() {
		return &ref, nil
	}
	set, err := scaletarget.Get(ctx, r.Client, ref)
	if err != nil || set == nil {
		return &ref, err
	}
	if above, ok := scaletarget.Controller(set); ok && above.Kind.GroupKind() == deployment.GroupKind() {
		return &above, nil
	}
	return &ref, nil
}

// wantedReplicas returns how many pods a workload wants. known is false if the workload doesn't say, or if its pods should be counted instead.
func (r *Reconciler) wantedReplicas(ctx context.Context, w client.Object, kind schema.GroupVersionKind) (n int32, known bool, err error) {
	if !countsReplicas(w) {
		return 0, false, nil
	}
	key := client.ObjectKeyFromObject(w)
	switch kind.GroupKind() {
	case daemonSet.GroupKind():
		var set appsv1.DaemonSet
		err := client.IgnoreNotFound(r.Live.Get(ctx, key, &set))
		return set.Status.DesiredNumberScheduled, true, err
	case advancedDaemon.GroupKind():
		var set appsv1beta1.DaemonSet
		err := client.IgnoreNotFound(r.Client.Get(ctx, key, &set))
		return set.Status.DesiredNumberScheduled, true, err
	}
	if metadata, ok := w.(*metav1.PartialObjectMetadata); ok {
		metadata.SetGroupVersionKind(kind)
	}
	return scaletarget.Replicas(ctx, r.Client, w)
}

// podCount returns the number of pods.
func podCount(pods []*corev1.Pod) int32 { return int32(min(len(pods), math.MaxInt32)) }

// countsReplicas reports whether a workload's replicas count, instead of its pods.
func countsReplicas(w client.Object) bool {
	return w.GetAnnotations()[keys.DisableFetchReplicas] != "true"
}

func pointers[T any](items []T) []*T {
	out := make([]*T, 0, len(items))
	for i := range items {
		out = append(out, &items[i])
	}
	return out
}

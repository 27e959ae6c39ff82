package daemonset

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// observed is what one reconcile has read. All objects come straight from the cache and must not be changed.
type observed struct {
	set *appsv1beta1.DaemonSet
	// wanted is the revision of the set's template, without a number.
	wanted *appsv1.ControllerRevision
	// history and pods are controlled by the set. history is in the order of revision.Sort.
	history []*appsv1.ControllerRevision
	pods    []*corev1.Pod
	// nodes are all nodes, sorted by name.
	nodes []*corev1.Node
	// overlap has the pods that the selector matches but the set does not control.
	overlap ownership.Overlap
	// orphans are the pods and revisions that an earlier set of this name has left.
	orphans []client.Object
	// daemons contains the pods' nodes on which a node daemon is alive.
	daemons map[string]bool
	// failures maps nodes on which pods have ended to the time before which the next one is not deleted.
	failures map[string]time.Time
	// memory has the facts about pods that have not changed since the last reconcile.
	memory *podset.Memory
	// awaited is why new pods wait until the apiserver sends them to the pod webhook.
	awaited podwebhook.Wait
	// inPlace says what may be updated in place.
	inPlace inplace.Options
}

// observe reads what a reconcile needs: from the cache, or from the apiserver if the cache has not shown our writes for too long.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{set: &appsv1beta1.DaemonSet{}, inPlace: r.InPlace, memory: r.Memory(key)}
	children := func(from client.Reader, live bool) error { return o.readChildren(ctx, from, live) }
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.set, children, o.tracked); err != nil {
		return o, fmt.Errorf("read DaemonSet: %w", err)
	}
	return o, r.readUncontrolled(ctx, &o)
}

// readUncontrolled reads what the set does not control.
func (r *Reconciler) readUncontrolled(ctx context.Context, o *observed) error {
	var err error
	if o.nodes, err = ownership.Nodes(ctx, r.Client); err != nil {
		return err
	}
	if o.wanted, err = wantedRevision(o.set); err != nil {
		return err
	}
	now := r.Clock.Now()
	if o.overlap, err = r.Overlaps.Scan(ctx, r.Client, o.set, Kind(), o.set.Spec.Selector, now); err != nil {
		return err
	}
	// The revisions of an earlier set are found before this set has acted, or together with its pods. A new set has -1, from the schema.
	if o.set.Status.ObservedGeneration <= 0 || len(o.overlap.Orphans) > 0 {
		revisions, err := revision.Orphans(ctx, r.Client, o.set, o.set.Spec.Selector)
		if err != nil {
			return err
		}
		o.orphans = slices.Concat(podcontrol.Objects(revisions), podcontrol.Objects(o.overlap.Orphans))
	}
	o.daemons = r.DaemonNodes(o.pods)
	r.failures.Change(o.set, func(f *failures) { o.failures = f.until(o.set.Generation, now) })
	o.awaited, err = r.Awaited(ctx, client.ObjectKeyFromObject(o.set))
	return err
}

// requestsForOrphan finds the sets that may adopt a pod.
func (r *Reconciler) requestsForOrphan(ctx context.Context, pod client.Object) []ctrl.Request {
	return ownership.RequestsForOrphan(ctx, r.Client, &r.Overlaps, &appsv1beta1.DaemonSetList{},
		func(set *appsv1beta1.DaemonSet) *metav1.LabelSelector { return set.Spec.Selector }, pod)
}

// readChildren reads history and pods. live means that the reader is the apiserver, which has no index.
func (o *observed) readChildren(ctx context.Context, r client.Reader, live bool) error {
	var err error
	if o.history, err = revision.List(ctx, r, o.set, ownership.OwnedBy(o.set, live)...); err != nil {
		return err
	}
	o.pods, err = ownership.Pods(ctx, r, o.set, Kind(), live)
	return err
}

// tracked yields all objects that expectations track. The set is one of them, because a plan made from an old status would write the status
// again.
func (o *observed) tracked() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		_ = yield(o.set) && expect.Each(o.pods, yield) && expect.Each(o.history, yield)
	}
}

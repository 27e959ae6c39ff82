package cloneset

import (
	"context"
	"fmt"
	"iter"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// observed is what one reconcile has read. All objects come straight from the cache and must not be changed.
type observed struct {
	set *appsv1beta1.CloneSet
	// wanted is the revision of the set's template, without a number.
	wanted *appsv1.ControllerRevision
	// history, pods and pvcs are controlled by the set. history is in the order of revision.Sort.
	history []*appsv1.ControllerRevision
	pods    []*corev1.Pod
	pvcs    []*corev1.PersistentVolumeClaim
	// nodes maps node names to node labels. It is set only if the pods to delete are chosen by topology.
	nodes map[string]map[string]string
	// overlap has the pods that the selector matches but the set does not control.
	overlap ownership.Overlap
	// daemons contains the pods' nodes on which a node daemon is alive.
	daemons map[string]bool
	// memory has the facts about pods that have not changed since the last reconcile.
	memory *podset.Memory
	// awaited is why new pods wait until the apiserver sends them to the pod webhook.
	awaited podwebhook.Wait
	// gates are the controller's gates. inPlace says what may be updated in place.
	gates   gates
	inPlace inplace.Options
}

// observe reads what a reconcile needs: from the cache, or from the apiserver if the cache has not shown our writes for too long.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{set: &appsv1beta1.CloneSet{}, gates: r.Gates, inPlace: r.InPlace, memory: r.Memory(key)}
	children := func(from client.Reader, live bool) error {
		if scaletarget.Template(o.set) {
			return expect.ErrGone // A hub places it.
		}
		if live {
			leakage.WithLabelValues(key.Namespace, key.Name).Inc()
		}
		return o.readChildren(ctx, from, live)
	}
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.set, children, o.tracked); err != nil {
		return o, fmt.Errorf("read CloneSet: %w", err)
	}
	var err error
	if o.wanted, err = wantedRevision(o.set); err != nil {
		return o, err
	}
	if o.overlap, err = r.Overlaps.Scan(ctx, r.Client, o.set, Kind(), o.set.Spec.Selector, r.Clock.Now()); err != nil {
		return o, err
	}
	o.daemons = r.DaemonNodes(o.pods)
	if o.awaited, err = r.Awaited(ctx, key); err != nil {
		return o, err
	}
	if o.byTopology() {
		if o.nodes, err = nodeLabels(ctx, r.Client); err != nil {
			return o, err
		}
	}
	return o, nil
}

// readChildren reads history, pods and PVCs. live means that the reader is the apiserver, which has no index.
func (o *observed) readChildren(ctx context.Context, r client.Reader, live bool) error {
	var err error
	if o.history, err = revision.List(ctx, r, o.set, ownership.OwnedBy(o.set, live)...); err != nil {
		return err
	}
	if o.pods, err = ownership.Pods(ctx, r, o.set, Kind(), live); err != nil {
		return err
	}
	o.pvcs, err = ownership.PVCs(ctx, r, o.set, Kind(), live)
	return err
}

// tracked yields all objects that expectations track. The set is one of them, because a plan made from an old status would write the status
// again.
func (o *observed) tracked() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		_ = yield(o.set) && expect.Each(o.pods, yield) && expect.Each(o.pvcs, yield) && expect.Each(o.history, yield)
	}
}

// byTopology reports whether node labels matter: there are pods to delete, and the template spreads them by topology.
func (o *observed) byTopology() bool {
	return len(o.set.Spec.Template.Spec.TopologySpreadConstraints) > 0 && len(o.pods) > replicas(&o.set.Spec)
}

// nodeLabels reads the labels of all nodes from a metadata cache, which starts with the first call.
func nodeLabels(ctx context.Context, r client.Reader) (map[string]map[string]string, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out := make(map[string]map[string]string, len(list.Items))
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Labels
	}
	return out, nil
}

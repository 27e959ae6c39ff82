package nodepodprobe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	notes "github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
)

// markerIndex is the index of NodePodProbes by the PodProbeMarkers of their probes, as namespace/name.
const markerIndex = "markers"

// options tune the controller.
type options struct {
	// Workers is how many NodePodProbes are reconciled at once; 0 means 3.
	Workers int
	// Markers: the probes of PodProbeMarkers are run. Liveness: so are the liveness probes that pods have in an annotation.
	Markers, Liveness bool
	// Clock is required.
	Clock clock.PassiveClock
}

// Reconciler reconciles the NodePodProbes of nodes. Its writes are idempotent, so it needs no memory of them.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	Events notes.Recorder
	// Markers and Liveness are as in Options.
	Markers, Liveness bool

	pending control.Batch
	// reported maps each node to the objects that events have reported.
	reported sync.Map
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodepodprobes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=podprobemarkers,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// setUp adds the controller to mgr.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Markers: o.Markers, Liveness: o.Liveness,
		Events: notes.New(mgr.GetEventRecorder(control.Name(kind))),
	}
	b := ctrl.NewControllerManagedBy(mgr)
	if o.Markers {
		b.Watches(&appsv1alpha1.PodProbeMarker{}, r.pending.Handler(handler.EnqueueRequestsFromMapFunc(r.forMarker), o.Clock), control.Updates(specChanged))
	}
	err := b.
		Named(control.Name(kind)).
		For(&appsv1alpha1.NodePodProbe{}, control.Updates(specChanged)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(forNode), control.Updates(nodeChanged)).
		Watches(&corev1.Pod{}, r.pending.Handler(handler.EnqueueRequestsFromMapFunc(r.forPod), o.Clock), control.Updates(podChanged)).
		WithOptions(control.Queue(o.Workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for the NodePodProbe of one node.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if o.node == nil && o.probe == nil {
		r.pending.Forget(req.NamespacedName)
		r.reported.Delete(req.Name)
		return ctrl.Result{}, nil
	}
	start := r.Clock.Now()
	p := plan(o)
	now := r.Clock.Now()
	measure.PlanSeconds.Observe(now.Sub(start).Seconds())
	r.pending.Took(req.NamespacedName, now.Sub(began), now)
	for _, reason := range p.left {
		measure.Wait(reason)
	}
	r.recordExcess(req.Name, p.excess)
	if p.step == "" {
		return ctrl.Result{}, nil
	}
	behind, err := r.cacheIsBehind(ctx, req.Name, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	if behind { // The watch event that the cache lacks starts the next reconcile.
		measure.Wait(metric.ReasonCache)
		return ctrl.Result{}, nil
	}
	measure.Count(p.step, p.reason, 1)
	return ctrl.Result{}, r.apply(ctx, req.Name, o, p)
}

// recordExcess records an event for each object that has probes left out on a node, once until they fit again.
func (r *Reconciler) recordExcess(node string, all []excess) {
	previous, _ := r.reported.Load(node)
	before, _ := previous.(map[types.UID]bool)
	now := make(map[types.UID]bool, len(all))
	for _, e := range all {
		now[e.object.GetUID()] = true
		measure.Waits.WithLabelValues(reasonRoom).Add(float64(e.probes))
		if !before[e.object.GetUID()] {
			r.Events.Record(e.object, notes.Warning(reasonLeftOut, actionProbe, "%s", e.note(node)))
		}
	}
	r.reported.Store(node, now)
}

// index adds the indexes of the controller.
func index(ctx context.Context, i client.FieldIndexer) error {
	return errors.Join(ownership.IndexByNode(ctx, i),
		ownership.AddIndex(ctx, i, "NodePodProbes by PodProbeMarker", &appsv1alpha1.NodePodProbe{}, markerIndex, func(o client.Object) []string {
			n, ok := o.(*appsv1alpha1.NodePodProbe)
			if !ok {
				return nil
			}
			return markersOf(n)
		}))
}

// markersOf returns the PodProbeMarkers of the probes of a NodePodProbe, as namespace/name.
func markersOf(n *appsv1alpha1.NodePodProbe) []string {
	markers := map[string]bool{}
	for i := range n.Spec.PodProbes {
		pod := &n.Spec.PodProbes[i]
		for j := range pod.Probes {
			if m := podprobe.Marker(pod.Probes[j].Name); m != "" {
				markers[pod.Namespace+"/"+m] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(markers))
}

// specChanged reports whether an update of an object changes what it asks for.
func specChanged(before, after client.Object) bool {
	return before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
}

// nodeChanged reports whether an update of a node matters.
func nodeChanged(before, after client.Object) bool {
	a, isOne := before.(*corev1.Node)
	b, isOther := after.(*corev1.Node)
	return !isOne || !isOther || a.UID != b.UID || nodefit.Virtual(a) != nodefit.Virtual(b)
}

// podChanged reports whether an update of a pod matters.
func podChanged(before, after client.Object) bool {
	a, isOne := before.(*corev1.Pod)
	b, isOther := after.(*corev1.Pod)
	return !isOne || !isOther || a.UID != b.UID || a.Spec.NodeName != b.Spec.NodeName || a.Status.PodIP != b.Status.PodIP ||
		podprobe.Due(a) != podprobe.Due(b) || !maps.Equal(a.Labels, b.Labels) ||
		a.Annotations[keys.ContainerProbeContext] != b.Annotations[keys.ContainerProbeContext] ||
		podprobe.AsksForLiveness(a) != podprobe.AsksForLiveness(b) || podprobe.AsksForLiveness(b) && !slices.Equal(startedIDs(a), startedIDs(b))
}

// startedIDs are the IDs of the containers of a pod that have started up.
func startedIDs(pod *corev1.Pod) []string {
	out := make([]string, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		out = append(out, podprobe.Started(pod, pod.Spec.Containers[i].Name))
	}
	return out
}

// forNode returns a node that is or may be probed.
func forNode(_ context.Context, o client.Object) []ctrl.Request { return requestsForNodes(o.GetName()) }

func requestsForNodes(nodes ...string) []ctrl.Request {
	out := make([]ctrl.Request, 0, len(nodes))
	for _, node := range nodes {
		out = append(out, ctrl.Request{NamespacedName: types.NamespacedName{Name: node}})
	}
	return out
}

// forPod returns the node of a pod that is or may be probed.
func (r *Reconciler) forPod(ctx context.Context, o client.Object) []ctrl.Request {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	markers, err := r.markers(ctx, pod.Namespace)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not determine whether a pod is probed", "pod", client.ObjectKeyFromObject(pod))
		return requestsForNodes(pod.Spec.NodeName)
	}
	n := &appsv1alpha1.NodePodProbe{}
	_, err = ownership.Get(ctx, r.Client, types.NamespacedName{Name: pod.Spec.NodeName}, n, client.UnsafeDisableDeepCopy)
	if err != nil || r.isProbed(pod, markers, n) {
		return requestsForNodes(pod.Spec.NodeName)
	}
	return nil
}

// isProbed reports whether a pod is probed, or may have to be. n is the NodePodProbe of its node, nil or empty if there is none.
func (r *Reconciler) isProbed(pod *corev1.Pod, markers podprobe.Markers, n *appsv1alpha1.NodePodProbe) bool {
	return pod.Spec.NodeName != "" && (len(markers.Of(pod)) > 0 || r.Liveness && podprobe.AsksForLiveness(pod) || n != nil && podprobe.Find(n, pod.UID) != nil)
}

// forMarker returns the nodes that a PodProbeMarker concerns.
func (r *Reconciler) forMarker(ctx context.Context, o client.Object) []ctrl.Request {
	m, ok := o.(*appsv1alpha1.PodProbeMarker)
	if !ok {
		return nil
	}
	var list appsv1alpha1.NodePodProbeList
	var pods corev1.PodList
	err := errors.Join(
		r.Client.List(ctx, &list, client.MatchingFields{markerIndex: client.ObjectKeyFromObject(m).String()}, client.UnsafeDisableDeepCopy),
		r.Client.List(ctx, &pods, client.InNamespace(m.Namespace), client.UnsafeDisableDeepCopy),
	)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the nodes of a PodProbeMarker", "podProbeMarker", client.ObjectKeyFromObject(m))
	}
	have := make([]*appsv1alpha1.NodePodProbe, len(list.Items))
	for i := range list.Items {
		have[i] = &list.Items[i]
	}
	all := make([]*corev1.Pod, len(pods.Items))
	for i := range pods.Items {
		all[i] = &pods.Items[i]
	}
	return requestsForNodes(nodesOf(m, have, all)...)
}

// nodesOf returns the nodes of the pods that a PodProbeMarker selects, and those that have probes of it.
func nodesOf(m *appsv1alpha1.PodProbeMarker, have []*appsv1alpha1.NodePodProbe, pods []*corev1.Pod) []string {
	nodes := map[string]bool{}
	for _, n := range have {
		if slices.Contains(markersOf(n), client.ObjectKeyFromObject(m).String()) {
			nodes[n.Name] = true
		}
	}
	markers := podprobe.MarkersOf([]appsv1alpha1.PodProbeMarker{*m})
	for _, pod := range pods {
		if pod.Namespace == m.Namespace && podprobe.Due(pod) && len(markers.Of(pod)) > 0 {
			nodes[pod.Spec.NodeName] = true
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}

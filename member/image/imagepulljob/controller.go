package imagepulljob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	notes "github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/gather"
	"github.com/flotilla-io/flotilla/pkg/imagepull"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/nodelease"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Options tune the controller.
type Options struct {
	// Workers is how many ImagePullJobs are reconciled at once; 0 means 3.
	Workers int
	// Parallel is how many NodeImages are written at once for one job; 0 means podcontrol.Parallel.
	Parallel int
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.Clock
	// Daemons tracks on which nodes a daemon that pulls images is alive; nil means that nothing is known.
	Daemons *nodelease.Tracker
}

// Reconciler reconciles ImagePullJobs.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Clock is the clock.
	Clock clock.PassiveClock
	// Expect has the writes that the cache does not show yet.
	Expect *expect.Store
	// Events sends events.
	Events notes.Recorder
	// Parallel is how many writes run at once, at least 1.
	Parallel int
	// Daemons reports what the daemon of a node does; nil means that nothing is known.
	Daemons interface {
		Does(node, what string) bool
	}

	pending gather.Events
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs/status,verbs=update;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodeimages,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the controller to mgr.
func Setup(mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	if o.Parallel == 0 {
		o.Parallel = podcontrol.Parallel
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Expect: expect.New(kind, o.Clock, o.ExpectationTimeout),
		Events: notes.New(mgr.GetEventRecorder(podcontrol.ControllerName(kind))), Parallel: o.Parallel,
	}
	changes := func(changed func(was, is client.Object) bool) builder.Predicates {
		return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) }})
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(kind)).
		For(&appsv1beta1.ImagePullJob{}).
		Watches(&appsv1beta1.NodeImage{}, r.pending.Handler(r.nodes(), o.Clock)).
		Watches(&corev1.Pod{}, r.pending.Handler(handler.EnqueueRequestsFromMapFunc(r.forPod), o.Clock), changes(podChanged)).
		WithOptions(podcontrol.Queue(o.Workers))
	if o.Daemons != nil {
		r.Daemons = o.Daemons
		b.WatchesRawSource(o.Daemons.Source(mgr.GetCache(), r.forDaemon))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one ImagePullJob. Entries of one that is gone are removed by the controller of NodeImages.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.pending.Forget(req.NamespacedName)
		}
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	p := plan(o, began)
	now := r.Clock.Now()
	measure.PlanSeconds.Observe(now.Sub(began).Seconds())
	count(p)
	r.pending.Took(req.NamespacedName, now.Sub(began), now)
	a := r.apply(ctx, o, p)
	if a.gone {
		return ctrl.Result{}, a.err
	}
	s, events := status(o, p, a, now)
	w := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events, Owner: fieldOwner}
	_, err = w.Write(ctx, o.job, o.job.Status, s, events)
	return w.Result(o.job, p.recheck, errors.Join(a.err, err))
}

// placeChanged reports whether jobs may select a node that they did not select, or the other way round.
func placeChanged(was, is client.Object) bool {
	return !maps.Equal(was.GetLabels(), is.GetLabels()) || (was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil)
}

// placeFreed reports whether a NodeImage has room for images of jobs that had to wait for it.
func placeFreed(was, is client.Object) bool {
	before, isOne := was.(*appsv1beta1.NodeImage)
	after, isOther := is.(*appsv1beta1.NodeImage)
	if !isOne || !isOther {
		return false
	}
	had, _ := imagepull.Taken(before, "")
	has, _ := imagepull.Taken(after, "")
	return had >= imagepull.Crowded && has < had
}

// podChanged reports whether an update of a pod matters.
func podChanged(was, is client.Object) bool {
	a, isOne := was.(*corev1.Pod)
	b, isOther := is.(*corev1.Pod)
	return !isOne || !isOther || a.Spec.NodeName != b.Spec.NodeName || podpatch.Active(a) != podpatch.Active(b) || !maps.Equal(a.Labels, b.Labels)
}

// nodes requests the jobs that an event of a NodeImage concerns.
func (r *Reconciler) nodes() handler.Funcs {
	add := func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request], was, is client.Object) {
		for _, req := range r.forNode(ctx, was, is) {
			q.Add(req)
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, nil, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object, nil) },
	}
}

// forNode returns the owners of entries of a NodeImage, before or after an event. Only if jobs may select it that did not, or the other
// way round, or get a place that they waited for, those are looked for. was is nil for a new one, is for one that is deleted.
func (r *Reconciler) forNode(ctx context.Context, was, is client.Object) []ctrl.Request {
	of := map[types.NamespacedName]bool{}
	for _, o := range []client.Object{was, is} {
		n, ok := o.(*appsv1beta1.NodeImage)
		if !ok || n == nil {
			continue
		}
		for _, image := range n.Spec.Images {
			for i := range image.Tags {
				for _, owner := range image.Tags[i].OwnerReferences {
					of[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}] = true
				}
			}
		}
	}
	var out []ctrl.Request
	if was == nil || is == nil || placeChanged(was, is) || placeFreed(was, is) {
		out = ownership.RequestsFor(ctx, r.Client, &appsv1beta1.ImagePullJobList{}, "", func(job *appsv1beta1.ImagePullJob) bool {
			return job.Status.CompletionTime == nil && !of[client.ObjectKeyFromObject(job)]
		})
	}
	for key := range of {
		out = append(out, ctrl.Request{NamespacedName: key})
	}
	return out
}

// forDaemon returns the jobs that want something of a node.
func (r *Reconciler) forDaemon(ctx context.Context, node string) []ctrl.Request {
	n := &appsv1beta1.NodeImage{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: node}, n); err != nil {
		return nil // If it comes, its own event does.
	}
	return r.forNode(ctx, n, n)
}

// forPod returns the jobs that select a pod.
func (r *Reconciler) forPod(ctx context.Context, o client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.ImagePullJobList{}, o.GetNamespace(), func(job *appsv1beta1.ImagePullJob) bool {
		return job.Status.CompletionTime == nil && job.Spec.PodSelector != nil && ownership.Selects(job.Spec.PodSelector, o)
	})
}

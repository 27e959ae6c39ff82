package imagepulljob

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// options tune the controller.
type options struct {
	control.Options

	// Daemons tracks on which nodes a daemon that pulls images is alive; nil means that nothing is known.
	Daemons *nodelease.Tracker
}

// Reconciler reconciles ImagePullJobs.
type Reconciler struct {
	*control.Controller

	// Daemons reports what the daemon of a node does; nil means that nothing is known.
	Daemons interface {
		Does(node, what string) bool
	}
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs/status,verbs=update;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodeimages,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// setUp adds the controller to mgr.
func setUp(mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	r := &Reconciler{Controller: control.New(mgr, kind, fieldOwner, o.Options)}
	b := control.NewBuilder(mgr, kind, o.Workers).
		For(&appsv1beta1.ImagePullJob{}).
		Watches(&appsv1beta1.NodeImage{}, r.Gather(r.nodeHandler())).
		Watches(&corev1.Pod{}, r.Gather(handler.EnqueueRequestsFromMapFunc(r.forPod)), control.Updates(podChanged))
	if o.Daemons != nil {
		r.Daemons = o.Daemons
		b.WatchesRawSource(o.Daemons.Source(mgr.GetCache(), r.forDaemon))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one ImagePullJob. The NodeImage controller removes the entries of a job that is gone.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	r.Planned(measure, req, began, now)
	count(p)
	a := r.apply(ctx, o, p)
	if a.gone {
		return ctrl.Result{}, a.err
	}
	s, events := status(o, p, a, now)
	recheck := timing.Sooner(p.recheck, a.retry)
	return r.Report(ctx, control.Outcome{Object: o.job, Was: o.job.Status, Is: s, Events: events, Recheck: recheck, Err: a.err})
}

// placeChanged reports whether jobs may select a node that they did not select, or the other way round.
func placeChanged(old, updated client.Object) bool {
	return !maps.Equal(old.GetLabels(), updated.GetLabels()) || (old.GetDeletionTimestamp() == nil) != (updated.GetDeletionTimestamp() == nil)
}

// placeFreed reports whether an update makes room in a NodeImage for images of jobs that had to wait for it.
func placeFreed(old, updated client.Object) bool {
	before, oldOK := old.(*appsv1beta1.NodeImage)
	after, updatedOK := updated.(*appsv1beta1.NodeImage)
	if !oldOK || !updatedOK {
		return false
	}
	takenBefore, _ := imagepull.Taken(before, "")
	takenAfter, _ := imagepull.Taken(after, "")
	return takenBefore >= imagepull.Crowded && takenAfter < takenBefore
}

// podChanged reports whether an update of a pod matters.
func podChanged(old, updated client.Object) bool {
	a, oldOK := old.(*corev1.Pod)
	b, updatedOK := updated.(*corev1.Pod)
	return !oldOK || !updatedOK || a.Spec.NodeName != b.Spec.NodeName || podpatch.Active(a) != podpatch.Active(b) || !maps.Equal(a.Labels, b.Labels)
}

// nodeHandler enqueues the jobs that an event of a NodeImage concerns.
func (r *Reconciler) nodeHandler() handler.Funcs {
	add := func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request], old, updated client.Object) {
		for _, req := range r.forNode(ctx, old, updated) {
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

// forNode returns the jobs that own entries of a NodeImage before or after an event. If the event may change which jobs select it, or makes room for
// jobs that wait, it also returns all other jobs that are not complete. old is nil for a new NodeImage, updated for a deleted one.
func (r *Reconciler) forNode(ctx context.Context, old, updated client.Object) []ctrl.Request {
	owners := map[types.NamespacedName]bool{}
	for _, o := range []client.Object{old, updated} {
		n, ok := o.(*appsv1beta1.NodeImage)
		if !ok || n == nil {
			continue
		}
		for _, image := range n.Spec.Images {
			for i := range image.Tags {
				for _, owner := range image.Tags[i].OwnerReferences {
					owners[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}] = true
				}
			}
		}
	}
	var out []ctrl.Request
	if old == nil || updated == nil || placeChanged(old, updated) || placeFreed(old, updated) {
		out = ownership.RequestsFor(ctx, r.Client, &appsv1beta1.ImagePullJobList{}, "", func(job *appsv1beta1.ImagePullJob) bool {
			return job.Status.CompletionTime == nil && !owners[client.ObjectKeyFromObject(job)]
		})
	}
	for key := range owners {
		out = append(out, ctrl.Request{NamespacedName: key})
	}
	return out
}

// forDaemon returns the jobs that own entries of the NodeImage of a node.
func (r *Reconciler) forDaemon(ctx context.Context, node string) []ctrl.Request {
	n := &appsv1beta1.NodeImage{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: node}, n); err != nil {
		return nil // When it is created, its own event enqueues the jobs.
	}
	return r.forNode(ctx, n, n)
}

// forPod returns the jobs that select a pod.
func (r *Reconciler) forPod(ctx context.Context, o client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.ImagePullJobList{}, o.GetNamespace(), func(job *appsv1beta1.ImagePullJob) bool {
		return job.Status.CompletionTime == nil && job.Spec.PodSelector != nil && ownership.Selects(job.Spec.PodSelector, o)
	})
}

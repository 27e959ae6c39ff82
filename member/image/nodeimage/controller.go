package nodeimage

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	notes "github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

// defaultDelay is how long a node has to be ready before it gets a NodeImage, by default.
const defaultDelay = 30 * time.Second

// jobIndex is the index of NodeImages by the UIDs of the jobs that own entries.
const jobIndex = "jobs"

// options tune the controller.
type options struct {
	// Workers is how many NodeImages are reconciled at once; 0 means 3.
	Workers int
	// Delay is how long a node has to be ready before it gets a NodeImage.
	Delay time.Duration
	// Clock is required.
	Clock clock.PassiveClock
}

// Reconciler reconciles the NodeImages of nodes. Each write carries the resourceVersion that was read, so it needs no memory of its writes.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	Events notes.Recorder
	// Delay is as in Options.
	Delay time.Duration
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodeimages,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodeimages/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// setUp adds the controller to mgr.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Delay: o.Delay,
		Events: notes.New(mgr.GetEventRecorder(control.Name(kind))),
	}
	err := control.NewBuilder(mgr, kind, o.Workers).
		For(&appsv1beta1.NodeImage{}).
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, control.Updates(nodeChanged)).
		Watches(&appsv1beta1.ImagePullJob{}, handler.EnqueueRequestsFromMapFunc(r.forJob), control.Updates(jobChanged)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for the NodeImage of one node.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.Clock.Now()
	p := plan(o, now, r.Delay)
	if err := r.apply(ctx, req.Name, o, p, now); err != nil {
		return ctrl.Result{}, fmt.Errorf("NodeImage %s: %w", req.Name, err)
	}
	return ctrl.Result{RequeueAfter: p.recheck}, nil
}

// index indexes NodeImages by the jobs that own entries.
func index(ctx context.Context, i client.FieldIndexer) error {
	err := i.IndexField(ctx, &appsv1beta1.NodeImage{}, jobIndex, func(o client.Object) []string {
		n, ok := o.(*appsv1beta1.NodeImage)
		if !ok {
			return nil
		}
		return imagepull.Owners(n)
	})
	if err != nil {
		return fmt.Errorf("index NodeImages: %w", err)
	}
	return nil
}

// nodeChanged reports whether an update of a node matters: not its heartbeats.
func nodeChanged(old, updated client.Object) bool {
	a, oldOK := old.(*corev1.Node)
	b, updatedOK := updated.(*corev1.Node)
	return !oldOK || !updatedOK || a.UID != b.UID || ready(a) != ready(b) || !maps.Equal(a.Labels, b.Labels)
}

func ready(n *corev1.Node) bool {
	_, ok := readySince(n)
	return ok
}

// jobChanged reports whether an update of a job matters: that it is complete or being deleted.
func jobChanged(old, updated client.Object) bool {
	a, oldOK := old.(*appsv1beta1.ImagePullJob)
	b, updatedOK := updated.(*appsv1beta1.ImagePullJob)
	return !oldOK || !updatedOK || a.UID != b.UID || (a.Status.CompletionTime == nil) != (b.Status.CompletionTime == nil) ||
		a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero()
}

// forJob returns the NodeImages with entries of a job.
func (r *Reconciler) forJob(ctx context.Context, job client.Object) []ctrl.Request {
	var list appsv1beta1.NodeImageList
	err := r.Client.List(ctx, &list, client.MatchingFields{jobIndex: string(job.GetUID())}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the NodeImages of an ImagePullJob", "job", client.ObjectKeyFromObject(job))
		return nil
	}
	out := make([]ctrl.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, ctrl.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
	}
	return out
}

package image

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/member/node/background"
	"github.com/flotilla-io/flotilla/member/node/other"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/credentialprovider"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/noded/pullsecret"
)

// A policy of the chart limits writes to the NodeImage of the daemon's own node.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodeimages,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodeimages/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reasons of events on NodeImages. Source: OpenKruise.
const (
	// reasonSucceeded: the node has the image.
	reasonSucceeded = "PullImageSucceed"
	// ReasonFailed: no further attempt is made.
	ReasonFailed = "PullImageFailed"

	action = "PullImage"
)

// fieldOwner is the name under which the daemon writes.
const fieldOwner = client.FieldOwner("flotilla-noded")

// DefaultLimit is how many images are pulled at once on a node by default.
const DefaultLimit = 8

// Options are what Setup needs. All but Limit and Providers are required.
type Options struct {
	// Node is the name of the node.
	Node     string
	Runtimes runtimes
	Clock    clock.Clock
	Events   event.Recorder
	// Limit is how many images are pulled at once; 0 means any number.
	Limit int
	// Providers are the credential provider plugins of the node; nil if it has none.
	Providers *credentialprovider.Providers
}

// Reconciler pulls the images that the NodeImage of one node lists.
type Reconciler struct {
	// Client reads from a cache of the one NodeImage and of the pods of the node, and writes.
	Client client.Client
	Clock  clock.Clock
	Events event.Recorder
	Limit  int
	// Key decrypts the sealed credentials.
	Key *pullsecret.Key
	// Life ends the pulls with the process.
	Life context.Context //nolint:containedctx // Pulls outlive the reconcile that begins them.

	pulls pulls
}

// Setup adds the controller to a manager whose cache has the NodeImage of the node. Pulls end with ctx.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of image pulls: %w", err)
	}
	key, err := pullsecret.NewKey()
	if err != nil {
		return err
	}
	ended, requests := background.Requests(&appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: o.Node}})
	r := &Reconciler{Client: mgr.GetClient(), Clock: o.Clock, Events: o.Events, Limit: o.Limit, Key: key, Life: ctx}
	r.pulls = pulls{runtimes: o.Runtimes, providers: o.Providers, clock: o.Clock, ended: ended}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("image").
		For(&appsv1beta1.NodeImage{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.Node}}}
		}), builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			pod, ok := o.(*corev1.Pod)
			return ok && other.Is(pod)
		}))).
		WatchesRawSource(requests).
		WithOptions(background.Queue()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of image pulls: %w", err)
	}
	return nil
}

// Reconcile begins and ends pulls, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	n := &appsv1beta1.NodeImage{}
	err := r.Client.Get(ctx, req.NamespacedName, n)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get NodeImage %s: %w", req.Name, err)
	}
	if err != nil || n.DeletionTimestamp != nil {
		n = &appsv1beta1.NodeImage{} // Nothing is wanted.
	}
	otherPod, err := other.Runs(ctx, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if otherPod != "" {
		ctrl.LoggerFrom(ctx).V(1).Info("Leaving images to another node daemon", "pod", otherPod)
		n = &appsv1beta1.NodeImage{}
	}
	now := r.Clock.Now()
	p := plan(n, r.pulls.States(), r.Limit, r.Key.Public(), now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	r.pulls.End(append(p.cancel, p.forget...)...)
	measure.Count(stepCancel, reasonGone, len(p.cancel))
	if n.Name == "" {
		return ctrl.Result{}, nil
	}
	for _, o := range p.begin {
		if c := o.credentials; c != nil {
			// Credentials that can't be decrypted don't prevent the pull: the runtime may need none, and its error says so if it does.
			if o.logins, err = r.Key.Open(c.Sealed, pullsecret.For{Node: n.Name, Image: o.ref.String()}); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Pulling without credentials")
			}
		}
		r.pulls.begin(r.Life, o) //nolint:contextcheck // It outlives the reconcile.
		measure.Count(stepBegin, reasonWanted, 1)
	}
	if !p.changed {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.write(ctx, n, p.status)
}

// write writes the status at the resourceVersion that was read, because the manager writes it as well. After a conflict the event of the other write
// starts the next reconcile.
func (r *Reconciler) write(ctx context.Context, n *appsv1beta1.NodeImage, s appsv1beta1.NodeImageStatus) error {
	next := n.DeepCopy()
	next.Status = s
	err := r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(n, client.MergeFromWithOptimisticLock{}), fieldOwner)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("report on NodeImage %s: %w", n.Name, err)
	}
	for name, image := range s.ImageStatuses {
		for i := range image.Tags {
			after, ref := &image.Tags[i], imagepull.Reference{Name: name, Tag: image.Tags[i].Tag}
			if before := imagepull.State(n, ref); before != nil && before.Version == after.Version && before.Phase == after.Phase ||
				!imagepull.Done(after.Phase) {
				continue
			}
			if after.Phase == appsv1beta1.ImagePhaseFailed {
				r.Events.Record(n, event.Warning(ReasonFailed, action, "image %s: %s", ref, after.Message))
				continue
			}
			r.Events.Record(n, event.Normal(reasonSucceeded, action, "pulled image %s in %s", ref, pullDuration(after)))
		}
	}
	return nil
}

func pullDuration(s *appsv1beta1.ImageTagStatus) time.Duration {
	if s.StartTime == nil || s.CompletionTime == nil {
		return 0
	}
	return s.CompletionTime.Sub(s.StartTime.Time)
}

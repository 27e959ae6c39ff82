package daemonset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/gather"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/nodelease"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=daemonsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=daemonsets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=daemonsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/resize;pods/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// component is the reporter of events.
const component = "daemonset-controller"

// Options tune the controller.
type Options struct {
	// Workers is how many DaemonSets are worked on at once; 0 means 3.
	Workers int
	// Parallel is how many requests run at once for one DaemonSet; 0 means podcontrol.Parallel.
	Parallel int
	// ExpectationTimeout is how long to wait for the cache to show our writes before reading from the apiserver; 0 means
	// five minutes.
	ExpectationTimeout time.Duration
	// Clock tells the time. Required.
	Clock clock.PassiveClock
	// Edits are the changes that pods may take over in place.
	Edits inplace.Options
	// Daemons knows on which nodes a node daemon lives; nil means on none.
	Daemons *nodelease.Tracker
}

// Reconciler brings DaemonSets to what they shall be.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the apiserver.
	Live client.Reader
	// Clock tells the time.
	Clock clock.PassiveClock
	// Expect holds what the cache must show.
	Expect *expect.Store
	// Events sends events.
	Events event.Recorder
	// Parallel is how many requests run at once for one DaemonSet; 0 means podcontrol.Parallel.
	Parallel int
	// Edits are the changes that pods may take over in place.
	Edits inplace.Options
	// Draw draws that many letters and digits of a new pod's name by lot; nil means by String of util/rand.
	Draw func(length int) string
	// Daemons tells whether a node daemon lives on a node; nil means on none.
	Daemons nodelease.Liveness

	events   gather.Events
	throttle report.Throttle
	overlaps ownership.OverlapScanner
	failures failures
}

// New returns a Reconciler that takes over pods of nobody; the caller fills in the rest.
func New() *Reconciler { return &Reconciler{overlaps: ownership.OverlapScanner{Adopts: adopts}} }

// Setup adds the controller to mgr. The webhook is registered apart from it, because it may run without the controller.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	err := errors.Join(Register(metrics.Registry), ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &corev1.Pod{}, &appsv1.ControllerRevision{}))
	if err != nil {
		return fmt.Errorf("set up metrics and indexes of DaemonSet: %w", err)
	}
	r := New()
	r.Client, r.Live, r.Clock, r.Parallel, r.Edits = mgr.GetClient(), mgr.GetAPIReader(), o.Clock, o.Parallel, o.Edits
	r.Expect = expect.New(kind(), o.Clock, o.ExpectationTimeout)
	r.Events = event.New(mgr.GetEventRecorder(component))
	b := ctrl.NewControllerManagedBy(mgr)
	if o.Daemons != nil && o.Edits.Env {
		if err := ownership.IndexByNode(ctx, mgr.GetFieldIndexer()); err != nil {
			return err
		}
		r.Daemons = o.Daemons
		b = b.WatchesRawSource(o.Daemons.Source(mgr.GetCache(), ownership.RequestsForNode(mgr.GetClient(), Kind())))
	}
	ofOwner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &appsv1beta1.DaemonSet{}, handler.OnlyControllerOwner())
	err = b.Named("daemonset").
		For(&appsv1beta1.DaemonSet{}).
		Watches(&corev1.Pod{}, r.events.Handler(ofOwner)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofNobody)).
		Watches(&corev1.Node{}, r.events.Handler(onNodes(r.Client))).
		Owns(&appsv1.ControllerRevision{}).
		WithOptions(podcontrol.Queue(o.Workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of DaemonSet: %w", err)
	}
	return nil
}

// ofNobody are the sets that take over a pod which nobody controls. They look for it at once.
func (r *Reconciler) ofNobody(ctx context.Context, o client.Object) []ctrl.Request {
	pod, isPod := o.(*corev1.Pod)
	if !isPod || metav1.GetControllerOfNoCopy(pod) != nil {
		return nil
	}
	out := ownership.RequestsFor(ctx, r.Client, &appsv1beta1.DaemonSetList{}, pod.Namespace, func(set *appsv1beta1.DaemonSet) bool {
		return adopts(set, pod) && ownership.Selects(set.Spec.Selector, pod)
	})
	for _, req := range out {
		r.overlaps.Forget(req.NamespacedName)
	}
	return out
}

// Reconcile does the next step for one DaemonSet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.forget(req.NamespacedName)
		} else {
			r.events.Took(req.NamespacedName, r.Clock.Since(began))
		}
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	if len(o.left) > 0 {
		return r.takeOver(ctx, o)
	}
	now := r.Clock.Now()
	w := plan(o, now)
	podcontrol.Count(measure, &w.Plan, r.Clock.Since(now))
	r.events.Took(req.NamespacedName, r.Clock.Since(began))
	d := r.apply(ctx, o, w)
	podcontrol.CountHolds(measure, d.Holds())
	s, events := status(o, w, d, now)
	writer := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events}
	later, err := r.throttle.Write(ctx, writer, o.set, o.set.Status, s, countsOnly(o.set.Status, s), r.Clock.Now(), events)
	return ctrl.Result{RequeueAfter: podset.SoonerOf(podset.SoonerOf(w.Recheck, d.Recheck()), later)}, errors.Join(d.Err(), err)
}

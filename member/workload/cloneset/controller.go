package cloneset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/gather"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/nodelease"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/resize;pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// component is the reporter of events.
const component = "cloneset-controller"

// Options tune the controller.
type Options struct {
	// Workers is how many CloneSets are worked on at once; 0 means 3.
	Workers int
	// Parallel is how many requests run at once for one CloneSet; 0 means podcontrol.Parallel.
	Parallel int
	// ExpectationTimeout is how long to wait for the cache to show our writes before reading from the apiserver; 0 means
	// five minutes.
	ExpectationTimeout time.Duration
	// Clock tells the time; nil means the system's.
	Clock clock.PassiveClock
	// Gates are the feature gates.
	Gates Gates
	// Daemons knows on which nodes a node daemon lives; nil means on none.
	Daemons *nodelease.Tracker
}

// Reconciler brings CloneSets to what they shall be.
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
	// Parallel is how many requests run at once for one CloneSet; 0 means podcontrol.Parallel.
	Parallel int
	// Gates are the feature gates.
	Gates Gates
	// Draw draws that many letters and digits of a new pod's name by lot; nil means by String of util/rand.
	Draw func(length int) string
	// Daemons tells whether a node daemon lives on a node; nil means on none.
	Daemons nodelease.Liveness

	events   gather.Events
	throttle report.Throttle
	overlaps ownership.OverlapScanner
}

// Setup adds the controller to mgr. The webhook is registered apart from it, because it may run without the controller.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of CloneSet: %w", err)
	}
	err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &appsv1.ControllerRevision{})
	if err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Parallel: o.Parallel, Gates: o.Gates,
		Expect: expect.New(Kind().Kind, o.Clock, o.ExpectationTimeout),
		Events: event.New(mgr.GetEventRecorder(component)),
	}
	ofOwner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &appsv1beta1.CloneSet{}, handler.OnlyControllerOwner())
	b := ctrl.NewControllerManagedBy(mgr)
	if o.Daemons != nil && o.Gates.EnvFromMetadata {
		if err := ownership.IndexByNode(ctx, mgr.GetFieldIndexer()); err != nil {
			return err
		}
		r.Daemons = o.Daemons
		b = b.WatchesRawSource(o.Daemons.Source(mgr.GetCache(), ownership.RequestsForNode(mgr.GetClient(), Kind())))
	}
	err = b.Named("cloneset").
		For(&appsv1beta1.CloneSet{}).
		Watches(&corev1.Pod{}, r.events.Handler(ofOwner)).
		Owns(&corev1.PersistentVolumeClaim{}).
		Owns(&appsv1.ControllerRevision{}).
		WithOptions(podcontrol.Queue(o.Workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of CloneSet: %w", err)
	}
	return nil
}

// Reconcile does the next step for one CloneSet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if !errors.Is(err, expect.ErrGone) {
			r.events.Took(req.NamespacedName, r.Clock.Since(began))
		}
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	now := r.Clock.Now()
	w := plan(o, now)
	podcontrol.Count(measure, &w.Plan, r.Clock.Since(now))
	r.events.Took(req.NamespacedName, r.Clock.Since(began))
	d := r.apply(ctx, o, w)
	podcontrol.CountHolds(measure, d.Holds())
	s, events := status(o, w, d, now)
	if d.set != nil {
		o.set = d.set // The status applies to no other version.
	}
	later, err := r.report(ctx, o, s, events)
	return ctrl.Result{RequeueAfter: podset.SoonerOf(podset.SoonerOf(w.Recheck, d.Recheck()), later)}, errors.Join(d.err(), err)
}

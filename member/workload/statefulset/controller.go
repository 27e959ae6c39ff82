package statefulset

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
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/nodelease"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/resize;pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// component is the reporter of events.
const component = "statefulset-controller"

// Options tune the controller.
type Options struct {
	// Workers is how many StatefulSets are worked on at once; 0 means 3.
	Workers int
	// Parallel is how many requests run at once for one StatefulSet; 0 means podcontrol.Parallel.
	Parallel int
	// ExpectationTimeout is how long to wait for the cache to show our writes before reading from the apiserver; 0 means
	// five minutes.
	ExpectationTimeout time.Duration
	// Clock tells the time. Required.
	Clock clock.PassiveClock
	// Gates are the feature gates, Edits the changes that pods may take over in place.
	Gates Gates
	Edits inplace.Options
	// Daemons knows on which nodes a node daemon lives; nil means on none.
	Daemons *nodelease.Tracker
}

// Reconciler brings StatefulSets to what they shall be.
type Reconciler struct {
	// Client reads from the cache and writes, Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Clock tells the time.
	Clock clock.PassiveClock
	// Expect holds what the cache must show.
	Expect *expect.Store
	// Events sends events.
	Events event.Recorder
	// Parallel is how many requests run at once for one StatefulSet; 0 means podcontrol.Parallel.
	Parallel int
	// Gates are the feature gates, Edits the changes that pods may take over in place.
	Gates Gates
	Edits inplace.Options
	// Daemons tells whether a node daemon lives on a node; nil means on none.
	Daemons nodelease.Liveness

	events   gather.Events
	throttle report.Throttle
	overlaps ownership.OverlapScanner
}

// Setup adds the controller to mgr. The webhook is registered apart from it, because it may run without the controller.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	err := errors.Join(Register(metrics.Registry), ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &corev1.Pod{}, &appsv1.ControllerRevision{}))
	if err != nil {
		return fmt.Errorf("set up metrics and indexes of StatefulSet: %w", err)
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Parallel: o.Parallel, Gates: o.Gates, Edits: o.Edits,
		Expect: expect.New(Kind().Kind, o.Clock, o.ExpectationTimeout),
		Events: event.New(mgr.GetEventRecorder(component)),
	}
	r.adopts()
	b := ctrl.NewControllerManagedBy(mgr).Named("statefulset").For(&appsv1beta1.StatefulSet{}).Owns(&appsv1.ControllerRevision{})
	if o.Daemons != nil && o.Edits.Env {
		if err := ownership.IndexByNode(ctx, mgr.GetFieldIndexer()); err != nil {
			return err
		}
		r.Daemons = o.Daemons
		b = b.WatchesRawSource(o.Daemons.Source(mgr.GetCache(), ownership.RequestsForNode(mgr.GetClient(), Kind())))
	}
	ofOwner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &appsv1beta1.StatefulSet{}, handler.OnlyControllerOwner())
	err = b.Watches(&corev1.Pod{}, r.events.Handler(ofOwner)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.requestsForOrphan)).
		Watches(&corev1.PersistentVolumeClaim{}, r.events.Handler(handler.EnqueueRequestsFromMapFunc(r.ofClaim))).
		WithOptions(podcontrol.Queue(o.Workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of StatefulSet: %w", err)
	}
	return nil
}

// Reconcile does the next step for one StatefulSet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	switch {
	case errors.Is(err, expect.ErrGone):
		return ctrl.Result{}, nil
	case err != nil:
		r.events.Took(req.NamespacedName, r.Clock.Since(began))
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	case len(o.orphanedRevisions) > 0:
		return r.applier(o).Adopt(ctx, r.Events, o.set, Kind(), "revisions", podcontrol.Objects(o.orphanedRevisions))
	}
	now := r.Clock.Now()
	w := plan(o, now)
	podcontrol.Count(measure, &w.Plan, r.Clock.Since(now))
	r.events.Took(req.NamespacedName, r.Clock.Since(began))
	d := r.apply(ctx, o, w)
	podcontrol.CountHolds(measure, d.Holds())
	s, events := status(o, w, d, now)
	later, err := r.throttle.Write(ctx, report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events}, o.set, o.set.Status, s,
		countsOnly(o.set, s), r.Clock.Now(), events)
	return ctrl.Result{RequeueAfter: podset.SoonerOf(podset.SoonerOf(w.Recheck, d.Recheck()), later)}, errors.Join(d.err(), err)
}

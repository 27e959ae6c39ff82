package uniteddeployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/united"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options tune the controller.
type Options struct {
	// Workers is how many UnitedDeployments are reconciled at once; 0 means 3.
	Workers int
	// ExpectationTimeout is how long to wait for the cache to show our writes before reading from the apiserver; 0 means
	// expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.PassiveClock
}

// Reconciler reconciles UnitedDeployments.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the apiserver.
	Live client.Reader
	// Clock is the clock.
	Clock clock.PassiveClock
	// Expect holds what the cache must show.
	Expect *expect.Store
	// Events sends events.
	Events event.Recorder

	throttle report.Throttle
}

// A change of status that may wait is collected for statusDelay, which is also the shortest time between two such writes. That a rollout
// has only begun in a slice of a hub, which nobody looks at, is collected for begunDelay: one of a few pods is over before that, and costs
// one write.
const (
	statusDelay = 2 * time.Second
	begunDelay  = 10 * time.Second
)

// Setup adds the controller to mgr. The webhook, united.Webhook, is registered apart from it, because it may run without
// the controller.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of UnitedDeployment: %w", err)
	}
	err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &appsv1beta1.CloneSet{}, &appsv1.Deployment{}, &appsv1.StatefulSet{},
		&appsv1beta1.StatefulSet{}, &appsv1.ControllerRevision{}, &corev1.Pod{})
	if err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock,
		Expect:   expect.New(Kind().Kind, o.Clock, o.ExpectationTimeout),
		Events:   event.New(mgr.GetEventRecorder(podcontrol.ControllerName(Kind().Kind))),
		throttle: report.Throttle{Interval: statusDelay, Collect: statusDelay},
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(Kind().Kind)).
		For(&appsv1beta1.UnitedDeployment{}).
		Owns(&appsv1beta1.CloneSet{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&appsv1beta1.StatefulSet{}).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.forPod), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e ctrlevent.UpdateEvent) bool { return placementChanged(e.ObjectOld, e.ObjectNew) },
		})).
		WithOptions(podcontrol.Queue(o.Workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of UnitedDeployment: %w", err)
	}
	return nil
}

// Reconcile takes the next step for one UnitedDeployment.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if errors.Is(err, expect.ErrGone) {
		r.throttle.Forget(req.NamespacedName)
	}
	if err != nil {
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	now := r.Clock.Now()
	p := plan(o, now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	count(p)
	a := r.apply(ctx, o, p)
	s, events := status(o, p, a, now)
	w := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events, Owner: fieldOwner}
	write, later := r.due(o, p, s, now)
	if !write {
		s = o.ud.Status
	}
	wrote, err := w.Write(ctx, o.ud, o.ud.Status, s, events)
	if wrote {
		r.throttle.Wrote(req.NamespacedName, now)
	}
	return w.Result(o.ud, report.Sooner(p.recheck, a.retry, later), errors.Join(a.err(), err))
}

// due returns whether to write the status now, and otherwise after how long; 0 if it is unchanged.
func (r *Reconciler) due(o observed, p planned, s appsv1beta1.UnitedDeploymentStatus, now time.Time) (write bool, later time.Duration) {
	key, changed, may := client.ObjectKeyFromObject(o.ud), !equality.Semantic.DeepEqual(o.ud.Status, s), mayWait(o.ud.Status, s, p)
	if may && united.Slice(o.ud) && onlyBegun(s, p) {
		return r.throttle.DueIn(key, changed, begunDelay, now)
	}
	return r.throttle.Due(key, changed, may, now)
}

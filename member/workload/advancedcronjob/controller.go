package advancedcronjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	notes "github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Options tune the controller.
type Options struct {
	// Workers is how many AdvancedCronJobs are reconciled at once; 0 means 3.
	Workers int
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.PassiveClock
	// Local is the zone of schedules that name none; nil means time.Local.
	Local *time.Location
}

// Reconciler reconciles AdvancedCronJobs.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Clock is the clock. Local is the zone of schedules that name none.
	Clock clock.PassiveClock
	Local *time.Location
	// Expect has the writes that the cache does not show yet.
	Expect *expect.Store
	// Events sends events.
	Events notes.Recorder

	memory memory
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=broadcastjobs;imagelistpulljobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the controller to mgr.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	children := []client.Object{&batchv1.Job{}, &appsv1beta1.BroadcastJob{}, &appsv1beta1.ImageListPullJob{}}
	if err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), children...); err != nil {
		return err
	}
	if o.Local == nil {
		o.Local = time.Local //nolint:gosmopolitan // It is the documented default, as in Kubernetes.
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Local: o.Local,
		Expect: expect.New(kind, o.Clock, o.ExpectationTimeout), Events: notes.New(mgr.GetEventRecorder(podcontrol.ControllerName(kind))),
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(kind)).
		For(&appsv1beta1.AdvancedCronJob{}).
		WithOptions(podcontrol.Queue(o.Workers))
	for _, child := range children {
		b = b.Owns(child)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one AdvancedCronJob. The garbage collector deletes the jobs of one that is deleted.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.memory.forget(req.NamespacedName)
		}
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	now := r.Clock.Now()
	p := plan(o, now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	if p.direct {
		if err := r.confirm(ctx, o); err != nil {
			return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
		}
	}
	count(p)
	a := r.apply(ctx, o, p, now)
	s, events := status(o, p, a, now)
	w := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events, Owner: fieldOwner}
	wrote, err := w.Write(ctx, o.cron, o.cron.Status, s, events)
	if wrote {
		countWritten(p, &o.cron.Status, &s)
		switch {
		case !p.start.IsZero():
			r.memory.note(o.cron, p.start, notCreated)
		case s.Pending == nil:
			r.memory.forget(req.NamespacedName)
		}
	}
	return w.Result(o.cron, p.recheck, errors.Join(a.err, err))
}

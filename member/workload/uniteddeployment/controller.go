package uniteddeployment

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
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

// Reconciler reconciles UnitedDeployments.
type Reconciler struct {
	*control.Controller
}

// A status change that may wait is collected for statusDelay, which is also the minimum time between two such writes. In a slice of a hub, nobody
// looks at the start of a rollout, so it is collected for begunDelay: a rollout of a few pods is over by then, and costs one write.
const (
	statusDelay = 2 * time.Second
	begunDelay  = 10 * time.Second
)

// Setup adds the controller to mgr. The webhook, united.Webhook, is registered separately, because it may run without the controller.
func Setup(ctx context.Context, mgr ctrl.Manager, o control.Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of UnitedDeployment: %w", err)
	}
	err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &appsv1beta1.CloneSet{}, &appsv1.Deployment{}, &appsv1.StatefulSet{},
		&appsv1beta1.StatefulSet{}, &appsv1.ControllerRevision{}, &corev1.Pod{})
	if err != nil {
		return err
	}
	r := &Reconciler{control.New(mgr, Kind().Kind, fieldOwner, o)}
	r.Throttle = report.Throttle{Interval: statusDelay, Collect: statusDelay}
	err = control.NewBuilder(mgr, Kind().Kind, o.Workers).
		For(&appsv1beta1.UnitedDeployment{}).
		Owns(&appsv1beta1.CloneSet{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&appsv1beta1.StatefulSet{}).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.forPod), control.Updates(placementChanged)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of UnitedDeployment: %w", err)
	}
	return nil
}

// Reconcile takes the next step for one UnitedDeployment.
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
	a := r.apply(ctx, o, p, now)
	s, events := status(o, p, a, now)
	return r.Report(ctx, control.Outcome{
		Object: o.ud, Was: o.ud.Status, Is: s, MayWait: mayWait(o.ud.Status, s, p), Collect: collectFor(o.ud, s, p), Events: events,
		Recheck: timing.Sooner(p.recheck, a.retry), Err: a.err(),
	})
}

// collectFor returns for how long a status that may wait is collected with later changes; 0 means for as long as others.
func collectFor(ud *appsv1beta1.UnitedDeployment, s appsv1beta1.UnitedDeploymentStatus, p planned) time.Duration {
	if united.Slice(ud) && onlyBegun(s, p) {
		return begunDelay
	}
	return 0
}

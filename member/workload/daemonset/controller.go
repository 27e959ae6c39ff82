package daemonset

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=daemonsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=daemonsets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=daemonsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/resize;pods/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// options tune the controller.
type options struct {
	podcontrol.Options
}

// Reconciler reconciles DaemonSets. The function adopts decides which orphans a set adopts.
type Reconciler struct {
	*podcontrol.Controller
	// Draw returns a random string for the name of a new pod; nil means String of util/rand.
	Draw func(length int) string

	failures control.Memory[failures]
}

// setUp adds the controller to mgr. The webhook is registered separately, because it may run without the controller.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of DaemonSet: %w", err)
	}
	r := &Reconciler{Controller: podcontrol.NewController(mgr, kind(), o.Options)}
	r.Overlaps.Adopts = adopts
	b := ctrl.NewControllerManagedBy(mgr)
	if err := r.Setup(ctx, mgr, b, Kind(), &appsv1beta1.DaemonSet{}, o.Options); err != nil {
		return err
	}
	b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.requestsForOrphan)).
		Watches(&corev1.Node{}, r.Gather(onNodes(r.Client)))
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up controller of DaemonSet: %w", err)
	}
	return nil
}

// Reconcile takes the next step for one DaemonSet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.failures.Forget(req.NamespacedName)
		}
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	if len(o.orphans) > 0 {
		return r.adopt(ctx, o)
	}
	now := r.Clock.Now()
	p := plan(o, now)
	r.Planned(measure, req, &p.Plan, began, now)
	a := r.apply(ctx, o, p, now)
	r.Waits(req.NamespacedName, &a, now)
	s, events := status(o, p, a, now)
	return r.Report(ctx, measure, &a, control.Outcome{
		Object: o.set, Was: o.set.Status, Is: s, MayWait: countsOnly(o.set.Status, s), Events: events,
		Recheck: p.Recheck, Err: a.Err(),
	})
}

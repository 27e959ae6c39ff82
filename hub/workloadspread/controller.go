package workloadspread

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// reconciler reconciles the workloads of one kind, each together with the WorkloadSpread that targets it.
type reconciler struct {
	kind    *workload
	options placement.Options
	// spreads reads and writes WorkloadSpreads and their slices. targets reads and writes workloads and their copies.
	spreads, targets placement.Client
	// spreadStatus writes the statuses of WorkloadSpreads, and targetStatus the statuses of workloads.
	spreadStatus, targetStatus *placement.Reporter
}

func newReconciler(kind *workload, c client.Client, live client.Reader, o placement.Options) *reconciler {
	r := &reconciler{
		kind: kind, options: o, spreads: o.NewClient(spreadKind().Kind, c, live), targets: o.NewClient(kind.gvk.Kind, c, live),
	}
	r.spreadStatus, r.targetStatus = o.Reporter(r.spreads), o.Reporter(r.targets)
	return r
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads;clonesets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads/status;clonesets/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// setupDeployments starts the controller for Deployments, and adds the kind of slices to the Sweeper.
func setupDeployments(ctx context.Context, mgr ctrl.Manager, o placement.Options) error {
	if err := start(ctx, mgr, deployments(), o); err != nil {
		return err
	}
	o.Sweeper.Add(spreadKind().Kind, func() client.Object { return &appsv1beta1.WorkloadSpread{} }, o.Store)
	return nil
}

// setupCloneSets starts the controller for CloneSets.
func setupCloneSets(ctx context.Context, mgr ctrl.Manager, o placement.Options) error {
	return start(ctx, mgr, cloneSets(), o)
}

func start(ctx context.Context, mgr ctrl.Manager, kind *workload, o placement.Options) error {
	if err := errors.Join(expect.Register(metrics.Registry), measure.Register(metrics.Registry)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	i := mgr.GetFieldIndexer()
	if err := errors.Join(row.IndexBySource(ctx, i), indexByCluster(ctx, i), scaletarget.IndexSpreads(ctx, i)); err != nil {
		return err
	}
	r := newReconciler(kind, mgr.GetClient(), mgr.GetAPIReader(), o)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hub-workloadspread-"+strings.ToLower(kind.gvk.Kind)).
		For(kind.empty()).
		Watches(&appsv1beta1.WorkloadSpread{}, handler.EnqueueRequestsFromMapFunc(r.forSpread)).
		Watches(&fleetv1alpha1.MemberWork{}, placement.RowHandler(kind.gvk.Kind)).
		Watches(&fleetv1alpha1.MemberWork{}, placement.RowHandlerFor(spreadKind().Kind, r.ofSlice)).
		Watches(&fleetv1alpha1.MemberCluster{}, placement.ClusterHandler(kind.gvk.Kind, mgr.GetClient(), r.placedIn)).
		WatchesRawSource(o.Fresh.Source(nil, &fleetv1alpha1.MemberClusterList{}, &fleetv1alpha1.MemberWorkList{}, &appsv1beta1.WorkloadSpreadList{})).
		WatchesRawSource(o.Fresh.Source([]client.ListOption{client.MatchingLabels{keys.FleetTemplate: "true"}}, kind.list())).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(o.Workers, 1)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the hub's WorkloadSpread controller for %s: %w", kind.gvk.Kind, err)
	}
	o.Sweeper.Add(kind.gvk.Kind, kind.empty, o.Store)
	return nil
}

// CacheByObject limits the manager's cache to the workloads that this package reads: templates.
func CacheByObject() map[client.Object]cache.ByObject {
	templates := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{keys.FleetTemplate: "true"})}
	out := map[client.Object]cache.ByObject{}
	for _, kind := range workloads() {
		out[kind.empty()] = templates
	}
	return out
}

// Reconcile reconciles one workload.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	start := r.options.Clock.Now()
	p := plan(o, start)
	measure.PlanSeconds.Observe(r.options.Clock.Since(start).Seconds())
	var a applied
	var slices, copies placement.Result
	var errs []error
	if o.ws != nil {
		slices, err = r.spreads.Apply(ctx, o.ws, o.slices, p.slices)
		errs = append(errs, err)
	}
	a.slices = placement.Summarize(o.slices, p.slices, slices)
	p.place(o, a.slices)
	if o.target != nil {
		copies, err = r.targets.Apply(ctx, o.target, o.copies, p.copies)
		errs = append(errs, err)
	}
	a.copies = placement.Summarize(o.copies, p.copies, copies)
	measure.Wrote(slices, copies)
	later := timing.Sooner(p.recheck, a.slices.Recheck, a.copies.Recheck, o.copies.EvictsIn())
	for i, y := range o.younger {
		withdrawn, err := r.spreads.Apply(ctx, y.ws, y.slices, p.younger[i].slices)
		measure.Wrote(withdrawn)
		a.younger = append(a.younger, placement.Summarize(y.slices, p.younger[i].slices, withdrawn))
		later, errs = timing.Sooner(later, withdrawn.Recheck), append(errs, err)
	}
	for _, tell := range []func(context.Context, *observed, planned, applied) (time.Duration, error){r.reportSpread, r.reportTarget, r.reportYounger} {
		after, err := tell(ctx, o, p, a)
		later, errs = timing.Sooner(later, after), append(errs, err)
	}
	return ctrl.Result{RequeueAfter: later}, errors.Join(errs...)
}

// reportSpread writes the status of the WorkloadSpread if it is due, and then sends the events for the change. It returns how soon a status
// that may wait must be written.
func (r *reconciler) reportSpread(ctx context.Context, o *observed, p planned, a applied) (time.Duration, error) {
	if o.ws == nil {
		return 0, nil
	}
	if p.slices.RemoveFinalizer {
		r.spreadStatus.Forget(client.ObjectKeyFromObject(o.ws))
		return 0, nil
	}
	if p.slices.AddFinalizer {
		return 0, nil // The object that was read is older than that write. Its event follows.
	}
	before, after := o.ws.Status, status(o, p, a, r.options.Clock.Now())
	return r.spreadStatus.Report(ctx, o.ws, before, after, changed(before, after))
}

// reportTarget writes the status of a workload unless a controller of this cluster does. kube-controller-manager writes the status of a
// Deployment, even while it is paused.
func (r *reconciler) reportTarget(ctx context.Context, o *observed, p planned, a applied) (time.Duration, error) {
	set, ok := o.target.(*appsv1beta1.CloneSet)
	if !ok || p.copies.RemoveFinalizer {
		r.targetStatus.Forget(o.key)
		return 0, nil
	}
	if p.copies.AddFinalizer {
		return 0, nil // See reportSpread.
	}
	before, after := set.Status, cloneSetStatus(o, p, a)
	wait := placement.Wait(before.ObservedGeneration == after.ObservedGeneration)
	return r.targetStatus.Report(ctx, set, before, after, placement.Change{Collect: wait})
}

// reportYounger reports to younger WorkloadSpreads that an older one has their target.
func (r *reconciler) reportYounger(ctx context.Context, o *observed, p planned, a applied) (time.Duration, error) {
	errs := make([]error, 0, len(o.younger))
	for i, y := range o.younger {
		if p.younger[i].slices.RemoveFinalizer {
			r.spreadStatus.Forget(client.ObjectKeyFromObject(y.ws))
			continue // See reportSpread.
		}
		now := r.options.Clock.Now()
		next := takenStatus(y.ws, o.ws, now)
		if y.ws.DeletionTimestamp != nil {
			next = status(&observed{ws: y.ws, slices: y.slices}, p.younger[i], applied{slices: a.younger[i]}, now)
		}
		_, err := r.spreadStatus.Writer.Write(ctx, y.ws, y.ws.Status, next, nil)
		errs = append(errs, err)
	}
	return 0, errors.Join(errs...)
}

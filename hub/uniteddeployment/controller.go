package uniteddeployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/row"
	recorder "github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/united"
)

// sourceKind is the kind of the objects that this controller looks after.
const sourceKind = "UnitedDeployment"

// gather is for how long status changes of rows are collected before a reconcile, so that a rollout in many members costs
// few writes of the source's status.
const gather = time.Second

// Options are what Setup needs.
type Options struct {
	// Store writes rows.
	Store *row.Store
	// Events sends events.
	Events recorder.Recorder
	// Clock is the real clock outside tests.
	Clock clock.PassiveClock
	// Workers is how many objects are worked on at a time; at least 1.
	Workers int
	// ExpectationTimeout is how long the cache may lack our own writes; 0 is 5 minutes.
	ExpectationTimeout time.Duration
	// LocalMember says that this cluster runs the member stack too, which then looks after objects without clusters.
	LocalMember bool
}

// queue is what event handlers put requests into.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

type reconciler struct {
	client.Client
	reader  client.Reader
	store   *row.Store
	expect  *expect.Store
	options Options
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments/status,verbs=patch
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup starts the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	if err := errors.Join(expect.Register(metrics.Registry), metric.Register(metrics.Registry, planSeconds, rowWrites, waits)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	r := &reconciler{
		Client:  mgr.GetClient(),
		reader:  mgr.GetAPIReader(),
		store:   o.Store,
		expect:  expect.New(sourceKind, o.Clock, o.ExpectationTimeout),
		options: o,
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hub-uniteddeployment").
		For(&appsv1beta1.UnitedDeployment{}, builder.WithPredicates(sourceChanged())).
		Watches(&fleetv1alpha1.MemberWork{}, rowHandler()).
		Watches(&fleetv1alpha1.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(predicate.Funcs{UpdateFunc: clusterChanged})).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(o.Workers, 1)}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the hub's UnitedDeployment controller: %w", err)
	}
	return nil
}

// Reconcile takes the next step of one object.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return expect.Settle(ctx, err, waits.WithLabelValues("CacheBehind"))
	}
	start := r.options.Clock.Now()
	p := decide(o)
	planSeconds.Observe(r.options.Clock.Since(start).Seconds())
	if p.idle {
		return ctrl.Result{}, nil
	}
	done, aerr := r.apply(ctx, o, p)
	if p.release {
		return ctrl.Result{}, aerr
	}
	s, events := status(o, p, done, r.options.Clock.Now())
	return ctrl.Result{}, errors.Join(aerr, r.report(ctx, o, s, events))
}

// sourceChanged lets through what a slice is made of: spec, labels and annotations, but not our own status.
func sourceChanged() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// rowHandler brings a row's source. What changes the plan comes at once; mere counts are gathered for a second.
func rowHandler() handler.EventHandler {
	add := func(q queue, o client.Object, after time.Duration) {
		if source := o.(*fleetv1alpha1.MemberWork).Spec.Source; source.Kind == sourceKind {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: source.Namespace, Name: source.Name}}, after)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, e.Object, 0) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object, 0) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*fleetv1alpha1.MemberWork), e.ObjectNew.(*fleetv1alpha1.MemberWork)
			switch {
			case before.ResourceVersion == after.ResourceVersion:
			case before.Generation != after.Generation, acked(before) != acked(after), before.Status.Phase != after.Status.Phase:
				add(q, after, 0)
			default:
				add(q, after, gather)
			}
		},
	}
}

// all brings every object that names or holds clusters, because any of them may be placed by what a cluster says.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &appsv1beta1.UnitedDeploymentList{}
	if err := r.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Lost a cluster event")
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if united.OfHub(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// clusterChanged tells whether an update of a MemberCluster can change a plan: heartbeats and counts can't.
func clusterChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*fleetv1alpha1.MemberCluster), e.ObjectNew.(*fleetv1alpha1.MemberCluster)
	return relevant(before) != relevant(after) || !maps.Equal(before.Labels, after.Labels) || before.Generation != after.Generation
}

// relevant is what a plan reads of a MemberCluster besides its spec and labels.
func relevant(c *fleetv1alpha1.MemberCluster) any {
	type facts struct {
		ready, leaves, paused bool
		phase                 fleetv1alpha1.ClusterPhase
		epoch                 int64
	}
	f := facts{ready: report.IsConditionTrue(c.Status.Conditions, fleetv1alpha1.ConditionReady), leaves: !c.DeletionTimestamp.IsZero(), phase: c.Status.Phase}
	_, f.paused = c.Annotations[keys.FleetWithdrawalsPaused]
	if c.Status.Hub != nil {
		f.epoch = c.Status.Hub.Epoch
	}
	return f
}

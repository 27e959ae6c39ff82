package resourcedistribution

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	notes "github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// The rights for Secrets and ConfigMaps are in the chart's templates: those for Secrets are by name.
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// resourceIndex is the index of ResourceDistributions by kind and name of their resource.
const resourceIndex = "resource"

// Options tune the controller.
type Options struct {
	// Workers is how many ResourceDistributions are reconciled at once; 0 means 3.
	Workers int
	// Parallel is how many writes run at once for one object; 0 means podcontrol.Parallel.
	Parallel int
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.PassiveClock
	// Secrets are the names of the Secrets that the manager has rights for.
	Secrets []string
}

// Reconciler reconciles ResourceDistributions.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Clock is the clock.
	Clock clock.PassiveClock
	// Expect has the writes that the cache does not show yet.
	Expect *expect.Store
	// Events sends events.
	Events notes.Recorder
	// Copies are the objects that are distributed.
	Copies copies
	// Secrets are the names of the Secrets that may be distributed.
	Secrets []string
	// Parallel is how many writes run at once, at least 1.
	Parallel int

	throttle report.Throttle
}

// Setup adds the controller to mgr. Its watches end with ctx.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	direct, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("make a client for watches: %w", err)
	}
	if o.Parallel == 0 {
		o.Parallel = podcontrol.Parallel
	}
	of := newWatches(ctx, direct)
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Expect: expect.New(kind, o.Clock, o.ExpectationTimeout),
		Events: notes.New(mgr.GetEventRecorder(podcontrol.ControllerName(kind))), Copies: of, Secrets: o.Secrets, Parallel: o.Parallel,
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(podcontrol.ControllerName(kind)).
		For(&appsv1beta1.ResourceDistribution{}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.forNamespace),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				return namespaceChanged(e.ObjectOld, e.ObjectNew)
			}})).
		WatchesRawSource(source.Channel(of.changed, handler.EnqueueRequestsFromMapFunc(r.forObject))).
		WithOptions(podcontrol.Queue(o.Workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one ResourceDistribution. The garbage collector deletes the copies of one that is deleted.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.throttle.Forget(req.NamespacedName)
			err = errors.Join(err, r.forget(ctx))
		}
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	if o.syncing && o.blocked == nil {
		measure.Waits.WithLabelValues(reasonWatch).Inc()
		return ctrl.Result{}, nil
	}
	now := r.Clock.Now()
	p := plan(o)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	count(p)
	a := r.apply(ctx, o, p)
	s, events := status(o, p, a, now)
	w := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events, Owner: fieldOwner}
	later, err := r.throttle.Write(ctx, w, o.rd, o.rd.Status, s, report.Reworded(o.rd.Status, s, a.err()), now, events)
	return w.Result(o.rd, later, errors.Join(a.err(), err))
}

// forget ends the watches of what is not distributed any more.
func (r *Reconciler) forget(ctx context.Context) error {
	var list appsv1beta1.ResourceDistributionList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list ResourceDistributions: %w", err)
	}
	wanted := map[id]bool{}
	for i := range list.Items {
		if !ofHub(&list.Items[i]) {
			wanted[idOf(&list.Items[i].Spec)] = true
		}
	}
	r.Copies.keep(wanted)
	return nil
}

// index indexes ResourceDistributions by what they distribute.
func index(ctx context.Context, i client.FieldIndexer) error {
	err := i.IndexField(ctx, &appsv1beta1.ResourceDistribution{}, resourceIndex, indexed)
	if err != nil {
		return fmt.Errorf("index ResourceDistributions: %w", err)
	}
	return nil
}

// ofHub reports whether an object belongs to a hub in this cluster, which distributes it to its members.
func ofHub(rd *appsv1beta1.ResourceDistribution) bool { return rd.Spec.Targets.Clusters != nil }

func indexed(o client.Object) []string {
	rd, is := o.(*appsv1beta1.ResourceDistribution)
	if !is || ofHub(rd) {
		return nil
	}
	return []string{idOf(&rd.Spec).String()}
}

// namespaceChanged reports whether an update of a namespace matters.
func namespaceChanged(was, is client.Object) bool {
	return !maps.Equal(was.GetLabels(), is.GetLabels()) || was.GetUID() != is.GetUID() ||
		(was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil)
}

// forNamespace returns all: each may have the namespace as a target.
func (r *Reconciler) forNamespace(ctx context.Context, _ client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.ResourceDistributionList{}, "",
		func(*appsv1beta1.ResourceDistribution) bool { return true })
}

// forObject returns those that distribute objects of that kind and name.
func (r *Reconciler) forObject(ctx context.Context, o client.Object) []ctrl.Request {
	of := id{kind: o.GetObjectKind().GroupVersionKind().Kind, name: o.GetName()}
	var list appsv1beta1.ResourceDistributionList
	if err := r.Client.List(ctx, &list, client.MatchingFields{resourceIndex: of.String()}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the objects of an event", "kind", kind)
		return nil
	}
	var out []ctrl.Request
	for i := range list.Items {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

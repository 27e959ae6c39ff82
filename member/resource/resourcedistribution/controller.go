package resourcedistribution

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// The rights for Secrets and ConfigMaps are in the chart's templates: those for Secrets are by name.
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// resourceIndex is the index of ResourceDistributions by kind and name of their resource.
const resourceIndex = "resource"

// options tune the controller.
type options struct {
	control.Options

	// Secrets are the names of the Secrets that the manager has rights for.
	Secrets []string
}

// Reconciler reconciles ResourceDistributions.
type Reconciler struct {
	*control.Controller

	// Copies are the objects that are distributed.
	Copies copies
	// Secrets are the names of the Secrets that may be distributed.
	Secrets []string
}

// setUp adds the controller to mgr. Its watches end with ctx.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", kind, err)
	}
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	direct, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("create a client for watches: %w", err)
	}
	watched := newWatches(ctx, direct)
	r := &Reconciler{Controller: control.New(mgr, kind, fieldOwner, o.Options), Copies: watched, Secrets: o.Secrets}
	err = control.NewBuilder(mgr, kind, o.Workers).
		For(&appsv1beta1.ResourceDistribution{}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.forNamespace),
			control.Updates(namespaceChanged)).
		WatchesRawSource(source.Channel(watched.changed, handler.EnqueueRequestsFromMapFunc(r.forObject))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of %s: %w", kind, err)
	}
	return nil
}

// Reconcile takes the next step for one ResourceDistribution. The garbage collector deletes the copies of one that is deleted.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			err = errors.Join(err, r.stopUnusedWatches(ctx))
		}
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	if o.syncing && o.blocked == nil {
		measure.Wait(reasonWatch)
		return ctrl.Result{}, nil
	}
	now := r.Clock.Now()
	p := plan(o)
	r.Planned(measure, req, began, now)
	count(p)
	a := r.apply(ctx, o, p)
	s, events := status(o, p, a, now)
	return r.Report(ctx, control.Outcome{Object: o.rd, Was: o.rd.Status, Is: s, Events: events, Err: a.err()})
}

// stopUnusedWatches stops the watches for objects that are no longer distributed.
func (r *Reconciler) stopUnusedWatches(ctx context.Context) error {
	return r.Copies.keep(func() (map[id]bool, error) {
		var list appsv1beta1.ResourceDistributionList
		if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list ResourceDistributions: %w", err)
		}
		wanted := map[id]bool{}
		for i := range list.Items {
			if !ofHub(&list.Items[i]) {
				wanted[idOf(&list.Items[i].Spec)] = true
			}
		}
		return wanted, nil
	})
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
	rd, ok := o.(*appsv1beta1.ResourceDistribution)
	if !ok || ofHub(rd) {
		return nil
	}
	return []string{idOf(&rd.Spec).String()}
}

// namespaceChanged reports whether an update of a namespace matters.
func namespaceChanged(old, updated client.Object) bool {
	return !maps.Equal(old.GetLabels(), updated.GetLabels()) || old.GetUID() != updated.GetUID() ||
		(old.GetDeletionTimestamp() == nil) != (updated.GetDeletionTimestamp() == nil)
}

// forNamespace returns all: each may have the namespace as a target.
func (r *Reconciler) forNamespace(ctx context.Context, _ client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.ResourceDistributionList{}, "",
		func(*appsv1beta1.ResourceDistribution) bool { return true })
}

// forObject returns those that distribute objects of that kind and name.
func (r *Reconciler) forObject(ctx context.Context, o client.Object) []ctrl.Request {
	key := id{kind: o.GetObjectKind().GroupVersionKind().Kind, name: o.GetName()}
	var list appsv1beta1.ResourceDistributionList
	if err := r.Client.List(ctx, &list, client.MatchingFields{resourceIndex: key.String()}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the objects for an event", "kind", kind)
		return nil
	}
	var out []ctrl.Request
	for i := range list.Items {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

package uniteddeployment

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/hashicorp/go-multierror"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/link"
)

// result is what came of a plan.
type result struct {
	// rows are the object's rows by cluster, as the writes left them.
	rows map[string]*fleetv1alpha1.MemberWork
	// missed are the clusters whose row is not as the plan wants it, because it was not written.
	missed map[string]bool
	// problems are the withdrawals that the hub's brake holds.
	problems []problem
	// err is what went wrong, for the status; conflicts are not in it.
	err error
}

// held tells whether the object carries our finalizer.
func held(ud *appsv1beta1.UnitedDeployment) bool {
	return controllerutil.ContainsFinalizer(ud, keys.FleetRow)
}

// apply carries out a plan: the finalizer first, so that no row is ever without it, then grants, then withdrawals. One
// cluster's failure does not stop the others; the error says whether to come back.
func (r *reconciler) apply(ctx context.Context, o *observed, p plan) (result, error) {
	done := result{rows: maps.Clone(o.rows), missed: make(map[string]bool, len(p.wants))}
	for _, want := range p.wants {
		done.missed[want.Cluster] = true
	}
	if p.hold {
		if err := r.finalizer(ctx, o.ud, controllerutil.AddFinalizer); err != nil {
			return done, err
		}
	}
	var all *multierror.Error
	for _, want := range p.wants {
		now, wrote, err := r.store.Put(ctx, want, o.rows[want.Cluster])
		if err != nil {
			all = multierror.Append(all, err)
			continue
		}
		done.rows[want.Cluster] = now
		delete(done.missed, want.Cluster)
		if wrote && o.rows[want.Cluster] == nil {
			r.expect.Created(o.ud.UID, now)
		} else if wrote {
			r.expect.Written(o.ud.UID, now)
		}
		if wrote {
			rowWrites.WithLabelValues(want.Cluster).Inc()
		}
	}
	for _, w := range p.withdrawals {
		err := r.store.Withdraw(ctx, w.row, w.policy)
		switch {
		case errors.Is(err, row.ErrPaused): // the watch on MemberClusters tells when it may go on
			done.problems = append(done.problems, problem{
				cluster: w.row.Labels[keys.FleetCluster], reason: reasonPaused, message: err.Error(),
			})
		case err != nil:
			all = multierror.Append(all, err)
		default:
			r.expect.Deleted(o.ud.UID, w.row)
		}
	}
	if p.release {
		if err := r.finalizer(ctx, o.ud, controllerutil.RemoveFinalizer); err != nil {
			return done, err
		}
	}
	done.err = worth(all)
	return done, done.err
}

// finalizer sets or takes off our finalizer.
func (r *reconciler) finalizer(ctx context.Context, ud *appsv1beta1.UnitedDeployment, change func(client.Object, string) bool) error {
	next := ud.DeepCopy()
	if !change(next, keys.FleetRow) {
		return nil
	}
	patch := client.MergeFromWithOptions(ud, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, next, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("set finalizers of %s/%s: %w", ud.Namespace, ud.Name, err)
	}
	return nil
}

// worth is what people should read in the status, and the queue should come back for: everything but conflicts. These
// mean that the cache is behind, and the watch brings the newer row.
func worth(all *multierror.Error) error {
	if all == nil {
		return nil
	}
	var rest *multierror.Error
	for _, err := range all.Errors {
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			rest = multierror.Append(rest, err)
		}
	}
	return rest.ErrorOrNil()
}

// report writes the status if it changed, then sends the events. All of it is applied, not a difference: a field that
// must be there is there also while its number is 0.
func (r *reconciler) report(ctx context.Context, o *observed, s appsv1beta1.UnitedDeploymentStatus, events []event.Event) error {
	if equality.Semantic.DeepEqual(o.ud.Status, s) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err != nil {
		return fmt.Errorf("convert status of %s/%s: %w", o.ud.Namespace, o.ud.Name, err)
	}
	next := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": appsv1beta1.GroupVersion.String(),
		"kind":       sourceKind,
		"metadata":   map[string]any{"namespace": o.ud.Namespace, "name": o.ud.Name, "uid": string(o.ud.UID)},
		"status":     fields,
	}}
	err = r.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(next), client.FieldOwner(link.HubManager), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of %s/%s: %w", o.ud.Namespace, o.ud.Name, err)
	}
	for _, e := range events {
		r.options.Events.Record(o.ud, e)
	}
	return nil
}

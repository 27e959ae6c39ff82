package nodeimage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-nodeimage")

// apply carries out a plan, idempotently. Objects missing from the cache are looked up before anything is removed because of that. A conflict
// is not an error: the event from the other write triggers a reconcile.
func (r *Reconciler) apply(ctx context.Context, name string, o observed, p planned, now time.Time) error {
	switch {
	case p.create:
		n := &appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: p.labels}}
		if err := r.Client.Create(ctx, n, fieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create: %w", err)
		}
	case p.remove:
		there, err := ownership.Get(ctx, r.Live, types.NamespacedName{Name: name}, &corev1.Node{})
		if err != nil || there {
			return err
		}
		err = r.Client.Delete(ctx, o.image, client.Preconditions{UID: &o.image.UID, ResourceVersion: &o.image.ResourceVersion})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete: %w", err)
		}
	case p.changed:
		if exists, err := r.anyExists(ctx, p.absent); err != nil || exists {
			return err
		}
		next := o.image.DeepCopy()
		next.Spec, next.Labels = p.spec, p.labels
		err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(o.image, client.MergeFromWithOptimisticLock{}), fieldOwner)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("remove entries: %w", err)
		}
	case len(p.failed) > 0:
		next := o.image.DeepCopy()
		next.Status = statusOf(o.image, p.failed, now)
		err := r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(o.image, client.MergeFromWithOptimisticLock{}), fieldOwner)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("patch status: %w", err)
		}
		for ref, message := range p.failed {
			r.Events.Record(o.image, event.Warning(reasonPullImageFailed, actionPull, "%s: %s", ref, message))
		}
	}
	return nil
}

// anyExists reports whether the apiserver has one of the owners that are missing from the cache. If so, the owner's event triggers a
// reconcile.
func (r *Reconciler) anyExists(ctx context.Context, absent []appsv1beta1.ImageTagOwner) (bool, error) {
	for _, owner := range absent {
		job := &appsv1beta1.ImagePullJob{}
		there, err := ownership.Get(ctx, r.Live, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}, job)
		if err != nil || there && job.UID == owner.UID {
			return there, err
		}
	}
	return false, nil
}

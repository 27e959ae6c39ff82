package imagelistpulljob

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/ownership"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-imagelistpulljob")

// applied is the result of a plan.
type applied struct {
	events []event.Event
	err    error
}

// apply carries out a plan, idempotently. An error of one image does not keep the others from theirs.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) applied {
	var a applied
	note := func(err error, done *event.Event) {
		if err != nil {
			a.err = errors.Join(a.err, err)
		} else if done != nil {
			a.events = append(a.events, *done)
		}
	}
	for _, job := range p.create {
		note(r.create(ctx, o.list, job), new(event.Normal(ReasonSuccessfulCreate, actionPull, "ImagePullJob %s pulls %s", job.Name, job.Spec.Image)))
	}
	for _, job := range p.change {
		note(r.change(ctx, o.list, job), nil)
	}
	for _, job := range p.drop {
		note(r.drop(ctx, o.list, job), new(event.Normal(ReasonSuccessfulDelete, actionPull, "ImagePullJob %s of %s is not wanted any more",
			job.Name, job.Spec.Image)))
	}
	return a
}

// create creates the job of an image. One that the cache does not show yet is left as it is.
func (r *Reconciler) create(ctx context.Context, list *appsv1beta1.ImageListPullJob, job *appsv1beta1.ImagePullJob) error {
	err := r.Client.Create(ctx, job, fieldOwner)
	if apierrors.IsAlreadyExists(err) {
		is := &appsv1beta1.ImagePullJob{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), is); err != nil {
			return fmt.Errorf("get ImagePullJob %s, which exists: %w", job.Name, err)
		}
		if !ownership.ControlledBy(is, list, gvk()) {
			return fmt.Errorf("create ImagePullJob %s: there is one that is not of this list: delete or rename it", job.Name)
		}
		r.Expect.Created(list.UID, is)
		return nil
	}
	if err != nil {
		return fmt.Errorf("create ImagePullJob %s: %w", job.Name, err)
	}
	r.Expect.Created(list.UID, job)
	return nil
}

// change makes a job what it should be, unless it has changed since it was read.
func (r *Reconciler) change(ctx context.Context, list *appsv1beta1.ImageListPullJob, job *appsv1beta1.ImagePullJob) error {
	switch err := r.Client.Update(ctx, job, fieldOwner); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("update ImagePullJob %s: %w", job.Name, err)
	}
	r.Expect.Written(list.UID, job)
	return nil
}

// drop deletes a job, and no other one of its name.
func (r *Reconciler) drop(ctx context.Context, list *appsv1beta1.ImageListPullJob, job *appsv1beta1.ImagePullJob) error {
	err := r.Client.Delete(ctx, job.DeepCopy(), client.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion})
	switch {
	case apierrors.IsConflict(err):
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("delete ImagePullJob %s: %w", job.Name, err)
	}
	r.Expect.Deleted(list.UID, job)
	return nil
}

// remove deletes the list after its TTL; the garbage collector deletes its jobs.
func (r *Reconciler) remove(ctx context.Context, list *appsv1beta1.ImageListPullJob) error {
	err := r.Client.Delete(ctx, list.DeepCopy(), client.Preconditions{UID: &list.UID, ResourceVersion: &list.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete ImageListPullJob after its TTL: %w", err)
	}
	return nil
}

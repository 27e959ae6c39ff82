// Package pulljob reads and writes ImagePullJobs that are controlled by another object.
package pulljob

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

// List returns the jobs that owner controls, sorted by name. Jobs from a cache are not copied and must not be changed. It needs
// ownership.IndexByOwner, unless the reader is live.
func List(ctx context.Context, from client.Reader, owner client.Object, gvk schema.GroupVersionKind, live bool) ([]*appsv1beta1.ImagePullJob, error) {
	var found appsv1beta1.ImagePullJobList
	if err := from.List(ctx, &found, ownership.OwnedBy(owner, live)...); err != nil {
		return nil, fmt.Errorf("list ImagePullJobs: %w", err)
	}
	out := ownership.Controlled(found.Items, owner, gvk)
	slices.SortFunc(out, func(a, b *appsv1beta1.ImagePullJob) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// WithDefaults returns a spec in the form that admission stores.
func WithDefaults(s appsv1beta1.ImagePullJobSpec) appsv1beta1.ImagePullJobSpec {
	s = *s.DeepCopy()
	imagepull.DefaultJob(&s.ImagePullJobTemplate)
	return s
}

// Writer writes jobs, and expects the cache to show the writes.
type Writer struct {
	// Client writes. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Expect *expect.Store
	// Owner is the field owner of the writes.
	Owner client.FieldOwner
}

// Create creates a job. If the job already exists but the cache doesn't show it yet, it is left unchanged. It is an error if a job with that
// name isn't controlled by owner.
func (w Writer) Create(ctx context.Context, owner client.Object, gvk schema.GroupVersionKind, job *appsv1beta1.ImagePullJob) error {
	err := w.Client.Create(ctx, job, w.Owner)
	if apierrors.IsAlreadyExists(err) {
		existing := &appsv1beta1.ImagePullJob{}
		if err := w.Live.Get(ctx, client.ObjectKeyFromObject(job), existing); err != nil {
			return fmt.Errorf("get ImagePullJob %s, which exists: %w", job.Name, err)
		}
		if !ownership.ControlledBy(existing, owner, gvk) {
			return fmt.Errorf("create ImagePullJob %s: it exists and does not belong to this %s: delete or rename it", job.Name, gvk.Kind)
		}
		w.Expect.Created(owner.GetUID(), existing)
		return nil
	}
	if err != nil {
		w.Expect.Refused(owner.GetUID(), err)
		return fmt.Errorf("create ImagePullJob %s: %w", job.Name, err)
	}
	w.Expect.Created(owner.GetUID(), job)
	return nil
}

// Change updates a job, unless it has changed since it was read.
func (w Writer) Change(ctx context.Context, owner client.Object, job *appsv1beta1.ImagePullJob) error {
	switch err := w.Client.Update(ctx, job, w.Owner); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("update ImagePullJob %s: %w", job.Name, err)
	}
	w.Expect.Written(owner.GetUID(), job)
	return nil
}

// Drop deletes a job as it was read, and never another one with its name.
func (w Writer) Drop(ctx context.Context, owner client.Object, job *appsv1beta1.ImagePullJob) error {
	err := w.Client.Delete(ctx, job.DeepCopy(), client.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion})
	switch {
	case apierrors.IsConflict(err):
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("delete ImagePullJob %s: %w", job.Name, err)
	}
	w.Expect.Deleted(owner.GetUID(), job)
	return nil
}

package advancedcronjob

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-advancedcronjob")

// applied is the result of a plan.
type applied struct {
	// created is the job of the run to create, if it was created or already existed.
	created client.Object
	// removed contains the UIDs of jobs that were deleted.
	removed map[types.UID]bool
	// kept means that jobs beyond the history limits could not be deleted. That is no error: a retry with back-off could delay the next run.
	kept   bool
	events []event.Event
	err    error
}

// apply carries out a plan, idempotently.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned, now time.Time) applied {
	a := applied{removed: map[types.UID]bool{}}
	for _, c := range p.expired {
		if err := r.remove(ctx, o, c); err != nil {
			a.kept = true
			a.events = append(a.events, event.Warning(reasonFailedDelete, actionRun, "%v", err))
			ctrl.LoggerFrom(ctx).Error(err, "Could not delete a job beyond the history limit", "after", lookAgain)
			continue
		}
		a.removed[c.GetUID()] = true
		a.events = append(a.events, event.Normal(reasonSuccessfulDelete, actionRun, "deleted %s: the history limit was exceeded", c.GetName()))
	}
	if p.create.IsZero() {
		return a
	}
	for _, c := range p.replaced {
		if err := r.remove(ctx, o, c); err != nil {
			a.err = errors.Join(a.err, err)
			continue
		}
		a.removed[c.GetUID()] = true
		a.events = append(a.events, event.Normal(reasonSuccessfulDelete, actionRun, "deleted active job %s: replaced by %s",
			c.GetName(), nameOf(o.cron, p.create)))
	}
	if a.err != nil {
		return a // A run must not start beside one that it replaces.
	}
	job := newChild(o.cron, p.create)
	if a.err = r.create(ctx, o, p.create, job); a.err != nil {
		a.events = append(a.events, event.Warning(reasonFailedCreate, actionRun, "%v", a.err))
		return a
	}
	a.created = job
	startDelay.Observe(now.Sub(p.create).Seconds())
	a.events = append(a.events, event.Normal(reasonSuccessfulCreate, actionRun, "created %s, which was due at %s", job.GetName(),
		formatTime(p.create)))
	return a
}

// create creates the job of a run. A job that exists but is not in the cache yet is left as it is. A job with that name and another owner is an
// error.
func (r *Reconciler) create(ctx context.Context, o observed, due time.Time, job client.Object) error {
	err := r.Client.Create(ctx, job, fieldOwner)
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err):
		kind, err := r.Client.GroupVersionKindFor(job)
		if err != nil {
			return fmt.Errorf("find the kind of %s: %w", job.GetName(), err)
		}
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(kind)
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), live); err != nil {
			return fmt.Errorf("get %s, which exists: %w", job.GetName(), err)
		}
		if !ownership.ControlledBy(live, o.cron, gvk()) {
			return fmt.Errorf("create %s: an object with that name exists that doesn't belong to this AdvancedCronJob: delete or rename it", job.GetName())
		}
		job.SetUID(live.GetUID())
		job.SetResourceVersion(live.GetResourceVersion())
	case r.Expect.Refused(o.cron.UID, err):
		return err
	default:
		if !refused(err) {
			r.memory.Forget(client.ObjectKeyFromObject(o.cron))
		}
		return fmt.Errorf("create %s: %w", job.GetName(), err)
	}
	r.memory.Change(o.cron, func(k *run) { *k = run{due.Unix(), created} })
	r.Expect.Created(o.cron.UID, job)
	return nil
}

// refused reports whether an error proves that nothing was written.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// remove deletes a job and what it owns, and no other job of the same name.
func (r *Reconciler) remove(ctx context.Context, o observed, c child) error {
	uid := c.GetUID()
	target, _ := c.DeepCopyObject().(client.Object)
	err := r.Client.Delete(ctx, target, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil { // This includes conflicts: a run must not start beside one that it replaces.
		return fmt.Errorf("delete %s: %w", c.GetName(), err)
	}
	r.Expect.Deleted(o.cron.UID, c)
	return nil
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

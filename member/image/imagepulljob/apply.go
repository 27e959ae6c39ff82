package imagepulljob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// fieldOwner is the name under which the controller writes ImagePullJobs.
const fieldOwner = client.FieldOwner("flotilla-imagepulljob")

// ownerOf returns the field manager under which a job's entries are written.
func ownerOf(job *appsv1beta1.ImagePullJob) client.FieldOwner {
	return fieldOwner + client.FieldOwner("-"+string(job.UID))
}

// applied is the result of a plan.
type applied struct {
	// idle is how many pulls should have begun but did not.
	idle int
	// retry is when to plan again because a write was overtaken; 0 means never.
	retry time.Duration
	// err is why a reconcile must be repeated; nil if it need not be. gone means that the job was deleted, or its finalizer removed.
	err  error
	gone bool
}

// apply carries out a plan, idempotently. An error on one node does not stop the others.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) applied {
	logins, err := r.logins(ctx, o, p)
	if err != nil {
		return applied{err: err, idle: p.countStarts()}
	}
	outcomes := make([]outcome, len(p.steps))
	var group errgroup.Group
	group.SetLimit(r.Parallel)
	for i := range p.steps {
		group.Go(func() error {
			outcomes[i] = r.write(ctx, o.job, sealStep(ctx, p.steps[i], logins))
			return nil
		})
	}
	_ = group.Wait() // Each write has its own error.
	var a applied
	var errs []error
	for i, out := range outcomes {
		if p.steps[i].begins && !out.done {
			a.idle++
		}
		if out.overtaken {
			a.retry = overtakenDelay
		}
		if out.err != nil {
			errs = append(errs, out.err)
		}
	}
	const shown = 3
	if more := len(errs) - shown; more > 0 {
		errs = append(errs[:shown], fmt.Errorf("and %d more", more))
	}
	a.err = errors.Join(errs...)
	switch {
	case a.err != nil:
	case p.remove:
		a.gone, a.err = true, control.RemoveJob(ctx, r.Client, o.job)
	case p.release:
		a.gone, a.err = true, r.release(ctx, o.job)
	}
	return a
}

// countStarts returns how many pulls should begin.
func (p *planned) countStarts() int {
	n := 0
	for i := range p.steps {
		if p.steps[i].begins {
			n++
		}
	}
	return n
}

// overtakenDelay is the time after which a job whose write was overtaken is planned again. By then the cache shows the other write. Its watch
// event doesn't enqueue a job that owns nothing in the NodeImage yet.
const overtakenDelay = time.Second

// outcome is the result of one write.
type outcome struct {
	done bool
	// overtaken means that nothing was written, because somebody else has changed or deleted the NodeImage, which the plan didn't see.
	overtaken bool
	err       error
}

// write applies what a job wants in one NodeImage. Entries written by others stay, unless the step overwrites them.
func (r *Reconciler) write(ctx context.Context, job *appsv1beta1.ImagePullJob, s step) outcome {
	written, err := r.send(ctx, job, s, images(s.ref.Name, s.entry, s.sandbox))
	if err == nil && s.entry == nil && owned(written, job.UID) {
		// OpenKruise has written it without an apply. An apply that changes nothing makes it the job's own.
		if _, err = r.send(ctx, job, s, adopted(written, job)); err == nil {
			_, err = r.send(ctx, job, s, nil)
		}
	}
	switch {
	case apierrors.IsConflict(err):
		return outcome{overtaken: true}
	case ownership.Passed(err): // The node is gone, or another one has its name. Its watch event enqueues the job.
		return outcome{}
	case err != nil:
		return outcome{err: fmt.Errorf("apply NodeImage %s: %w", s.node.Name, err)}
	}
	return outcome{done: true}
}

// send applies images of a job, and returns the resulting NodeImage. It never takes from other jobs what the plan didn't see: a step that
// overwrites is refused if the NodeImage has changed since it was read, and any other step if it would change what another manager has applied.
// Other steps need no lock on the whole NodeImage, so jobs of different images don't get in each other's way.
func (r *Reconciler) send(
	ctx context.Context, job *appsv1beta1.ImagePullJob, s step, images map[string]appsv1beta1.ImageSpec,
) (*appsv1beta1.NodeImage, error) {
	n := &appsv1beta1.NodeImage{Spec: appsv1beta1.NodeImageSpec{Images: images}}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": content["spec"]}}
	u.SetGroupVersionKind(appsv1beta1.GroupVersion.WithKind("NodeImage"))
	u.SetName(s.node.Name)
	u.SetUID(s.node.UID)
	opts := []client.ApplyOption{ownerOf(job)}
	if s.overwrites {
		u.SetResourceVersion(s.node.ResourceVersion)
		opts = append(opts, client.ForceOwnership)
	}
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), opts...); err != nil {
		return nil, err
	}
	written := &appsv1beta1.NodeImage{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, written); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	r.Expect.Written(job.UID, written)
	return written, nil
}

// images returns what is applied for an entry; nil without an entry.
func images(name string, entry *appsv1beta1.ImageTagSpec, sandbox *appsv1beta1.SandboxConfig) map[string]appsv1beta1.ImageSpec {
	if entry == nil {
		return nil
	}
	return map[string]appsv1beta1.ImageSpec{name: {SandboxConfig: sandbox, Tags: []appsv1beta1.ImageTagSpec{*entry}}}
}

// adopted returns the entries of a job as they are, without other owners.
func adopted(n *appsv1beta1.NodeImage, job *appsv1beta1.ImagePullJob) map[string]appsv1beta1.ImageSpec {
	out := map[string]appsv1beta1.ImageSpec{}
	for ref, entry := range entries(n, job.UID) {
		mine := *entry.DeepCopy()
		mine.OwnerReferences = slices.DeleteFunc(mine.OwnerReferences, func(o appsv1beta1.ImageTagOwner) bool { return o.UID != job.UID })
		image := out[ref.Name]
		image.SandboxConfig, image.Tags = n.Spec.Images[ref.Name].SandboxConfig, append(image.Tags, mine)
		out[ref.Name] = image
	}
	return out
}

// release removes the finalizer of a job that OpenKruise created.
func (r *Reconciler) release(ctx context.Context, job *appsv1beta1.ImagePullJob) error {
	if !slices.Contains(job.Finalizers, finalizer) {
		return nil
	}
	next := job.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(job, client.MergeFromWithOptimisticLock{}), fieldOwner)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove the finalizer of an ImagePullJob: %w", err)
	}
	return nil
}

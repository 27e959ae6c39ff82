package uniteddeployment

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/revision"
)

// fieldOwner is the name under which workloads are written.
const fieldOwner = client.FieldOwner("flotilla-uniteddeployment")

// applied says what came of a plan.
type applied struct {
	// collided: the name of the new revision is taken by another template; nothing else was done.
	collided bool
	// revision is why the update revision could not be written; nothing else was done then.
	revision error
	// children are the workloads of the subsets as they are now, by the subset's name.
	children map[string]child
	// created, updated, removed and unstuck are names.
	created, updated, removed, unstuck []string
	// duplicates, remove, write and rest are errors: of deletes of duplicates, of other deletes, of creations and changes,
	// of housekeeping. render is why workloads can't be made from the spec, which no retry mends.
	duplicates, remove, write, rest, render error
	// late says that a write came too late: the world has moved on, and a watch will tell how.
	late bool
}

// err joins all errors that a retry may mend.
func (d applied) err() error {
	return errors.Join(d.revision, d.duplicates, d.remove, d.write, d.rest)
}

// any joins all errors.
func (d applied) any() error { return errors.Join(d.err(), d.render) }

// apply does what the plan says. What it does twice, after a crash or a conflict, comes to the same.
func (r *Reconciler) apply(ctx context.Context, o observed, w planned) applied {
	d := applied{children: map[string]child{}}
	for i := range w.subsets {
		if t := &w.subsets[i]; t.child != nil {
			d.children[t.name] = *t.child
		}
	}
	if w.fault != nil {
		return d
	}
	if d.collided, d.revision = r.writeRevision(ctx, o, w); d.collided || d.revision != nil {
		return d
	}
	r.remove(ctx, o, w, &d)
	for _, creations := range []bool{false, true} { // Changes first: they may make the room that a new workload needs.
		if !r.write(ctx, o, w, creations, &d) {
			break
		}
	}
	for _, pod := range w.stuck {
		if err := r.delete(ctx, o.ud.UID, pod); err != nil {
			d.rest = fmt.Errorf("delete stuck pod %s: %w", pod.Name, err)
			break
		}
		d.unstuck = append(d.unstuck, pod.Name)
	}
	for _, h := range w.spare {
		if err := r.delete(ctx, o.ud.UID, h); err != nil {
			d.rest = errors.Join(d.rest, fmt.Errorf("delete revision %s: %w", h.Name, err))
			break
		}
	}
	return d
}

// writeRevision makes the update revision the newest. A name that is taken by the same template is no collision but an
// object of that name that is gone, whose revisions are still to be collected: another hash would make the revision's
// name differ from that in other clusters.
func (r *Reconciler) writeRevision(ctx context.Context, o observed, w planned) (collided bool, err error) {
	err = revision.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect}.Write(ctx, o.ud.UID, w.revision)
	if errors.Is(err, revision.ErrCollision) {
		return true, nil
	}
	return false, err
}

// remove deletes workloads that nobody asks for.
func (r *Reconciler) remove(ctx context.Context, o observed, w planned, d *applied) {
	for _, c := range w.remove {
		into := &d.remove
		if c.reason == reasonDuplicate {
			into = &d.duplicates
		}
		if *into != nil {
			continue
		}
		if err := r.delete(ctx, o.ud.UID, c.workload); err != nil {
			*into = fmt.Errorf("delete %s %s of subset %s: %w", c.kind.Kind, c.GetName(), c.subset, err)
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Deleted workload", "kind", c.kind.Kind, "name", c.GetName(), "reason", c.reason)
		d.removed = append(d.removed, c.GetName())
	}
}

// delete deletes this very object and no other of its name.
func (r *Reconciler) delete(ctx context.Context, owner types.UID, o client.Object) error {
	uid := o.GetUID()
	err := r.Client.Delete(ctx, o, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	r.Expect.Deleted(owner, o)
	return nil
}

// write makes or changes the workloads of subsets, one after another. One that the apiserver finds invalid does not stop
// the others; any other error does, because it would meet them too. The result says whether to go on.
func (r *Reconciler) write(ctx context.Context, o observed, w planned, creations bool, d *applied) bool {
	for i := range w.subsets {
		t := &w.subsets[i]
		if creations == (t.child != nil) {
			continue
		}
		is, err := r.writeOne(ctx, o, t)
		switch {
		case t.fault != nil:
			d.render = errors.Join(d.render, t.fault)
		case quiet(err):
			d.late = true
		case err != nil:
			d.write = errors.Join(d.write, fmt.Errorf("%s of subset %s: %w", t.kind.Kind, t.name, err))
			if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
				return false
			}
		case is != nil:
			d.children[t.name] = t.kind.viewOf(is)
			ctrl.LoggerFrom(ctx).Info("Wrote workload", "kind", t.kind.Kind, "name", is.GetName(), "reason", t.reason, "want", t.why)
			if creations {
				d.created = append(d.created, is.GetName())
			} else {
				d.updated = append(d.updated, is.GetName())
			}
		case t.reason != "":
			ctrl.LoggerFrom(ctx).V(1).Info("Held subset back", "reason", t.reason, "want", t.why)
		}
	}
	return true
}

// writeOne writes the workload of a subset and returns the apiserver's answer, nil if there was nothing to write.
func (r *Reconciler) writeOne(ctx context.Context, o observed, t *target) (workload, error) {
	switch {
	case t.create != nil:
		made := t.create.DeepCopyObject().(workload)
		if err := r.Client.Create(ctx, made, fieldOwner); err != nil {
			r.Expect.Refused(o.ud.UID, err)
			return nil, fmt.Errorf("create: %w", err)
		}
		r.Expect.Created(o.ud.UID, made)
		return made, nil
	case t.update != nil:
		next := t.update.next.DeepCopyObject().(workload)
		// The version in the patch keeps the plan from being carried out on a workload that it was not made from.
		patch := client.MergeFromWithOptions(t.child.workload, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, next, patch, fieldOwner); err != nil {
			return nil, fmt.Errorf("change %s: %w", next.GetName(), err)
		}
		r.Expect.Written(o.ud.UID, next)
		return next, nil
	}
	return nil, nil
}

// quiet tells whether an error only says that the world has moved on: somebody else wrote the workload, it is gone, or
// its namespace is going.
func quiet(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

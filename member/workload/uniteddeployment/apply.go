package uniteddeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// fieldOwner is the name under which workloads are written.
const fieldOwner = client.FieldOwner("flotilla-uniteddeployment")

// applied is the result of a plan.
type applied struct {
	// collided means that another template has the name of the new revision; nothing else was done.
	collided bool
	// revision is why the update revision could not be written; nothing else was done in that case.
	revision error
	// children maps subset names to the workloads as they are now.
	children map[string]child
	// created, updated, removed and unstuck list names.
	created, updated, removed, unstuck []string
	// These are errors: duplicates from deleting duplicates, remove from other deletions, write from creations and updates, rest from cleaning
	// up, and reserve from labelling reserved pods. render is why workloads can't be rendered from the spec, which no retry fixes.
	duplicates, remove, write, rest, reserve, render error
	// unsure means that the apiserver did not show the pods that the plan is about, so no workload was written.
	unsure bool
	// retry is when to retry a write that was a conflict; 0 means no retry. It is needed because only some changes of a pod cause events.
	retry time.Duration
	// late means that a write was a conflict, or would have been one with a pod, and that the object's watch event triggers the next reconcile.
	late bool
}

// err joins all errors that a retry may fix.
func (a applied) err() error {
	return errors.Join(a.revision, a.duplicates, a.remove, a.write, a.rest, a.reserve)
}

// joinAll joins all errors.
func (a applied) joinAll() error { return errors.Join(a.err(), a.render) }

// apply applies the plan. It is idempotent, so it may be repeated after a crash or a conflict.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned, now time.Time) applied {
	a := applied{children: map[string]child{}}
	for i := range p.subsets {
		if t := &p.subsets[i]; t.child != nil {
			a.children[t.name] = *t.child
		}
	}
	if p.fault != nil {
		return a
	}
	if a.collided, a.revision = r.writeRevision(ctx, o, p); a.collided || a.revision != nil {
		return a
	}
	r.remove(ctx, o, p, &a)
	if a.reserve = r.reserve(ctx, p, &a); !r.confirm(ctx, o, p, now, &a) {
		return a
	}
	for _, creations := range []bool{false, true} { // Updates come first: they may free resources for new workloads.
		if !r.write(ctx, o, p, creations, &a) {
			break
		}
	}
	a.rest = r.deleteStuck(ctx, o.ud.UID, p, &a)
	for _, h := range p.surplusRevisions {
		if err := r.delete(ctx, o.ud.UID, h); err != nil {
			a.rest = errors.Join(a.rest, fmt.Errorf("delete revision %s: %w", h.Name, err))
			break
		}
	}
	return a
}

// writeRevision makes the update revision the newest. If an existing revision of that name has the same template, it is not a collision: it
// belongs to an earlier object, and the garbage collector will delete it. A different hash would make the name differ from the name in other
// clusters.
func (r *Reconciler) writeRevision(ctx context.Context, o observed, p planned) (collided bool, err error) {
	err = revision.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect}.Write(ctx, o.ud.UID, p.revision)
	if errors.Is(err, revision.ErrCollision) {
		return true, nil
	}
	return false, err
}

// remove deletes workloads that are not wanted.
func (r *Reconciler) remove(ctx context.Context, o observed, p planned, a *applied) {
	for _, c := range p.remove {
		into := &a.remove
		if c.reason == reasonDuplicate {
			into = &a.duplicates
		}
		if *into != nil {
			continue
		}
		if err := r.delete(ctx, o.ud.UID, c.workload); err != nil {
			*into = fmt.Errorf("delete %s %s of subset %s: %w", c.kind.Kind, c.GetName(), c.subset, err)
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Deleted workload", "kind", c.kind.Kind, "name", c.GetName(), "reason", c.reason)
		a.removed = append(a.removed, c.GetName())
	}
}

// deleteStuck deletes pods that block the rollout of their StatefulSet. A pod that has changed since it was observed is left alone, because it
// may have become ready.
func (r *Reconciler) deleteStuck(ctx context.Context, owner types.UID, p planned, a *applied) error {
	for _, pod := range p.stuck {
		err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion})
		switch {
		case apierrors.IsConflict(err):
			a.retry = podRetry
			continue
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("delete stuck pod %s: %w", pod.Name, err)
		}
		r.Expect.Deleted(owner, pod)
		a.unstuck = append(a.unstuck, pod.Name)
	}
	return nil
}

// delete deletes an object, with its UID as a precondition.
func (r *Reconciler) delete(ctx context.Context, owner types.UID, o client.Object) error {
	uid := o.GetUID()
	err := r.Client.Delete(ctx, o, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	r.Expect.Deleted(owner, o)
	return nil
}

// write creates or updates the workloads of subsets, one after another. A workload that the apiserver finds invalid does not stop the others;
// any other error does, because they would fail too. The result says whether to continue.
func (r *Reconciler) write(ctx context.Context, o observed, p planned, creations bool, a *applied) bool {
	for i := range p.subsets {
		t := &p.subsets[i]
		if creations == (t.child != nil) {
			continue
		}
		live, err := r.writeOne(ctx, o, t)
		switch {
		case t.fault != nil:
			a.render = errors.Join(a.render, t.fault)
		case isExpected(err):
			a.late = true
		case err != nil:
			a.write = errors.Join(a.write, fmt.Errorf("%s of subset %s: %w", t.kind.Kind, t.name, err))
			if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
				return false
			}
		case live != nil:
			a.children[t.name] = t.kind.viewOf(live)
			ctrl.LoggerFrom(ctx).Info("Wrote workload", "kind", t.kind.Kind, "name", live.GetName(), "reason", t.reason, "want", t.why)
			if creations {
				a.created = append(a.created, live.GetName())
			} else {
				a.updated = append(a.updated, live.GetName())
			}
		case t.reason != "":
			ctrl.LoggerFrom(ctx).V(1).Info("Subset is waiting", "reason", t.reason, "want", t.why)
		}
	}
	return true
}

// writeOne writes the workload of a subset and returns the apiserver's answer; nil if there was nothing to write.
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
		// The resourceVersion in the patch prevents applying the plan to a state other than the observed one.
		patch := client.MergeFromWithOptions(t.child.workload, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, next, patch, fieldOwner); err != nil {
			return nil, fmt.Errorf("change %s: %w", next.GetName(), err)
		}
		r.Expect.Written(o.ud.UID, next)
		return next, nil
	}
	return nil, nil
}

// confirm asks the apiserver whether the pods of replicas that leave a subset still wait for a node, because a stale cache must not take away
// a running pod. If they don't, nothing is written, not even in the subsets the replicas would go to. A pod that no longer waits has a watch
// event, which triggers the next reconcile.
func (r *Reconciler) confirm(ctx context.Context, o observed, p planned, now time.Time, a *applied) bool {
	if reserving(o.ud) {
		same, err := r.confirmUnchanged(ctx, o, p, now)
		a.write, a.unsure = err, !same
		a.late = a.late || a.unsure
		return same
	}
	for i := range p.subsets {
		t := &p.subsets[i]
		if t.leaving == 0 {
			continue
		}
		pods, err := podsOf(ctx, r.Live, t.child, true)
		if err != nil {
			a.write = fmt.Errorf("%s of subset %s: %w", t.kind.Kind, t.name, err)
			return false
		}
		if t.child.movable(pods) < t.leaving {
			a.late = true
			return false
		}
	}
	return true
}

// confirmUnchanged asks the apiserver whether it would yield the same plan, if the plan takes replicas from a subset. A pod that runs in place of a
// reserved one is removed only if the reserved pod runs.
func (r *Reconciler) confirmUnchanged(ctx context.Context, o observed, p planned, now time.Time) (bool, error) {
	if !slices.ContainsFunc(p.subsets, func(t target) bool { return t.child != nil && int(t.replicas) < t.child.replicas }) {
		return true, nil
	}
	live := &appsv1beta1.UnitedDeployment{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(o.ud), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if live.UID != o.ud.UID || live.ResourceVersion != o.ud.ResourceVersion {
		return false, nil
	}
	if err := o.readPods(ctx, r.Live, true); err != nil {
		return false, err
	}
	return slices.Equal(plan(o, now).division.Targets, p.division.Targets), nil
}

// podRetry is how soon a write to a pod is retried after a conflict. By then the cache should show the pod's new version.
const podRetry = time.Second

// reserve labels the pods that are newly reserved, and removes the label from those that are no longer reserved. A label is written only to
// the version of the pod that the plan is about.
func (r *Reconciler) reserve(ctx context.Context, p planned, a *applied) error {
	for i := range p.subsets {
		reserved := &p.subsets[i].room.reserved
		for _, l := range []struct {
			value string
			pods  []*corev1.Pod
		}{{"true", reserved.mark}, {"false", reserved.release}} {
			for _, pod := range l.pods {
				switch err := r.label(ctx, pod, l.value); {
				case isExpected(err):
					a.late, a.retry = true, podRetry
				case err != nil:
					return fmt.Errorf("label pod %s: %w", pod.Name, err)
				}
			}
		}
	}
	return nil
}

func (r *Reconciler) label(ctx context.Context, pod *corev1.Pod, value string) error {
	b := podpatch.New(pod)
	b.Observed(pod)
	b.Metadata.Labels[keys.SubsetReserved] = &value
	patch, err := b.Patch(pod, "")
	if err != nil {
		return err
	}
	return r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(patch.Type, patch.Data), fieldOwner)
}

// isExpected reports whether an error is expected: the workload has changed or is gone, or its namespace is terminating.
func isExpected(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

package podcontrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/revision"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// Applier writes for one workload. What it does twice, after a crash or a conflict, comes to the same.
type Applier struct {
	// Writer writes.
	Writer *Writer
	// Owner is the workload's UID.
	Owner types.UID
	// Hooks are those of the workload.
	Hooks lifecycle.Hooks
	// ShortHash makes pods name their revision by its hash alone.
	ShortHash bool
}

// EnsureRevision makes the update revision the newest, and tells whether the reconcile may go on: for a spec that is invalid
// nothing is written.
func (d Applier) EnsureRevision(ctx context.Context, w *podset.Plan, done *Results) bool {
	if w.InvalidSpec != "" {
		return false
	}
	err := revision.Writer{Client: d.Writer.Client, Live: d.Writer.Live, Expect: d.Writer.Expect}.Write(ctx, d.Owner, w.Revision)
	switch {
	case errors.Is(err, revision.ErrCollision), errors.Is(err, revision.ErrNameTaken):
		done.Collided = true
	case d.Writer.Expect.Terminating(d.Owner) == 0: // Else the apiserver creates nothing in the namespace, which is no failure.
		done.Revision = err
	}
	return err == nil
}

// Disown takes the owner off pods.
func (d Applier) Disown(ctx context.Context, w *podset.Plan, done *Results) {
	patches := make([]Patch, 0, len(w.Disown))
	for _, pod := range w.Disown {
		p, err := OwnerPatch(pod, []types.UID{d.Owner})
		if err != nil {
			done.Rest = errors.Join(done.Rest, err)
			return
		}
		patches = append(patches, p)
	}
	done.Rest = errors.Join(done.Rest, d.Writer.Patch(ctx, d.Owner, patches).Err)
}

// OwnerPatch replaces the owner references with these UIDs, if the object is as it was seen: a patch that arrives late must not give it
// to who is gone, because it would go with him.
func OwnerPatch(o client.Object, from []types.UID, to ...metav1.OwnerReference) (Patch, error) {
	refs := make([]any, 0, len(from)+len(to))
	for _, uid := range from {
		refs = append(refs, map[string]any{"$patch": "delete", "uid": uid})
	}
	for _, ref := range to {
		refs = append(refs, ref)
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "ownerReferences": refs,
	}})
	if err != nil {
		return Patch{}, fmt.Errorf("marshal owners of %s: %w", o.GetName(), err)
	}
	return Patch{Object: o, Type: types.StrategicMergePatchType, Data: data}, nil
}

// Delete deletes pods in three classes, by what an error means: scaling, updating, making room for another.
func (d Applier) Delete(ctx context.Context, list []podset.Change, done *Results) {
	var scale, update, room []client.Object
	for _, c := range list {
		switch c.Reason { //nolint:exhaustive // Whatever is neither of the two is scaling.
		case rollout.ReasonEnded:
			room = append(room, c.Object)
		case rollout.ReasonRecreate:
			update = append(update, c.Object)
		default:
			scale = append(scale, c.Object)
		}
	}
	done.Deleted = d.Writer.Delete(ctx, d.Owner, scale)
	done.Recreated = d.Writer.Delete(ctx, d.Owner, update)
	done.Ended = d.Writer.Delete(ctx, d.Owner, room)
}

// Write does all that is to be written to pods: what hooks are told, and the writes of updates in place.
func (d Applier) Write(ctx context.Context, w *podset.Plan, now time.Time, done *Results) {
	write := func(step string, list []podset.Change) Result {
		patches := make([]Patch, 0, len(list))
		for _, c := range list {
			all, err := d.Patches(w, step, c, now)
			if err != nil {
				return Result{Err: err}
			}
			if p := chain(c.Object, all); p != nil {
				patches = append(patches, *p)
			}
		}
		return d.Writer.Patch(ctx, d.Owner, patches)
	}
	done.Named = write(StepName, w.Name)
	done.Parted = write(StepPrepareDelete, w.PrepareDelete)
	done.Recalled = write(StepReturn, w.Return)
	done.Prepared = write(StepPrepareUpdate, w.PrepareUpdate)
	done.Marked = write(StepMark, w.Mark)
	done.Edited = write(StepEdit, w.Edit)
	done.Released = write(StepRelease, w.Release)
}

// chain is one patch after the other, nil if there is none.
func chain(pod *corev1.Pod, all []podpatch.Patch) *Patch {
	var first *Patch
	for _, p := range slices.Backward(all) {
		first = &Patch{Object: pod, Type: p.Type, Data: p.Data, Subresource: p.Subresource, Then: first}
	}
	return first
}

// Patches are the requests of one step for one pod.
func (d Applier) Patches(w *podset.Plan, step string, c podset.Change, now time.Time) ([]podpatch.Patch, error) {
	to := w.Revision.Revision
	if c.Back {
		to = w.Current
	}
	var p podpatch.Patch
	var err error
	switch step {
	case StepName:
		b := podpatch.New(c.Object)
		b.Observed(c.Object)
		b.Metadata.Labels[keys.SpecifiedDelete] = new("true")
		p, err = b.Patch(c.Object, "")
	case StepPrepareDelete:
		p, err = d.Hooks.PrepareDelete(c.Object, now)
	case StepReturn:
		p, err = d.Hooks.Return(c.Object, inplace.Closed(c.Object), now)
	case StepPrepareUpdate:
		p, err = d.Hooks.PrepareUpdate(c.Object, now)
	case StepMark:
		p, err = inplace.Mark(c.Object, now)
	case StepRelease:
		p, err = inplace.Release(c.Object, d.Hooks.Serve(c.Object, now), now)
	default:
		if c.Reason == rollout.ReasonNextBatch {
			return inplace.Continue(c.Object, now)
		}
		return c.InPlace.Write(c.Object, podset.Label(to.Name, d.ShortHash), now)
	}
	return []podpatch.Patch{p}, err
}

// Create makes pods. birth makes what is to be created, of the template and the name of its revision.
func (d Applier) Create(
	ctx context.Context, w *podset.Plan, template *corev1.PodTemplateSpec, now time.Time, done *Results,
	birth func(c rollout.Create, rev string, template *corev1.PodTemplateSpec) PodCreate,
) {
	if len(w.Create) == 0 {
		return
	}
	var former *corev1.PodTemplateSpec
	if slices.ContainsFunc(w.Create, func(c rollout.Create) bool { return c.Old }) {
		var err error
		if former, err = revision.PodTemplate(w.Current); err != nil {
			done.Created = Result{Err: err}
			return
		}
	}
	births := make([]PodCreate, 0, len(w.Create))
	for _, c := range w.Create {
		rev, of := w.Revision.Revision.Name, template
		if c.Old {
			rev, of = w.Current.Name, former
		}
		b := birth(c, rev, of)
		b.Then = d.IntoService(b.Pod, now)
		births = append(births, b)
	}
	done.Created = d.Writer.Create(ctx, d.Owner, births)
}

// IntoService opens the gates of a pod that was just made, if it has any and no hook has to answer first. It needs no look at
// the pod, and a gate that opens while the pod starts would be news to all who watch it.
func (d Applier) IntoService(pod *corev1.Pod, now time.Time) func(*corev1.Pod) (Patch, error) {
	if d.Hooks.HoldsService() || lifecycle.Of(pod) == pods.LifecycleNormal {
		return nil
	}
	return func(made *corev1.Pod) (Patch, error) {
		p, err := inplace.Release(made, d.Hooks.Serve(made, now), now)
		return Patch{Object: made, Type: p.Type, Data: p.Data, Subresource: p.Subresource}, err
	}
}

// DeleteRevisions deletes revisions beyond the limit.
func (d Applier) DeleteRevisions(ctx context.Context, w *podset.Plan, done *Results) {
	done.Rest = errors.Join(done.Rest, d.Writer.Delete(ctx, d.Owner, Objects(w.RevisionsToDelete)).Err)
}

// Objects are those of a list, as clients know them.
func Objects[O client.Object](list []O) []client.Object {
	out := make([]client.Object, 0, len(list))
	for _, o := range list {
		out = append(out, o)
	}
	return out
}

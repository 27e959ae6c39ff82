package cloneset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/history"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/podwork"
	"github.com/flotilla-io/flotilla/pkg/revision"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// done says what came of a plan, by classes of writes: an error in one does not stop the others.
type done struct {
	// collided: the name of the new revision is taken; nothing else was done.
	collided bool
	// revision is why the update revision could not be written; nothing else was done then.
	revision error

	deleted, recreated, ended podwork.Result
	named, parted, recalled   podwork.Result
	prepared                  podwork.Result
	marked, edited, released  podwork.Result
	created                   podwork.Result
	// set is the set with podsToDelete as it was written; nil if it was not.
	set *appsv1beta1.CloneSet
	// given is what came of claims that change their owner, dropped of those that are deleted, rest of all other
	// housekeeping.
	given, dropped, rest error
}

// err joins all errors.
func (d done) err() error {
	return errors.Join(d.revision, d.deleted.Err, d.recreated.Err, d.ended.Err, d.named.Err, d.parted.Err, d.recalled.Err,
		d.prepared.Err, d.marked.Err, d.edited.Err, d.released.Err, d.created.Err, d.given, d.dropped, d.rest)
}

// apply does what the plan says. What it does twice, after a crash or a conflict, comes to the same.
func (r *Reconciler) apply(ctx context.Context, o observed, w work) done {
	var d done
	if d.collided, d.revision = r.writeRevision(ctx, o, w); d.collided || d.revision != nil {
		return d
	}
	given, err := r.giveClaims(ctx, o, w)
	d.given = err
	if d.given == nil {
		d.rest = r.disown(ctx, o, w)
	}
	r.deletePods(ctx, o, w.ready(given), &d)
	now := r.Clock.Now()
	r.writePods(ctx, o, w, now, &d)
	d.created = r.createPods(ctx, o, w, now)
	d.set, err = r.truncate(ctx, o, w)
	d.dropped = errors.Join(d.dropped, r.writer().Delete(ctx, o.set.UID, objects(w.dropClaims)).Err)
	d.rest = errors.Join(d.rest, r.writer().Delete(ctx, o.set.UID, objects(w.spare)).Err, err)
	log(ctx, w, d)
	return d
}

// writePods does all that is to be written to pods: what hooks are told, and the writes of updates in place.
func (r *Reconciler) writePods(ctx context.Context, o observed, w work, now time.Time, d *done) {
	write := func(step string, list []change) podwork.Result {
		return r.patchPods(ctx, o, list, func(c change) ([]podpatch.Patch, error) { return w.patches(o, step, c, now) })
	}
	d.named = write(stepName, w.name)
	d.parted = write(stepPrepareDelete, w.prepareDelete)
	d.recalled = write(stepReturn, w.recall)
	d.prepared = write(stepPrepareUpdate, w.prepareUpdate)
	d.marked = write(stepMark, w.mark)
	d.edited = write(stepEdit, w.edit)
	d.released = write(stepRelease, w.release)
}

// patches are the requests of one step for one pod.
func (w work) patches(o observed, step string, c change, now time.Time) ([]podpatch.Patch, error) {
	hooks := lifecycle.HooksOf(o.set.Spec.Lifecycle)
	to := w.revision.Revision
	if c.old {
		to = w.current
	}
	var p podpatch.Patch
	var err error
	switch step {
	case stepName:
		b := podpatch.New(c.pod)
		b.Observed(c.pod)
		b.Metadata.Labels[keys.SpecifiedDelete] = new("true")
		p, err = b.Patch(c.pod, "")
	case stepPrepareDelete:
		p, err = hooks.PrepareDelete(c.pod, now)
	case stepReturn:
		p, err = hooks.Return(c.pod, inplace.Closed(c.pod), now)
	case stepPrepareUpdate:
		p, err = hooks.PrepareUpdate(c.pod, now)
	case stepMark:
		p, err = inplace.Mark(c.pod, now)
	case stepRelease:
		p, err = inplace.Release(c.pod, hooks.Serve(c.pod, now), now)
	default:
		if c.reason == rollout.ReasonNextBatch {
			return inplace.Continue(c.pod, now)
		}
		return c.edit.Write(c.pod, o.gates.label(to.Name), now)
	}
	return []podpatch.Patch{p}, err
}

// log says what was done in one line, and why pods waited in one more.
func log(ctx context.Context, w work, d done) {
	l := ctrl.LoggerFrom(ctx)
	for _, c := range []struct {
		message string
		result  podwork.Result
	}{
		{"Deleted pods", d.deleted},
		{"Deleted pods to make them anew", d.recreated},
		{"Named pods for deletion", d.named},
		{"Asked for pods to be let go for deletion", d.parted},
		{"Kept pods that were asked for", d.recalled},
		{"Asked for pods to be let go for an update", d.prepared},
		{"Took pods out of service for an update", d.marked},
		{"Updated pods in place", d.edited},
		{"Put pods into service", d.released},
		{"Created pods", d.created},
	} {
		if n := len(c.result.Done); n > 0 {
			l.Info(c.message, "count", n, "revision", w.revision.Revision.Name)
		}
	}
	for _, h := range w.holds {
		l.V(1).Info("Held pods back", "reason", h.Reason, "count", h.Pods, "want", h.Why)
	}
	for i := range w.pods {
		if m := &w.pods[i]; m.waits != "" {
			l.V(1).Info("Waited for an update in place", "pod", m.Key, "reason", m.waits)
			return
		}
	}
}

// writeRevision makes the update revision the newest.
func (r *Reconciler) writeRevision(ctx context.Context, o observed, w work) (collided bool, err error) {
	err = history.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect}.Write(ctx, o.set.UID, w.revision)
	if errors.Is(err, history.ErrCollision) || errors.Is(err, history.ErrTaken) {
		return true, nil
	}
	return false, err
}

// giveClaims makes pods the owners of claims that go with them, and returns the names of those that are given.
func (r *Reconciler) giveClaims(ctx context.Context, o observed, w work) ([]string, error) {
	patches := make([]podwork.Patch, 0, len(w.giveClaims))
	for _, g := range w.giveClaims {
		owner := metav1.OwnerReference{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod", Name: g.pod.Name, UID: g.pod.UID, Controller: new(true),
		}
		p, err := reown(g.claim, o.set.UID, owner)
		if err != nil {
			return nil, err
		}
		patches = append(patches, p)
	}
	result := r.writer().Patch(ctx, o.set.UID, patches)
	return result.Done, result.Err
}

// ready are the pods to delete whose claims, if they get any, are among the given.
func (w work) ready(given []string) []change {
	done := make(map[string]bool, len(given))
	for _, name := range given {
		done[name] = true
	}
	waits := map[types.UID]bool{}
	for _, g := range w.giveClaims {
		if !done[g.claim.Name] {
			waits[g.pod.UID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(w.delete), func(c change) bool { return waits[c.pod.UID] })
}

// disown takes the owner off pods.
func (r *Reconciler) disown(ctx context.Context, o observed, w work) error {
	patches := make([]podwork.Patch, 0, len(w.disown))
	for _, pod := range w.disown {
		p, err := reown(pod, o.set.UID)
		if err != nil {
			return err
		}
		patches = append(patches, p)
	}
	return r.writer().Patch(ctx, o.set.UID, patches).Err
}

// reown replaces the owner reference with that UID. The object's UID keeps the patch from another one of its name.
func reown(o client.Object, from types.UID, to ...metav1.OwnerReference) (podwork.Patch, error) {
	refs := make([]any, 0, 1+len(to))
	refs = append(refs, map[string]any{"$patch": "delete", "uid": from})
	for _, ref := range to {
		refs = append(refs, ref)
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.GetUID(), "ownerReferences": refs}})
	if err != nil {
		return podwork.Patch{}, fmt.Errorf("marshal owners of %s: %w", o.GetName(), err)
	}
	return podwork.Patch{Object: o, Type: types.StrategicMergePatchType, Data: data}, nil
}

// deletePods deletes pods in three classes, by what an error means: scaling, updating, making room for a successor. The
// claims of pods that the set itself wants gone go after them.
func (r *Reconciler) deletePods(ctx context.Context, o observed, pods []change, d *done) {
	var scale, update, room []client.Object
	ids := make(map[string]string, len(pods))
	for _, c := range pods {
		ids[c.pod.Name] = instanceID(c.pod)
		switch c.reason { //nolint:exhaustive // Whatever is neither of the two is scaling.
		case reasonEnded:
			room = append(room, c.pod)
		case rollout.ReasonRecreate:
			update = append(update, c.pod)
		default:
			scale = append(scale, c.pod)
		}
	}
	d.deleted = r.writer().Delete(ctx, o.set.UID, scale)
	d.recreated = r.writer().Delete(ctx, o.set.UID, update)
	d.ended = r.writer().Delete(ctx, o.set.UID, room)
	if o.set.Spec.ScaleStrategy.EnablePVCReuse {
		return // They were given to their pods before.
	}
	var claims []*corev1.PersistentVolumeClaim
	for _, name := range slices.Concat(d.deleted.Done, d.recreated.Done) {
		claims = append(claims, claimsOf(o, ids[name])...)
	}
	d.dropped = r.writer().Delete(ctx, o.set.UID, objects(claims)).Err
}

// patchPods writes to each pod, in one request or in several, one after the other.
func (r *Reconciler) patchPods(
	ctx context.Context, o observed, changes []change, write func(change) ([]podpatch.Patch, error),
) podwork.Result {
	patches := make([]podwork.Patch, 0, len(changes))
	for _, c := range changes {
		all, err := write(c)
		if err != nil {
			return podwork.Result{Err: err}
		}
		var first *podwork.Patch
		for _, p := range slices.Backward(all) {
			first = &podwork.Patch{Object: c.pod, Type: p.Type, Data: p.Data, Subresource: p.Subresource, Then: first}
		}
		if first != nil {
			patches = append(patches, *first)
		}
	}
	return r.writer().Patch(ctx, o.set.UID, patches)
}

// createPods makes pods with their claims.
func (r *Reconciler) createPods(ctx context.Context, o observed, w work, now time.Time) podwork.Result {
	if len(w.create) == 0 {
		return podwork.Result{}
	}
	var former *corev1.PodTemplateSpec
	if slices.ContainsFunc(w.create, func(b birth) bool { return b.old }) {
		var err error
		if former, err = revision.PodTemplate(w.current); err != nil {
			return podwork.Result{Err: err}
		}
	}
	ids, then := usedIDs(o), intoService(o.set, now)
	births := make([]podwork.Birth, 0, len(w.create))
	for _, c := range w.create {
		id := c.id
		if id == "" {
			id = r.newID(ids)
		}
		b := podwork.Birth{Then: then}
		if c.old {
			b.Pod = newPod(o.set, o.gates.label(w.current.Name), former, id, now)
		} else {
			b.Pod = newPod(o.set, o.gates.label(w.revision.Revision.Name), &o.set.Spec.Template, id, now)
		}
		for _, claim := range newClaims(o.set, id) {
			if !ids[claim.Name] {
				b.Claims = append(b.Claims, claim)
			}
		}
		births = append(births, b)
	}
	return r.writer().Create(ctx, o.set.UID, births)
}

// intoService opens the gates of a pod that was just made, if no hook has to answer first. It needs no look at the pod, and
// a gate that opens while the pod starts would be news to all who watch it.
func intoService(set *appsv1beta1.CloneSet, now time.Time) func(*corev1.Pod) (podwork.Patch, error) {
	hooks := lifecycle.HooksOf(set.Spec.Lifecycle)
	if hooks.HoldsService() {
		return nil
	}
	return func(made *corev1.Pod) (podwork.Patch, error) {
		p, err := inplace.Release(made, hooks.Serve(made, now), now)
		return podwork.Patch{Object: made, Type: p.Type, Data: p.Data, Subresource: p.Subresource}, err
	}
}

// usedIDs are the instance ids that can't be given to a new pod, and the names of claims that exist.
func usedIDs(o observed) map[string]bool {
	out := make(map[string]bool, len(o.pods)+2*len(o.claims))
	for _, p := range o.pods {
		out[instanceID(p)] = true
	}
	for _, c := range o.claims {
		out[instanceID(c)] = true
		out[c.Name] = true
	}
	return out
}

// newID draws an id that is not in used, and puts it there.
func (r *Reconciler) newID(used map[string]bool) string {
	draw := r.Draw
	if draw == nil {
		draw = rand.String
	}
	for {
		if id := draw(idLength); !used[id] {
			used[id] = true
			return id
		}
	}
}

// objects are those of a list, as clients know them.
func objects[O client.Object](list []O) []client.Object {
	out := make([]client.Object, 0, len(list))
	for _, o := range list {
		out = append(out, o)
	}
	return out
}

// truncate takes pods that are gone off podsToDelete: the only write to a spec. The version in it lets no edit that a
// user made meanwhile be lost. The set returned is as it is then, nil if nothing was written.
func (r *Reconciler) truncate(ctx context.Context, o observed, w work) (*appsv1beta1.CloneSet, error) {
	if !w.truncate {
		return nil, nil
	}
	left := w.podsToDelete
	if len(left) == 0 {
		left = nil // null takes the field off
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.set.ResourceVersion},
		"spec":     map[string]any{"scaleStrategy": map[string]any{"podsToDelete": left}},
	})
	if err != nil {
		return nil, fmt.Errorf("marshal podsToDelete: %w", err)
	}
	set := o.set.DeepCopy()
	err = r.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, data))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("truncate podsToDelete: %w", err)
	}
	r.Expect.Written(set.UID, set)
	return set, nil
}

func (r *Reconciler) writer() *podwork.Writer {
	return &podwork.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel}
}

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// applied says what came of a plan, by classes of writes: an error in one does not stop the others.
type applied struct {
	podcontrol.Results

	// set is the set with podsToDelete as it was written; nil if it was not.
	set *appsv1beta1.CloneSet
	// given is what came of claims that change their owner, dropped of those that are deleted.
	given, dropped error
}

// err joins all errors.
func (d *applied) err() error { return errors.Join(d.Err(), d.given, d.dropped) }

// applier writes for a set.
func (r *Reconciler) applier(set *appsv1beta1.CloneSet) podcontrol.Applier {
	return podcontrol.Applier{
		Writer: &podcontrol.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel},
		Owner:  set.UID, Hooks: lifecycle.HooksOf(set.Spec.Lifecycle), ShortHash: r.Gates.ShortHash,
	}
}

// apply does what the plan says. What it does twice, after a crash or a conflict, comes to the same.
func (r *Reconciler) apply(ctx context.Context, o observed, w planned) applied {
	var d applied
	to := r.applier(o.set)
	if !to.EnsureRevision(ctx, &w.Plan, &d.Results) {
		return d
	}
	var given []string
	if given, d.given = transferPVCs(ctx, to, w); d.given == nil {
		to.Disown(ctx, &w.Plan, &d.Results)
	}
	to.Delete(ctx, w.ready(given), &d.Results)
	d.dropped = to.Writer.Delete(ctx, o.set.UID, podcontrol.Objects(w.claimsAfter(o, d))).Err
	now := r.Clock.Now()
	to.Write(ctx, &w.Plan, now, &d.Results)
	to.Create(ctx, &w.Plan, &o.set.Spec.Template, now, &d.Results, r.podCreates(o, now))
	var err error
	d.set, err = r.truncate(ctx, o, w)
	d.dropped = errors.Join(d.dropped, to.Writer.Delete(ctx, o.set.UID, podcontrol.Objects(w.dropClaims)).Err)
	to.DeleteRevisions(ctx, &w.Plan, &d.Results)
	d.Rest = errors.Join(d.Rest, err)
	d.Log(ctx, &w.Plan)
	return d
}

// transferPVCs makes pods the owners of claims that go with them, and returns the names of those that are given.
func transferPVCs(ctx context.Context, to podcontrol.Applier, w planned) ([]string, error) {
	patches := make([]podcontrol.Patch, 0, len(w.giveClaims))
	for _, g := range w.giveClaims {
		owner := metav1.OwnerReference{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod", Name: g.pod.Name, UID: g.pod.UID, Controller: new(true),
		}
		p, err := podcontrol.OwnerPatch(g.claim, []types.UID{to.Owner}, owner)
		if err != nil {
			return nil, err
		}
		patches = append(patches, p)
	}
	result := to.Writer.Patch(ctx, to.Owner, patches)
	return result.Done, result.Err
}

// ready are the pods to delete whose claims, if they get any, are among the given.
func (w planned) ready(given []string) []podset.Change {
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
	return slices.DeleteFunc(slices.Clone(w.Delete), func(c podset.Change) bool { return waits[c.Object.UID] })
}

// claimsAfter are the claims of pods that the set itself wanted gone, and that are deleted now; none with reuse, as these were
// given to their pods before.
func (w planned) claimsAfter(o observed, d applied) []*corev1.PersistentVolumeClaim {
	if o.set.Spec.ScaleStrategy.EnablePVCReuse {
		return nil
	}
	ids := make(map[string]string, len(w.Delete))
	for _, c := range w.Delete {
		ids[c.Key] = instanceID(c.Object)
	}
	var claims []*corev1.PersistentVolumeClaim
	for _, name := range slices.Concat(d.Deleted.Done, d.Recreated.Done) {
		claims = append(claims, claimsOf(o, ids[name])...)
	}
	return claims
}

// podCreates makes pods with their claims.
func (r *Reconciler) podCreates(
	o observed, now time.Time,
) func(rollout.Create, string, *corev1.PodTemplateSpec) podcontrol.PodCreate {
	ids := usedIDs(o)
	return func(c rollout.Create, rev string, template *corev1.PodTemplateSpec) podcontrol.PodCreate {
		id := c.Slot
		if id == "" {
			id = r.newID(ids)
		}
		b := podcontrol.PodCreate{Pod: newPod(o.set, o.gates, rev, template, id, now)}
		for _, claim := range newClaims(o.set, id) {
			if !ids[claim.Name] {
				b.Claims = append(b.Claims, claim)
			}
		}
		return b
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

// truncate takes pods that are gone off podsToDelete: the only write to a spec. The version in it lets no edit that a
// user made meanwhile be lost. The set returned is as it is then, nil if nothing was written.
func (r *Reconciler) truncate(ctx context.Context, o observed, w planned) (*appsv1beta1.CloneSet, error) {
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

package cloneset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// applied is what a reconcile has written, by class of writes. An error in one class does not stop the others.
type applied struct {
	podcontrol.Results

	// set is the set after podsToDelete was patched; nil if it was not.
	set *appsv1beta1.CloneSet
	// transferred is the error from changing owners of PVCs, deletedPVCs the error from deleting PVCs.
	transferred, deletedPVCs error
}

// err joins all errors.
func (a *applied) err() error { return errors.Join(a.Err(), a.transferred, a.deletedPVCs) }

// applier returns the Applier for a set.
func (r *Reconciler) applier(set *appsv1beta1.CloneSet) podcontrol.Applier {
	return podcontrol.Applier{
		Writer: &podcontrol.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel},
		Owner:  set.UID, Hooks: lifecycle.HooksOf(set.Spec.Lifecycle), Labels: revisionLabels(r.Gates),
		Guards: r.Guards,
	}
}

// apply applies the plan. It is idempotent: a crash or a conflict in the middle does no harm.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned, now time.Time) applied {
	var a applied
	applier := r.applier(o.set)
	applier.Memory = o.memory
	if !applier.EnsureRevision(ctx, &p.Plan, &a.Results) {
		return a
	}
	var transferred []string
	if transferred, a.transferred = transferPVCs(ctx, applier, p); a.transferred == nil {
		applier.Release(ctx, &p.Plan, &a.Results)
	}
	applier.Delete(ctx, p.unblockedDeletes(transferred), &a.Results)
	a.deletedPVCs = applier.Writer.Delete(ctx, o.set.UID, podcontrol.Objects(p.pvcsAfter(o, a))).Err
	applier.Patch(ctx, &p.Plan, now, &a.Results)
	applier.Create(ctx, &p.Plan, &o.set.Spec.Template, now, &a.Results, r.podCreates(o, &p.Plan, now))
	var err error
	a.set, err = r.truncate(ctx, o, p)
	a.deletedPVCs = errors.Join(a.deletedPVCs, applier.Writer.Delete(ctx, o.set.UID, podcontrol.Objects(p.deletePVCs)).Err)
	applier.DeleteRevisions(ctx, &p.Plan, &a.Results)
	a.Rest = errors.Join(a.Rest, err)
	a.Log(ctx, &p.Plan)
	return a
}

// transferPVCs makes pods the owners of PVCs that are to be deleted with them, and returns the names of these PVCs.
func transferPVCs(ctx context.Context, applier podcontrol.Applier, p planned) ([]string, error) {
	patches := make([]podcontrol.Patch, 0, len(p.transfers))
	for _, g := range p.transfers {
		owner := metav1.OwnerReference{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod", Name: g.pod.Name, UID: g.pod.UID, Controller: new(true),
		}
		patch, err := podcontrol.OwnerPatch(g.pvc, []types.UID{applier.Owner}, owner)
		if err != nil {
			return nil, err
		}
		patches = append(patches, patch)
	}
	result := applier.Writer.Patch(ctx, applier.Owner, patches)
	return result.Done, result.Err
}

// unblockedDeletes returns the deletions of pods. Pods whose PVCs were to be transferred are included only if they own them now.
func (p planned) unblockedDeletes(transferred []string) []podset.Step {
	done := make(map[string]bool, len(transferred))
	for _, name := range transferred {
		done[name] = true
	}
	waits := map[types.UID]bool{}
	for _, g := range p.transfers {
		if !done[g.pvc.Name] {
			waits[g.pod.UID] = true
		}
	}
	return slices.DeleteFunc(p.Of(rollout.StepDelete), func(s podset.Step) bool { return waits[s.Pod.Object.UID] })
}

// pvcsAfter returns the PVCs of pods that a scale-in or an update has just deleted. With reuse it returns none, because the pods own them by
// now.
func (p planned) pvcsAfter(o observed, a applied) []*corev1.PersistentVolumeClaim {
	if o.set.Spec.ScaleStrategy.EnablePVCReuse {
		return nil
	}
	deletes := p.Of(rollout.StepDelete)
	ids := make(map[string]string, len(deletes))
	for _, s := range deletes {
		ids[s.Pod.Key] = instanceID(s.Pod.Object)
	}
	var pvcs []*corev1.PersistentVolumeClaim
	for _, name := range slices.Concat(a.Of(rollout.StepDelete, "").Done, a.Of(rollout.StepDelete, rollout.ReasonRecreate).Done) {
		pvcs = append(pvcs, pvcsOf(o, ids[name])...)
	}
	return pvcs
}

// podCreates builds pods with their PVCs.
func (r *Reconciler) podCreates(
	o observed, p *podset.Plan, now time.Time,
) func(podset.Step, string, *corev1.PodTemplateSpec) podcontrol.PodCreate {
	ids := usedIDs(o)
	current := sync.OnceValue(func() *appsv1beta1.CloneSet { return setAtRevision(o.set, p, p.Current.Name) })
	return func(s podset.Step, rev string, template *corev1.PodTemplateSpec) podcontrol.PodCreate {
		id := s.Slot
		if id == "" {
			id = r.newID(ids)
		}
		set := o.set
		if s.Old {
			set = current()
		}
		create := podcontrol.PodCreate{Pod: newPod(set, o.gates, rev, template, id, now)}
		for _, pvc := range newPVCs(set, id) {
			if !ids[pvc.Name] {
				create.PVCs = append(create.PVCs, pvc)
			}
		}
		return create
	}
}

// usedIDs returns the instance IDs that a new pod can't get, and the names of PVCs that exist.
func usedIDs(o observed) map[string]bool {
	out := make(map[string]bool, len(o.pods)+2*len(o.pvcs))
	for _, pod := range o.pods {
		out[instanceID(pod)] = true
	}
	for _, c := range o.pvcs {
		out[instanceID(c)] = true
		out[c.Name] = true
	}
	return out
}

// newID returns a random ID that is not in used, and adds it.
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

// truncate removes pods that are gone from podsToDelete. It is the only write to the spec; its resourceVersion keeps it from reverting a
// concurrent change. It returns the set as written; nil if there was nothing to write.
func (r *Reconciler) truncate(ctx context.Context, o observed, p planned) (*appsv1beta1.CloneSet, error) {
	if !p.truncate {
		return nil, nil
	}
	left := p.podsToDelete
	if len(left) == 0 {
		left = nil // null removes the field
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

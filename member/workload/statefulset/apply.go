package statefulset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// applied is the result of a plan, by class of writes. An error in one class does not stop the others.
type applied struct {
	podcontrol.Results

	// adopted and relabelled are pods; transferred, createdPVCs and resized are PVCs.
	adopted, relabelled, transferred, createdPVCs, resized podcontrol.Result
}

// err joins all errors.
func (a *applied) err() error {
	return errors.Join(a.Err(), a.adopted.Err, a.createdPVCs.Err, a.resized.Err)
}

// applier returns the Applier for a set.
func (r *Reconciler) applier(o observed) podcontrol.Applier {
	return podcontrol.Applier{
		Writer: &podcontrol.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel},
		Owner:  o.set.UID, Hooks: lifecycle.HooksOf(o.set.Spec.Lifecycle),
		Guards: r.Guards,
	}
}

// adopts reports whether a set adopts an orphan: one whose name belongs to the set.
func adopts(set metav1.Object, pod *corev1.Pod) bool { return ordinalIn(set, pod.Name) != "" }

// apply applies the plan. It is idempotent: a crash or a conflict in the middle does no harm.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned, now time.Time) applied {
	var a applied
	applier := r.applier(o)
	if !applier.EnsureRevision(ctx, &p.Plan, &a.Results) {
		return a
	}
	a.transferred = transferPVCs(ctx, applier, p)
	if a.adopted = applier.Writer.Adopt(ctx, o.set, Kind(), podcontrol.Objects(p.adopt)); len(p.adopt) > 0 {
		r.Overlaps.Forget(client.ObjectKeyFromObject(o.set))
	}
	applier.Release(ctx, &p.Plan, &a.Results)
	a.createdPVCs = applier.Writer.CreatePVCs(ctx, applier.Owner, p.createPVCs)
	applier.Delete(ctx, p.unblockedDeletes(a.transferred.Done), &a.Results)
	a.resized = resizePVCs(ctx, applier, o, p, now)
	applier.Patch(ctx, &p.Plan, now, &a.Results)
	applier.Create(ctx, &p.Plan, &o.set.Spec.Template, now, &a.Results, podCreates(o, &p.Plan, now))
	a.relabelled = relabel(ctx, applier, o, p)
	applier.DeleteRevisions(ctx, &p.Plan, &a.Results)
	a.Add(a.transferred)
	a.Add(a.relabelled)
	a.log(ctx, &p)
	return a
}

func (a *applied) log(ctx context.Context, p *planned) {
	a.Log(ctx, &p.Plan)
	for _, c := range []struct {
		message string
		result  podcontrol.Result
	}{
		{"Adopted pods", a.adopted},
		{"Changed the owners of PVCs", a.transferred},
		{"Created PVCs", a.createdPVCs},
		{"Resized PVCs", a.resized},
		{"Restored labels of pods", a.relabelled},
	} {
		if n := len(c.result.Done); n > 0 {
			ctrl.LoggerFrom(ctx).Info(c.message, "count", n)
		}
	}
}

// transferPVCs changes the owners of PVCs.
func transferPVCs(ctx context.Context, applier podcontrol.Applier, p planned) podcontrol.Result {
	patches := make([]podcontrol.Patch, 0, len(p.transfers))
	for _, h := range p.transfers {
		patch, err := podcontrol.OwnerPatch(h.pvc, h.from, h.to...)
		if err != nil {
			return podcontrol.Result{Err: err}
		}
		patches = append(patches, patch)
	}
	return applier.Writer.Patch(ctx, applier.Owner, patches)
}

// unblockedDeletes returns the deletions of pods whose PVCs, if any had to be transferred, have been transferred. A pod deleted before that
// would leave its PVCs behind.
func (p planned) unblockedDeletes(transferred []string) []podset.Step {
	blocked := map[string]bool{}
	for _, h := range p.transfers {
		blocked[h.slot] = blocked[h.slot] || !slices.Contains(transferred, h.pvc.Name)
	}
	return slices.DeleteFunc(p.Of(rollout.StepDelete), func(s podset.Step) bool { return blocked[s.Pod.Slot] })
}

// resizePVCs resizes PVCs that have not changed since they were observed, so that it doesn't undo what a user has requested meanwhile. It
// annotates them with the name of the set, because a PVC may have no owner, and with the time, because nothing else shows how long it has
// waited.
func resizePVCs(ctx context.Context, applier podcontrol.Applier, o observed, p planned, now time.Time) podcontrol.Result {
	patches := make([]podcontrol.Patch, 0, len(p.resizes))
	for _, g := range p.resizes {
		data, err := json.Marshal(map[string]any{
			"metadata": map[string]any{
				"uid": g.pvc.UID, "resourceVersion": g.pvc.ResourceVersion,
				"annotations": map[string]any{
					keys.OwnedByStatefulSet: o.set.Name, keys.ResizeRequested: now.UTC().Format(time.RFC3339),
				},
			},
			"spec": map[string]any{"resources": g.template.Spec.Resources},
		})
		if err != nil {
			return podcontrol.Result{Err: fmt.Errorf("marshal the size of %s: %w", g.pvc.Name, err)}
		}
		patches = append(patches, podcontrol.Patch{Object: g.pvc, Patch: podpatch.Patch{Type: types.MergePatchType, Data: data}})
	}
	return applier.Writer.Patch(ctx, applier.Owner, patches)
}

// relabel restores the labels that contain the pods' names.
func relabel(ctx context.Context, applier podcontrol.Applier, o observed, p planned) podcontrol.Result {
	patches := make([]podcontrol.Patch, 0, len(p.relabel))
	for _, pod := range p.relabel {
		data, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID, "labels": identity(pod.Name, ordinalIn(o.set, pod.Name))},
		})
		if err != nil {
			return podcontrol.Result{Err: fmt.Errorf("marshal labels of %s: %w", pod.Name, err)}
		}
		patches = append(patches, podcontrol.Patch{Object: pod, Patch: podpatch.Patch{Type: types.MergePatchType, Data: data}})
	}
	return applier.Writer.Patch(ctx, applier.Owner, patches)
}

// podCreates builds pods with their PVCs.
func podCreates(o observed, p *podset.Plan, now time.Time) func(podset.Step, string, *corev1.PodTemplateSpec) podcontrol.PodCreate {
	current := sync.OnceValue(func() *appsv1beta1.StatefulSet { return setAtRevision(o.set, p, p.Current.Name) })
	return func(s podset.Step, rev string, template *corev1.PodTemplateSpec) podcontrol.PodCreate {
		set := o.set
		if s.Old {
			set = current()
		}
		return podcontrol.PodCreate{Pod: newPod(set, rev, template, s.Slot, now), PVCs: o.missing(set, s.Slot)}
	}
}

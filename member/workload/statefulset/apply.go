package statefulset

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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// applied says what came of a plan, by classes of writes: an error in one does not stop the others.
type applied struct {
	podcontrol.Results

	// adopted pods were of nobody, handed are claims with another owner, anew those that were made for a pod that is there,
	// grown those that were asked to grow, identified pods that got the labels of their name again.
	adopted, handed, anew, grown, identified podcontrol.Result
}

// err joins all errors.
func (d *applied) err() error {
	return errors.Join(d.Err(), d.adopted.Err, d.anew.Err, d.grown.Err)
}

// applier writes for a set.
func (r *Reconciler) applier(o observed) podcontrol.Applier {
	return podcontrol.Applier{
		Writer: &podcontrol.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel},
		Owner:  o.set.UID, Hooks: lifecycle.HooksOf(o.set.Spec.Lifecycle),
	}
}

// adopts tells whether a set adopts an orphan: one that has a name of the set.
func adopts(set metav1.Object, pod *corev1.Pod) bool { return ordinalIn(set, pod.Name) != "" }

// apply does what the plan says. What it does twice, after a crash or a conflict, comes to the same.
func (r *Reconciler) apply(ctx context.Context, o observed, w planned) applied {
	var d applied
	to := r.applier(o)
	if !to.EnsureRevision(ctx, &w.Plan, &d.Results) {
		return d
	}
	d.handed = handed(ctx, to, w)
	if d.adopted = to.Writer.Adopt(ctx, o.set, Kind(), podcontrol.Objects(w.adopt)); len(w.adopt) > 0 {
		r.Overlaps.Forget(client.ObjectKeyFromObject(o.set))
	}
	to.Disown(ctx, &w.Plan, &d.Results)
	d.anew = to.Writer.CreateClaims(ctx, to.Owner, w.anew)
	to.Delete(ctx, w.ready(d.handed.Done), &d.Results)
	d.grown = grown(ctx, to, o, w)
	now := r.Clock.Now()
	to.Write(ctx, &w.Plan, now, &d.Results)
	to.Create(ctx, &w.Plan, &o.set.Spec.Template, now, &d.Results, podCreates(o, now))
	d.identified = identified(ctx, to, o, w)
	to.DeleteRevisions(ctx, &w.Plan, &d.Results)
	d.Rest = errors.Join(d.Rest, d.handed.Err, d.identified.Err)
	d.log(ctx, &w)
	return d
}

func (d *applied) log(ctx context.Context, w *planned) {
	d.Log(ctx, &w.Plan)
	for _, c := range []struct {
		message string
		result  podcontrol.Result
	}{
		{"Adopted pods", d.adopted},
		{"Changed the owners of claims", d.handed},
		{"Made claims anew", d.anew},
		{"Asked for claims to grow", d.grown},
		{"Labelled pods with their names again", d.identified},
	} {
		if n := len(c.result.Done); n > 0 {
			ctrl.LoggerFrom(ctx).Info(c.message, "count", n)
		}
	}
}

// handed gives claims their owners.
func handed(ctx context.Context, to podcontrol.Applier, w planned) podcontrol.Result {
	patches := make([]podcontrol.Patch, 0, len(w.handOver))
	for _, h := range w.handOver {
		p, err := podcontrol.OwnerPatch(h.claim, h.from, h.to...)
		if err != nil {
			return podcontrol.Result{Err: err}
		}
		patches = append(patches, p)
	}
	return to.Writer.Patch(ctx, to.Owner, patches)
}

// ready are the pods to delete whose claims, if they get another owner, are among the handed: a pod that went before would
// leave them behind.
func (w planned) ready(handed []string) []podset.Change {
	waits := map[string]bool{}
	for _, h := range w.handOver {
		waits[h.slot] = waits[h.slot] || !slices.Contains(handed, h.claim.Name)
	}
	return slices.DeleteFunc(slices.Clone(w.Delete), func(c podset.Change) bool { return waits[c.Slot] })
}

// grown asks for claims to grow, if they are as they were seen: who asked for more meanwhile keeps it. Whose they are is told,
// because a claim need not have an owner.
func grown(ctx context.Context, to podcontrol.Applier, o observed, w planned) podcontrol.Result {
	patches := make([]podcontrol.Patch, 0, len(w.grow))
	for _, g := range w.grow {
		data, err := json.Marshal(map[string]any{
			"metadata": map[string]any{
				"uid": g.claim.UID, "resourceVersion": g.claim.ResourceVersion,
				"annotations": map[string]any{keys.OwnedByStatefulSet: o.set.Name},
			},
			"spec": map[string]any{"resources": g.template.Spec.Resources},
		})
		if err != nil {
			return podcontrol.Result{Err: fmt.Errorf("marshal the size of %s: %w", g.claim.Name, err)}
		}
		patches = append(patches, podcontrol.Patch{Object: g.claim, Type: types.MergePatchType, Data: data})
	}
	return to.Writer.Patch(ctx, to.Owner, patches)
}

// identified gives pods the labels of their name again.
func identified(ctx context.Context, to podcontrol.Applier, o observed, w planned) podcontrol.Result {
	patches := make([]podcontrol.Patch, 0, len(w.identify))
	for _, pod := range w.identify {
		data, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID, "labels": identity(pod.Name, ordinalIn(o.set, pod.Name))},
		})
		if err != nil {
			return podcontrol.Result{Err: fmt.Errorf("marshal labels of %s: %w", pod.Name, err)}
		}
		patches = append(patches, podcontrol.Patch{Object: pod, Type: types.MergePatchType, Data: data})
	}
	return to.Writer.Patch(ctx, to.Owner, patches)
}

// podCreates makes pods with their claims.
func podCreates(o observed, now time.Time) func(rollout.Create, string, *corev1.PodTemplateSpec) podcontrol.PodCreate {
	return func(c rollout.Create, rev string, template *corev1.PodTemplateSpec) podcontrol.PodCreate {
		return podcontrol.PodCreate{Pod: newPod(o.set, rev, template, c.Slot, now), Claims: o.missing(c.Slot)}
	}
}

// Reasons of events, beside those of package pass.
const (
	reasonSuccessfulResize = "SuccessfulResize"
	reasonFailedResize     = "FailedResize"
)

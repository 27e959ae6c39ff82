package daemonset

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// drawn is how many letters and digits of a pod's name are drawn by lot.
const drawn = 5

// applier writes for a set.
func (r *Reconciler) applier(set *appsv1beta1.DaemonSet) podcontrol.Applier {
	return podcontrol.Applier{
		Writer: &podcontrol.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel},
		Owner:  set.UID, Hooks: hooks(&set.Spec), ShortHash: true,
	}
}

// adopt adopts the pods and revisions that a former set of the name has left.
func (r *Reconciler) adopt(ctx context.Context, o observed) (ctrl.Result, error) {
	r.Overlaps.Forget(client.ObjectKeyFromObject(o.set)) // They are no orphans any more.
	return r.applier(o.set).Adopt(ctx, r.Events, o.set, Kind(), "pods and revisions", o.orphans)
}

// apply does what the plan says. What it does twice, after a crash or a conflict, comes to the same.
func (r *Reconciler) apply(ctx context.Context, o observed, w planned) podcontrol.Results {
	var d podcontrol.Results
	to := r.applier(o.set)
	if !to.EnsureRevision(ctx, &w.Plan, &d) {
		return d
	}
	to.Disown(ctx, &w.Plan, &d)
	to.Delete(ctx, w.Delete, &d)
	now := r.Clock.Now()
	r.remember(o, w, &d, now)
	to.Write(ctx, &w.Plan, now, &d)
	to.Create(ctx, &w.Plan, &o.set.Spec.Template, now, &d, r.births(o, now))
	to.DeleteRevisions(ctx, &w.Plan, &d)
	d.Log(ctx, &w.Plan)
	return d
}

// remember notes the nodes on which pods that had ended were deleted.
func (r *Reconciler) remember(o observed, w planned, d *podcontrol.Results, now time.Time) {
	ended := make(map[string]bool, len(d.Ended.Done))
	for _, name := range d.Ended.Done {
		ended[name] = true
	}
	for _, c := range w.Delete {
		if c.Reason == rollout.ReasonEnded && ended[c.Key] {
			r.failures.note(client.ObjectKeyFromObject(o.set), o.set.Generation, c.Slot, now)
		}
	}
}

// births makes pods, with names that no pod of the set has.
func (r *Reconciler) births(
	o observed, now time.Time,
) func(rollout.Create, string, *corev1.PodTemplateSpec) podcontrol.PodCreate {
	used := make(map[string]bool, len(o.pods))
	for _, pod := range o.pods {
		used[pod.Name] = true
	}
	draw := r.Draw
	if draw == nil {
		draw = rand.String
	}
	return func(c rollout.Create, rev string, template *corev1.PodTemplateSpec) podcontrol.PodCreate {
		name := o.set.Name + "-" + draw(drawn)
		for used[name] {
			name = o.set.Name + "-" + draw(drawn)
		}
		used[name] = true
		return podcontrol.PodCreate{Pod: newPod(o.set, rev, template, name, c.Slot, now)}
	}
}

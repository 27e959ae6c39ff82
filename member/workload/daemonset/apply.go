package daemonset

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// suffixLength is the length of the random suffix in a pod's name.
const suffixLength = 5

// applier returns the Applier for a set.
func (r *Reconciler) applier(set *appsv1beta1.DaemonSet) podcontrol.Applier {
	return podcontrol.Applier{
		Writer: &podcontrol.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel},
		Owner:  set.UID, Hooks: hooks(&set.Spec), Labels: revisionLabels(),
		Guards: r.Guards,
	}
}

// adopt adopts the pods and revisions that an earlier set of the same name has left.
func (r *Reconciler) adopt(ctx context.Context, o observed) (ctrl.Result, error) {
	r.Overlaps.Forget(client.ObjectKeyFromObject(o.set)) // They are no longer orphans.
	return r.applier(o.set).Adopt(ctx, r.Events, o.set, Kind(), "pods and revisions", o.orphans)
}

// apply applies the plan. It is idempotent: a crash or a conflict in the middle does no harm.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned, now time.Time) podcontrol.Results {
	var a podcontrol.Results
	applier := r.applier(o.set)
	applier.Memory = o.memory
	if !applier.EnsureRevision(ctx, &p.Plan, &a) {
		return a
	}
	applier.Release(ctx, &p.Plan, &a)
	applier.Delete(ctx, p.Steps, &a)
	r.recordFailures(o, p, &a, now)
	applier.Patch(ctx, &p.Plan, now, &a)
	applier.Create(ctx, &p.Plan, &o.set.Spec.Template, now, &a, r.podCreates(o, now))
	applier.DeleteRevisions(ctx, &p.Plan, &a)
	a.Log(ctx, &p.Plan)
	return a
}

// recordFailures records the nodes on which pods that had ended were deleted.
func (r *Reconciler) recordFailures(o observed, p planned, a *podcontrol.Results, now time.Time) {
	done := a.Of(rollout.StepDelete, rollout.ReasonEnded).Done
	ended := make(map[string]bool, len(done))
	for _, name := range done {
		ended[name] = true
	}
	r.failures.Change(o.set, func(f *failures) {
		for _, s := range p.Of(rollout.StepDelete) {
			if s.Reason == rollout.ReasonEnded && ended[s.Pod.Key] {
				f.record(o.set.Generation, s.Pod.Slot, now)
			}
		}
	})
}

// podCreates builds pods with unused names, first those left from the last attempt.
func (r *Reconciler) podCreates(
	o observed, now time.Time,
) func(podset.Step, string, *corev1.PodTemplateSpec) podcontrol.PodCreate {
	used := make(map[string]bool, len(o.pods))
	for _, pod := range o.pods {
		used[pod.Name] = true
	}
	draw := r.Draw
	if draw == nil {
		draw = rand.String
	}
	left := o.memory.Names()
	next := func() string {
		if len(left) == 0 {
			return o.set.Name + "-" + draw(suffixLength)
		}
		name := left[0]
		left = left[1:]
		return name
	}
	return func(s podset.Step, rev string, template *corev1.PodTemplateSpec) podcontrol.PodCreate {
		name := next()
		for used[name] {
			name = next()
		}
		used[name] = true
		return podcontrol.PodCreate{Pod: newPod(o.set, rev, template, name, s.Slot, now)}
	}
}

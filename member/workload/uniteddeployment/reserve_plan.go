package uniteddeployment

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/spread"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// With reserveUnschedulablePods, pods that can't be scheduled stay in their subset, where a cluster autoscaler sees them, and as many others
// run in later subsets. The others are not marked: they become surplus as soon as the reserved pods count again, and a scale-in removes from
// the last subset.
//
// A pod is reserved by its label, from the time its subset closes until the pod has been ready for unschedulableDuration. The number is also
// stored in the status. So if its workload replaces a reserved pod, for a rollout or because a user deleted it, that costs no replica
// elsewhere: the number stays until as many others are ready. Replicas are divided according to what is stored.

// reservation is what is known about the reserved pods of one subset.
type reservation struct {
	// count is how many replicas are reserved. held is how many of those are reserved according to the status, by which the replicas are divided.
	count, held int
	// ready is how many reserved pods are ready, and so don't count towards the workload's maxUnavailable.
	ready int
	// mark are pods to label as reserved. release are pods that have been ready for long enough. Both count until the cache shows the change.
	mark, release []*corev1.Pod
	// pods are the pods that are reserved or marked.
	pods []*corev1.Pod
	// recheck is when the passing of time alone could release a pod; 0 means never.
	recheck time.Duration
}

// reserving reports whether pods that can't be scheduled stay in their subset. The pods of StatefulSets have ordinals, so a waiting pod could
// not be removed instead of a running one.
func reserving(ud *appsv1beta1.UnitedDeployment) bool {
	t := &ud.Spec.Template
	return asksToReserve(ud) && (t.CloneSetTemplate != nil || t.DeploymentTemplate != nil)
}

func asksToReserve(ud *appsv1beta1.UnitedDeployment) bool {
	a := ud.Spec.Topology.ScheduleStrategy.Adaptive
	return adaptive(ud) && a != nil && a.ReserveUnschedulablePods
}

// reserved reports whether a pod is reserved by its label.
func reserved(pod *corev1.Pod) bool { return pod.Labels[keys.SubsetReserved] == "true" }

// readySince returns since when a pod has been ready; false if it is not ready.
func readySince(pod *corev1.Pod) (time.Time, bool) {
	c := podpatch.Find(pod, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, true
}

// reservationOf returns the reserved pods of a subset. c is its workload. closed is its stored condition.
func reservationOf(ud *appsv1beta1.UnitedDeployment, subset string, c *child, pods []*corev1.Pod, closed bool, now time.Time) reservation {
	r := reservation{}
	if c == nil || !reserving(ud) {
		return r
	}
	critical, duration := durations(ud)
	all, serving := 0, 0
	var vacant []*corev1.Pod
	for _, pod := range slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) }) {
		if !podpatch.Active(pod) {
			continue
		}
		all++
		since, ready := readySince(pod)
		rejectedAt, waiting := rejected(pod)
		switch {
		case reserved(pod):
			r.pods = append(r.pods, pod)
			if ready {
				r.ready++
			}
			if due := since.Add(duration); ready && due.After(now) {
				r.recheck = timing.Sooner(r.recheck, due.Sub(now))
			} else if ready {
				r.release = append(r.release, pod)
			}
		case waiting && !rejectedAt.Add(critical).After(now):
			r.mark = append(r.mark, pod)
		case ready:
			serving++
		case closed && pod.Spec.NodeName == "":
			vacant = append(vacant, pod)
		}
	}
	want := sizeOf(ud, subset, c)
	surplus := max(all-want, 0) // No matter which pods will be deleted.
	stored := 0
	if line := lineOf(&ud.Status, subset); line != nil {
		stored = int(line.ReservedPods)
	}
	least := min(stored, want-serving+surplus)
	labelled := len(r.pods)
	for _, pod := range vacant { // They replace reserved ones.
		if len(r.pods)+len(r.mark) < least {
			r.mark = append(r.mark, pod)
		}
	}
	r.pods = append(r.pods, r.mark...)
	r.count = min(max(len(r.pods)-surplus, least, 0), want)
	r.held = min(r.count, max(stored, labelled))
	return r
}

// sizeOf returns how many replicas a subset has. If some are reserved, it is at most what the subset was given, because a user who adds
// replicas to the workload gets no nodes for them.
func sizeOf(ud *appsv1beta1.UnitedDeployment, subset string, c *child) int {
	if line := lineOf(&ud.Status, subset); reserving(ud) && line != nil && line.ReservedPods > 0 {
		return min(c.replicas, int(line.Replicas))
	}
	return c.replicas
}

// keptReserved returns how many reserved pods each subset keeps: those whose replicas would stay there if they ran. subsets don't include them.
func keptReserved(total int, subsets []spread.Subset, rooms []room) []int {
	out := make([]int, len(subsets))
	for i := range subsets {
		held := rooms[i].reserved.held
		if held == 0 {
			continue
		}
		whole := slices.Clone(subsets)
		whole[i].Current += held
		d := spread.Divide(total, hold(total, whole, rooms))
		out[i] = min(max(d.Targets[i]-subsets[i].Current, 0), held)
	}
	return out
}

// maxWithoutReserved returns a maximum minus the replicas that reserved pods take.
func maxWithoutReserved(most *intstr.IntOrString, total, kept int) *intstr.IntOrString {
	n := resolve(most, total, spread.Unlimited)
	if kept == 0 || n == spread.Unlimited {
		return most
	}
	return new(intstr.FromInt32(int32(max(n-kept, 0)))) //nolint:gosec // At most an int32 of the spec.
}

// exclude removes the reserved pods from the counts of a subset's workload.
func (r *reservation) exclude(c counts, at func(*corev1.Pod) bool) counts {
	for _, pod := range r.pods {
		_, ready := readySince(pod)
		c.pods--
		if ready {
			c.ready--
		}
		if at(pod) {
			c.updated--
			if ready {
				c.updatedReady--
			}
		}
	}
	for _, n := range []*int32{&c.pods, &c.ready, &c.updated, &c.updatedReady} {
		*n = max(*n, 0) // The cache may show pods that the workload's controller has not counted yet.
	}
	c.available, c.updatedAvailable = min(c.available, c.ready), min(c.updatedAvailable, c.updatedReady)
	return c
}

// unlimit gives a StatefulSet whose maxUnavailable is no longer the controller's the template's value or the default. exempt does it for the
// other kinds. live is the workload as it is.
func unlimit(want, live workload) {
	w, ok := want.(*appsv1beta1.StatefulSet)
	if !ok || limited(want) || !limited(live) || w.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return
	}
	if r := orNew(&w.Spec.UpdateStrategy.RollingUpdate); r.MaxUnavailable == nil {
		r.MaxUnavailable = new(intstr.FromInt32(1))
	}
}

// exempt adds reserved pods that are not ready to maxUnavailable of a subset's workload, so that a rollout continues with the other pods; as
// many pods run elsewhere in their place. Without reserved pods, a workload whose maxUnavailable was raised gets back the template's value or
// the default. live is the workload as it is.
func exempt(want, live workload, replicas, reserved int) {
	reserved = max(min(reserved, replicas), 0)
	switch w := want.(type) {
	case *appsv1beta1.CloneSet:
		current, ok := live.(*appsv1beta1.CloneSet)
		if !ok || w.Spec.UpdateStrategy.Type == appsv1beta1.CloneSetOnDelete {
			return
		}
		r := ptr.Deref(w.Spec.UpdateStrategy.RollingUpdate, appsv1beta1.CloneSetRollingUpdateStrategy{})
		limit := ptr.Deref(current.Spec.UpdateStrategy.RollingUpdate, appsv1beta1.CloneSetRollingUpdateStrategy{}).MaxUnavailable
		surge, err := rollout.Resolve(r.MaxSurge, replicas, rollout.Up)
		if err != nil {
			return // Its own controller reports it.
		}
		if n := exempted(r.MaxUnavailable, limit, workloadspec.CloneSetMaxUnavailable, reserved, func(v *intstr.IntOrString) (int, error) {
			return rollout.ResolveUnavailable(v, surge, replicas-reserved)
		}); n != nil {
			orNew(&w.Spec.UpdateStrategy.RollingUpdate).MaxUnavailable = n
		}
	case *appsv1.Deployment:
		current, ok := live.(*appsv1.Deployment)
		if !ok || w.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			return
		}
		r := ptr.Deref(w.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		limit := ptr.Deref(current.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{}).MaxUnavailable
		surge, err := rollout.Resolve(new(ptr.Deref(r.MaxSurge, intstr.FromString(deploymentDefault))), replicas, rollout.Up)
		if err != nil {
			return
		}
		if n := exempted(r.MaxUnavailable, limit, deploymentDefault, reserved, func(v *intstr.IntOrString) (int, error) {
			n, err := rollout.Resolve(v, replicas-reserved, rollout.Down)
			if n == 0 && surge == 0 {
				n = 1 // Its controller does the same.
			}
			return n, err //nolint:wrapcheck // The caller drops it.
		}); n != nil {
			orNew(&w.Spec.Strategy.RollingUpdate).MaxUnavailable = n
		}
	}
}

// deploymentDefault is the default of maxUnavailable and maxSurge of a Deployment, as in kube 1.36.
const deploymentDefault = "25%"

// exempted returns maxUnavailable with reserved pods added; nil if the template's value should stay.
func exempted(
	template, current *intstr.IntOrString, standard string, reserved int, resolve func(*intstr.IntOrString) (int, error),
) *intstr.IntOrString {
	value := new(ptr.Deref(template, intstr.FromString(standard)))
	if reserved == 0 {
		if template == nil && current != nil && current.Type == intstr.Int {
			return value
		}
		return nil
	}
	n, err := resolve(value)
	if err != nil {
		return nil
	}
	return new(intstr.FromInt32(int32(n + reserved))) //nolint:gosec // Both are numbers of pods.
}

package podunavailablebudget

import (
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// planned is the next state of a budget.
type planned struct {
	total, desired, current, allowed int32
	// disrupted and unavailable are the grants that are still in flight, as in the status.
	disrupted, unavailable map[string]metav1.Time
	// notDeleted lists the pods whose deletion was granted but did not start in time.
	notDeleted []string
	// unnamed lists the pods that lack the budget's name.
	unnamed []*corev1.Pod
	// fault is why the total is unknown.
	fault error
	// recheck is when time alone changes this plan. 0 means never.
	recheck time.Duration
}

// plan counts the pods and decides which grants to keep.
func plan(o observed, now time.Time) planned {
	s := &o.budget.Status
	p := planned{total: o.expected, fault: o.fault}
	p.disrupted = p.pendingGrants(s.DisruptedPods, o, now, deletionTime, func(pod *corev1.Pod, _ time.Time) (bool, time.Time) {
		if pod.DeletionTimestamp == nil {
			p.notDeleted = append(p.notDeleted, pod.Name)
		}
		return false, time.Time{}
	})
	p.unavailable = p.pendingGrants(s.UnavailablePods, o, now, updateTime, func(pod *corev1.Pod, at time.Time) (bool, time.Time) {
		return inplace.RestartPending(pod, at, now)
	})
	slices.Sort(p.notDeleted)
	for _, pod := range o.pods {
		if o.counts && budgetName(pod) != o.budget.Name {
			p.unnamed = append(p.unnamed, pod)
		}
		_, disrupted := p.disrupted[pod.Name]
		_, unavailable := p.unavailable[pod.Name]
		serves, changesAt := available(pod, now)
		p.wait(changesAt, now)
		if serves && !disrupted && !unavailable {
			p.current++
		}
	}
	if o.budget.Spec.ProtectTotalReplicas != nil {
		p.total, p.fault = *o.budget.Spec.ProtectTotalReplicas, nil
	}
	if p.fault != nil { // Keep the previous or the actual number: none of the pods may go.
		p.total = max(s.TotalReplicas, podCount(o.pods))
	}
	p.desired = desiredAvailable(&o.budget.Spec, p.total)
	if p.total > 0 && p.fault == nil {
		p.allowed = max(p.current-p.desired, 0)
	}
	switch {
	case p.fault != nil:
		p.desired = max(p.desired, 1)
	case o.ends:
		p.desired = 0
	}
	return p
}

// desiredAvailable returns how many pods must be available. Percentages are rounded up. Admission has validated them.
func desiredAvailable(s *policyv1beta1.PodUnavailableBudgetSpec, total int32) int32 {
	resolve := func(v *intstr.IntOrString) int32 {
		n, err := rollout.Resolve(v, int(total), rollout.Up)
		if err != nil {
			return 0
		}
		return int32(min(n, math.MaxInt32)) //nolint:gosec // Not below 0.
	}
	if s.MinAvailable != nil {
		return max(resolve(s.MinAvailable), 0)
	}
	return max(total-resolve(s.MaxUnavailable), 0)
}

// pendingGrants returns the grants that are still in flight. A grant is over when the pod with the same UID is being deleted, or when it
// expires: then the apiserver has shown the state of the pod. expired is called for an expired grant whose pod exists. It returns whether to
// keep the grant, and until when.
func (p *planned) pendingGrants(
	from map[string]metav1.Time, o observed, now time.Time, lifetime time.Duration, expired func(*corev1.Pod, time.Time) (bool, time.Time),
) map[string]metav1.Time {
	var out map[string]metav1.Time
	for _, name := range slices.Sorted(maps.Keys(from)) {
		at, pod := from[name], o.granted[name]
		if pod != nil && grantOver(pod, at) {
			continue
		}
		if at.After(now.Add(lifetime)) { // Written by a clock that is far ahead: the grant would hold its unit for that long.
			at = grantTime(now, pod)
		}
		ends := at.Add(lifetime)
		if !now.Before(ends) {
			if pod == nil {
				continue
			}
			var kept bool
			if kept, ends = expired(pod, at.Time); !kept {
				continue
			}
		}
		if out == nil {
			out = map[string]metav1.Time{}
		}
		out[name] = at
		p.wait(ends, now)
	}
	return out
}

// wait requests a recheck at the given time if that is in the future.
func (p *planned) wait(until, now time.Time) {
	if until.After(now) {
		p.recheck = timing.Sooner(p.recheck, until.Sub(now))
	}
}

// grantOver reports whether a grant has taken effect, or was for an earlier pod with the same name. If a grant is later than the deletion that
// the cache shows, it may be for the next pod with that name, which the cache doesn't have yet.
func grantOver(pod *corev1.Pod, at metav1.Time) bool {
	if at.Before(&pod.CreationTimestamp) {
		return true
	}
	if pod.DeletionTimestamp == nil {
		return false
	}
	var grace time.Duration
	if pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	return !at.After(pod.DeletionTimestamp.Add(-grace))
}

// budgetName returns the budget that a pod's annotations name, or "" if they disagree.
func budgetName(pod *corev1.Pod) string {
	if name := pod.Annotations[keys.RelatedPub]; name == pod.Annotations[keys.RelatedPubOld] {
		return name
	}
	return ""
}

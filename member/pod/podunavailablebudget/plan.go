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
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// planned is the next state of a budget.
type planned struct {
	total, desired, current, allowed int32
	// disrupted and unavailable are the grants that are still on their way, as in the status.
	disrupted, unavailable map[string]metav1.Time
	// notDeleted are pods whose deletion was granted and did not begin in time.
	notDeleted []string
	// unnamed are pods that lack the name of the budget.
	unnamed []*corev1.Pod
	// fault is why the total is not known.
	fault error
	// recheck is after how long time alone changes this; 0 is never.
	recheck time.Duration
}

// plan counts.
func plan(o observed, now time.Time) planned {
	s := &o.budget.Status
	p := planned{total: o.expected, fault: o.fault}
	p.disrupted = p.grants(s.DisruptedPods, o, now, deletionTime, func(pod *corev1.Pod, _ time.Time) (bool, time.Time) {
		p.notDeleted = append(p.notDeleted, pod.Name)
		return false, time.Time{}
	})
	p.unavailable = p.grants(s.UnavailablePods, o, now, updateTime, func(pod *corev1.Pod, at time.Time) (bool, time.Time) {
		return inplace.Lags(pod, at, now)
	})
	slices.Sort(p.notDeleted)
	for _, pod := range o.pods {
		if o.counts && named(pod) != o.budget.Name {
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
	if p.fault != nil { // As many as there were, or are: none of them may go.
		p.total = max(s.TotalReplicas, number(o.pods))
	}
	p.desired = desired(&o.budget.Spec, p.total)
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

// desired is how many pods must be available. Percentages are rounded up; admission has checked them.
func desired(s *policyv1beta1.PodUnavailableBudgetSpec, total int32) int32 {
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

// grants returns those that are still on their way. One is over when its very pod is being deleted, or by its time: then the apiserver
// has shown how the pod is. expired is asked about those whose time is over while the pod is there and not being deleted: whether they
// are kept, and until when.
func (p *planned) grants(
	from map[string]metav1.Time, o observed, now time.Time, lifetime time.Duration, expired func(*corev1.Pod, time.Time) (bool, time.Time),
) map[string]metav1.Time {
	var out map[string]metav1.Time
	for _, name := range slices.Sorted(maps.Keys(from)) {
		at, pod := from[name], o.granted[name]
		if at.After(now.Add(lifetime)) { // By a clock that is far ahead; it would hold its unit for as long.
			at = metav1.NewTime(now.UTC().Truncate(time.Second))
		}
		ends := at.Add(lifetime)
		if pod != nil && over(pod, at) {
			continue
		}
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

// wait has the budget counted again at that time, if it is to come.
func (p *planned) wait(until, now time.Time) {
	if until.After(now) {
		p.recheck = report.Sooner(p.recheck, until.Sub(now))
	}
}

// over reports whether a grant has come about, or was for a former pod of the name. A grant may as well be for the next pod of the
// name, which the cache does not have yet: then it is later than the deletion that the cache shows.
func over(pod *corev1.Pod, at metav1.Time) bool {
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

// named returns the budget that a pod's annotations name, empty if they disagree.
func named(pod *corev1.Pod) string {
	if name := pod.Annotations[keys.RelatedPub]; name == pod.Annotations[keys.RelatedPubOld] {
		return name
	}
	return ""
}

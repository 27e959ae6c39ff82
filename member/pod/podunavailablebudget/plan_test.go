package podunavailablebudget

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
)

// pods returns n available pods that have their budget's name. others replace the first ones.
func pods(n int, others ...*corev1.Pod) []*corev1.Pod {
	out := others
	for i := len(others); i < n; i++ {
		out = append(out, pod(fmt.Sprintf("web-%d", i)))
	}
	for _, p := range out {
		annotated(keys.RelatedPub, "web")(p)
		annotated(keys.RelatedPubOld, "web")(p)
	}
	return out
}

func terminating(ago time.Duration, grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp = new(metav1.NewTime(noon.Add(time.Duration(grace)*time.Second - ago)))
		p.DeletionGracePeriodSeconds = &grace
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	spec := func(change func(*policyv1beta1.PodUnavailableBudgetSpec)) *policyv1beta1.PodUnavailableBudget {
		return budget(0, func(b *policyv1beta1.PodUnavailableBudget) { change(&b.Spec) })
	}
	percent := func(max, min string) *policyv1beta1.PodUnavailableBudget {
		return spec(func(s *policyv1beta1.PodUnavailableBudgetSpec) {
			s.MaxUnavailable = nil
			if max != "" {
				s.MaxUnavailable = new(intstr.FromString(max))
			}
			if min != "" {
				s.MinAvailable = new(intstr.FromString(min))
			}
		})
	}
	for _, tc := range []struct {
		name     string
		budget   *policyv1beta1.PodUnavailableBudget
		pods     []*corev1.Pod
		granted  map[string]*corev1.Pod
		expected int32
		fault    error
		ends     bool
		// want is total, desired, current and allowed.
		want       [4]int32
		grants     []string
		notDeleted []string
		recheck    time.Duration
	}{
		{name: "all pods are available", budget: budget(0), pods: pods(5), expected: 5, want: [4]int32{5, 4, 5, 1}},
		{name: "one pod is not available", budget: budget(1), pods: pods(5, pod("web-0", notReady)), expected: 5, want: [4]int32{5, 4, 4, 0}},
		{name: "one pod is marked as unavailable", budget: budget(1), pods: pods(5, pod("web-0", labelled(keys.UnavailablePodPrefix+"drain", "1"))), expected: 5, want: [4]int32{5, 4, 4, 0}},
		{name: "some pods are missing", budget: budget(1), pods: pods(2), expected: 5, want: [4]int32{5, 4, 2, 0}},
		{name: "a surge", budget: budget(1), pods: pods(7), expected: 5, want: [4]int32{5, 4, 7, 3}},
		{name: "a pod named for deletion counts once", budget: budget(1), pods: pods(6, pod("web-0", labelled(keys.SpecifiedDelete, "true"))), expected: 5, want: [4]int32{5, 4, 6, 2}},
		{
			name: "a pod named for deletion with a grant counts once", budget: budget(1, grantedAgo("web-0", time.Second)), expected: 5, want: [4]int32{5, 4, 5, 1},
			pods: pods(6, pod("web-0", labelled(keys.SpecifiedDelete, "true"))), granted: map[string]*corev1.Pod{"web-0": pod("web-0")}, grants: []string{"web-0"}, recheck: 19 * time.Second,
		},
		{name: "percentages are rounded up", budget: percent("30%", ""), pods: pods(5), expected: 5, want: [4]int32{5, 3, 5, 2}},
		{name: "percentages of minAvailable are rounded up too", budget: percent("", "30%"), pods: pods(5), expected: 5, want: [4]int32{5, 2, 5, 3}},
		{name: "all pods may become unavailable", budget: percent("100%", ""), pods: pods(5), expected: 5, want: [4]int32{5, 0, 5, 5}},
		{name: "more pods must be available than exist", budget: spec(func(s *policyv1beta1.PodUnavailableBudgetSpec) {
			s.MaxUnavailable, s.MinAvailable = nil, new(intstr.FromInt32(9))
		}), pods: pods(5), expected: 5, want: [4]int32{5, 9, 5, 0}},
		{name: "protectTotalReplicas", budget: spec(func(s *policyv1beta1.PodUnavailableBudgetSpec) { s.ProtectTotalReplicas = new(int32(10)) }), pods: pods(10), expected: 5, want: [4]int32{10, 9, 10, 1}},
		{name: "a workload scaled to 0", budget: budget(1), pods: pods(3), want: [4]int32{0, 0, 3, 0}},
		{name: "a target that is deleted with its pods", ends: true, budget: spec(func(s *policyv1beta1.PodUnavailableBudgetSpec) {
			s.MaxUnavailable, s.MinAvailable, s.ProtectTotalReplicas = nil, new(intstr.FromInt32(2)), new(int32(5))
		}), want: [4]int32{5, 0, 0, 0}},
		{name: "no pods", budget: budget(1), expected: 5, want: [4]int32{5, 4, 0, 0}},
		{name: "an unknown number of replicas allows nothing", budget: budget(1), pods: pods(5), fault: errors.New("boom"), want: [4]int32{5, 4, 5, 0}},
		{name: "an unknown number of replicas of a new budget allows nothing", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) {
			b.Status = policyv1beta1.PodUnavailableBudgetStatus{}
		}), fault: errors.New("boom"), want: [4]int32{0, 1, 0, 0}},
		{
			name: "a grant in flight", budget: budget(0, grantedAgo("web-0", 5*time.Second)), pods: pods(5), granted: map[string]*corev1.Pod{"web-0": pod("web-0")},
			expected: 5, want: [4]int32{5, 4, 4, 0}, grants: []string{"web-0"}, recheck: 15 * time.Second,
		},
		{
			name: "a grant by a clock that is far ahead counts from now", budget: budget(0, grantedAgo("web-0", -time.Hour)), pods: pods(5),
			granted: map[string]*corev1.Pod{"web-0": pod("web-0")}, expected: 5, want: [4]int32{5, 4, 4, 0}, grants: []string{"web-0"}, recheck: 20 * time.Second,
		},
		{
			name: "a grant whose pod the cache lacks is kept", budget: budget(0, grantedAgo("web-5", 5*time.Second)), pods: pods(5), granted: map[string]*corev1.Pod{"web-5": nil},
			expected: 5, want: [4]int32{5, 4, 5, 1}, grants: []string{"web-5"}, recheck: 15 * time.Second,
		},
		{
			name: "a grant that has taken effect", budget: budget(0, grantedAgo("web-5", 5*time.Second)), pods: pods(5), granted: map[string]*corev1.Pod{"web-5": pod("web-5", terminating(4*time.Second, 30))},
			expected: 5, want: [4]int32{5, 4, 5, 1},
		},
		{
			name: "a grant for the next pod with a name, while the cache shows the previous one", budget: budget(0, grantedAgo("web-5", 5*time.Second)), pods: pods(5),
			granted: map[string]*corev1.Pod{"web-5": pod("web-5", terminating(20*time.Second, 30))}, expected: 5, want: [4]int32{5, 4, 5, 1}, grants: []string{"web-5"}, recheck: 15 * time.Second,
		},
		{
			name: "a grant for an earlier pod", budget: budget(0, grantedAgo("web-0", 5*time.Second)), pods: pods(5), expected: 5, want: [4]int32{5, 4, 5, 1},
			granted: map[string]*corev1.Pod{"web-0": pod("web-0", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon) })},
		},
		{
			name: "an expired grant without effect", budget: budget(0, grantedAgo("web-0", 20*time.Second)), pods: pods(5), granted: map[string]*corev1.Pod{"web-0": pod("web-0")},
			expected: 5, want: [4]int32{5, 4, 5, 1}, notDeleted: []string{"web-0"},
		},
		{
			name: "an expired grant of a clock that is ahead, for a pod that is being deleted", budget: budget(0, grantedAgo("web-5", 20*time.Second)), pods: pods(5),
			granted: map[string]*corev1.Pod{"web-5": pod("web-5", terminating(22*time.Second, 60))}, expected: 5, want: [4]int32{5, 4, 5, 1},
		},
		{
			name: "a grant by a clock that is far ahead, as seen by a clock that is behind", budget: budget(0, grantedAgo("web-0", -time.Hour)), pods: pods(5), expected: 5,
			granted: map[string]*corev1.Pod{"web-0": pod("web-0", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(4 * time.Second)) })},
			want:    [4]int32{5, 4, 4, 0}, grants: []string{"web-0"}, recheck: 24 * time.Second,
		},
		{name: "a grant whose pod the apiserver no longer has", budget: budget(0, grantedAgo("web-5", 20*time.Second)), pods: pods(5), granted: map[string]*corev1.Pod{"web-5": nil}, expected: 5, want: [4]int32{5, 4, 5, 1}},
		{
			name: "an update in flight", budget: budget(0, updatedAgo("web-0", 4*time.Second)), pods: pods(5), granted: map[string]*corev1.Pod{"web-0": pod("web-0")},
			expected: 5, want: [4]int32{5, 4, 4, 0}, grants: []string{"web-0"}, recheck: 6 * time.Second,
		},
		{name: "an expired update grant", budget: budget(0, updatedAgo("web-0", 10*time.Second)), pods: pods(5), granted: map[string]*corev1.Pod{"web-0": pod("web-0")}, expected: 5, want: [4]int32{5, 4, 5, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := observed{budget: tc.budget, counts: true, pods: tc.pods, granted: tc.granted, expected: tc.expected, fault: tc.fault, ends: tc.ends}
			p := plan(o, noon)
			require.Equal(t, tc.want, [4]int32{p.total, p.desired, p.current, p.allowed})
			var grants []string
			for name := range p.disrupted {
				grants = append(grants, name)
			}
			for name := range p.unavailable {
				grants = append(grants, name)
			}
			require.Equal(t, tc.grants, grants)
			require.Equal(t, tc.notDeleted, p.notDeleted)
			require.Equal(t, tc.recheck, p.recheck)
			require.Empty(t, p.unnamed)
			s, events := status(o, p, noon)
			require.Equal(t, tc.budget.Generation, s.ObservedGeneration)
			var reasons []string
			for _, e := range events {
				reasons = append(reasons, e.Reason)
			}
			var want []string
			if len(tc.pods) == 0 {
				want = append(want, reasonNoPods)
			}
			if tc.fault != nil {
				want = append(want, reasonNotCounted)
			}
			if tc.notDeleted != nil {
				want = append(want, ReasonNotDeleted)
			}
			require.Equal(t, want, reasons)
		})
	}
}

func TestPodsWithoutTheNameGetIt(t *testing.T) {
	t.Parallel()
	all := append(pods(2), pod("web-2"), pod("web-3", annotated(keys.RelatedPub, "web")), pod("web-4", annotated(keys.RelatedPub, "old"), annotated(keys.RelatedPubOld, "old")))
	p := plan(observed{budget: budget(1), counts: true, pods: all, expected: 5}, noon)
	require.Equal(t, all[2:], p.unnamed)
	require.Empty(t, plan(observed{budget: budget(1), pods: all, expected: 5}, noon).unnamed, "the pods name an older budget")
}

package podunavailablebudget

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// budget starts a budget for the pods with app=web. One of them may be unavailable, and the status allows that many more.
func budget(allowed int32, change ...func(*policyv1beta1.PodUnavailableBudget)) *policyv1beta1.PodUnavailableBudget {
	b := &policyv1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: "web", Generation: 1},
		Spec: policyv1beta1.PodUnavailableBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MaxUnavailable: new(intstr.FromInt32(1)),
		},
		Status: policyv1beta1.PodUnavailableBudgetStatus{
			ObservedGeneration: 1, UnavailableAllowed: allowed, CurrentAvailable: 4 + allowed, DesiredAvailable: 4, TotalReplicas: 5,
		},
	}
	for _, c := range change {
		c(b)
	}
	return b
}

// pod starts an available pod that is an hour old.
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := testkit.Pod(name).Label("app", "web").Created(noon.Add(-time.Hour)).Ready(noon.Add(-time.Hour)).Obj()
	for _, c := range change {
		c(p)
	}
	return p
}

func notReady(p *corev1.Pod) {
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].Status = corev1.ConditionFalse
	}
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func judging(all ...policyv1beta1.Operation) func(*policyv1beta1.PodUnavailableBudget) {
	return func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.ProtectOperations = all }
}

func grantedAgo(name string, ago time.Duration) func(*policyv1beta1.PodUnavailableBudget) {
	return func(b *policyv1beta1.PodUnavailableBudget) {
		b.Status.DisruptedPods = map[string]metav1.Time{name: metav1.NewTime(noon.Add(-ago))}
	}
}

func updatedAgo(name string, ago time.Duration) func(*policyv1beta1.PodUnavailableBudget) {
	return func(b *policyv1beta1.PodUnavailableBudget) {
		b.Status.UnavailablePods = map[string]metav1.Time{name: metav1.NewTime(noon.Add(-ago))}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		budget  *policyv1beta1.PodUnavailableBudget
		do      podwebhook.Operation
		pod     *corev1.Pod
		refused string
		// allowed is what is left. disrupted and unavailable are the numbers of grants.
		allowed                int32
		disrupted, unavailable int
	}{
		{name: "a deletion takes a unit", budget: budget(2), do: podwebhook.Delete, allowed: 1, disrupted: 1},
		{name: "an eviction takes a unit", budget: budget(1), do: podwebhook.Evict, disrupted: 1},
		{name: "an update takes a unit", budget: budget(1), do: podwebhook.Update, unavailable: 1},
		{name: "a resize takes a unit if the budget protects resizes", budget: budget(1, judging(policyv1beta1.Resize)), do: podwebhook.Resize, unavailable: 1},
		{name: "a resize takes no unit otherwise", budget: budget(0), do: podwebhook.Resize},
		{name: "an operation that is not protected", budget: budget(0, judging(policyv1beta1.Update)), do: podwebhook.Delete},
		{name: "no unit is left", budget: budget(0), do: podwebhook.Delete, refused: "no more pods may become unavailable: 4 of 5 are available"},
		{name: "a pod that no budget protects", budget: budget(0), do: podwebhook.Delete, pod: pod("web-1", annotated(keys.NoProtect, "true"))},
		{name: "an unprotected pod by another spelling", budget: budget(0), do: podwebhook.Delete, pod: pod("web-1", annotated(keys.NoProtect, "1"))},
		{name: "the annotation has another value", budget: budget(0), do: podwebhook.Delete, pod: pod("web-1", annotated(keys.NoProtect, "false")), refused: "no more pods"},
		{name: "a pod that is not ready", budget: budget(0), do: podwebhook.Delete, pod: pod("web-1", notReady)},
		{name: "a pod that is marked as unavailable", budget: budget(0), do: podwebhook.Delete, pod: pod("web-1", labelled(keys.UnavailablePodPrefix+"x", ""))},
		{name: "a pod that is updated in place", budget: budget(0), do: podwebhook.Delete, pod: testkit.Pod("web-1").Label("app", "web").Serving(noon).Gate(false, noon).Obj()},
		{name: "a pod that is ignored", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) {
			b.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}
		}), do: podwebhook.Delete, pod: pod("web-1", labelled("canary", "true"))},
		{name: "a pod named for deletion counts as others do", budget: budget(0), do: podwebhook.Delete, pod: pod("web-1", labelled(keys.SpecifiedDelete, "true")), refused: "no more pods"},
		{name: "no pod must be available", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) { b.Status.DesiredAvailable = 0 }), do: podwebhook.Delete},
		{name: "a budget that is being deleted", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) { b.DeletionTimestamp = new(metav1.NewTime(noon)) }), do: podwebhook.Delete},
		{
			name:   "a budget that was never counted protects all the same",
			budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) { b.Status = policyv1beta1.PodUnavailableBudgetStatus{} }), do: podwebhook.Delete, refused: "its pods have not been counted",
		},
		{name: "a spec that was not counted yet", budget: budget(1, func(b *policyv1beta1.PodUnavailableBudget) { b.Generation = 2 }), do: podwebhook.Delete, refused: "since it was last changed", allowed: 1},
		{
			name: "a pod that is not ready is protected with protectNotReady", do: podwebhook.Delete, pod: pod("web-1", notReady), refused: "spec.protectNotReady",
			budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) {
				b.Spec.ProtectNotReady, b.Status.CurrentAvailable = true, 3
			}),
		},
		{
			name: "an update of a protected pod that is not ready: it may repair the pod or complete an earlier update", do: podwebhook.Update, pod: pod("web-1", notReady),
			budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) {
				b.Spec.ProtectNotReady, b.Status.CurrentAvailable = true, 3
			}),
		},
		{
			name: "a pod that is not ready is not protected while enough others are available", do: podwebhook.Delete, pod: pod("web-1", notReady),
			budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.ProtectNotReady = true }),
		},
		{
			name: "a pod that does not run yet is not protected", do: podwebhook.Delete, pod: pod("web-1", notReady, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
			budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) {
				b.Spec.ProtectNotReady, b.Status.CurrentAvailable = true, 3
			}),
		},
		{name: "a pod with a grant takes no second unit", budget: budget(0, grantedAgo("web-1", 5*time.Second)), do: podwebhook.Evict, disrupted: 1},
		{name: "a late request renews the grant", budget: budget(0, grantedAgo("web-1", 15*time.Second)), do: podwebhook.Delete, disrupted: 1},
		{name: "a pod with an update grant may be deleted, which is recorded", budget: budget(0, updatedAgo("web-1", time.Second)), do: podwebhook.Delete, disrupted: 1, unavailable: 1},
		{name: "a grant for another pod", budget: budget(0, grantedAgo("web-2", time.Second)), do: podwebhook.Delete, refused: "no more pods", disrupted: 1},
		{
			name: "a grant for an earlier pod with the same name", budget: budget(0, grantedAgo("web-1", 5*time.Second)), do: podwebhook.Delete,
			pod: pod("web-1", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-2 * time.Second)) }), refused: "no more pods", disrupted: 1,
		},
		{
			name: "too many grants in flight", do: podwebhook.Delete, refused: "2000 granted requests are in progress", allowed: 3, disrupted: 2000,
			budget: budget(3, func(b *policyv1beta1.PodUnavailableBudget) {
				b.Status.DisruptedPods = map[string]metav1.Time{}
				for i := range 2000 {
					b.Status.DisruptedPods[fmt.Sprintf("other-%d", i)] = metav1.NewTime(noon)
				}
			}),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.pod == nil {
				tc.pod = pod("web-1")
			}
			before := tc.budget.Status.DeepCopy()
			v := judge(tc.budget, podwebhook.Request{Operation: tc.do, Old: tc.pod}, noon)
			if tc.refused == "" {
				require.Nil(t, v.refusal)
			} else {
				require.Contains(t, v.refusal.Message, "PodUnavailableBudget web: ")
				require.Contains(t, v.refusal.Message, tc.refused)
				require.Contains(t, v.refusal.Cause, "The budget web")
				require.NotZero(t, v.refusal.RetryAfter)
			}
			s := tc.budget.Status
			require.Equal(t, tc.allowed, s.UnavailableAllowed)
			require.Len(t, s.DisruptedPods, tc.disrupted)
			require.Len(t, s.UnavailablePods, tc.unavailable)
			require.Equal(t, v.took, fmt.Sprint(*before) != fmt.Sprint(s), "only a taken unit is written")
			for name, at := range s.DisruptedPods {
				require.True(t, name != "web-1" || !v.took || at.Equal(new(metav1.NewTime(noon))), "a grant has the current time")
			}
		})
	}
}

// The clock of a replica is five seconds behind, and the pod is two seconds old.
func TestAGrantByAClockThatIsBehindIsForThisPod(t *testing.T) {
	t.Parallel()
	young := pod("web-0", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-2 * time.Second)) })
	for operation, grants := range map[podwebhook.Operation]func(*policyv1beta1.PodUnavailableBudgetStatus) map[string]metav1.Time{
		podwebhook.Delete: func(s *policyv1beta1.PodUnavailableBudgetStatus) map[string]metav1.Time { return s.DisruptedPods },
		podwebhook.Update: func(s *policyv1beta1.PodUnavailableBudgetStatus) map[string]metav1.Time { return s.UnavailablePods },
	} {
		b := budget(1)
		r := podwebhook.Request{Operation: operation, Old: young}
		require.True(t, judge(b, r, noon.Add(-5*time.Second)).took)
		require.Nil(t, judge(b, r, noon).refusal, "a repeated request needs no second unit")
		p := plan(observed{budget: b, pods: pods(4, young), granted: map[string]*corev1.Pod{"web-0": young}, expected: 4}, noon)
		require.Equal(t, int32(3), p.current, "the pod doesn't count as available")
		b.Status.DisruptedPods, b.Status.UnavailablePods = p.disrupted, p.unavailable
		require.Contains(t, grants(&b.Status), "web-0")
	}
}

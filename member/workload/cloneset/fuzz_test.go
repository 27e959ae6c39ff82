package cloneset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

// FuzzPlan plans a set in the middle of an update with a pod that has arbitrary labels and annotations. They must not affect any other pod.
func FuzzPlan(f *testing.F) {
	f.Add("web-2", "Normal", "{}", "", "1", "2026-11-21T09:00:00Z", uint8(0))
	f.Add("", "", `{"revision":"web-2","nextContainerImages":{"app":"app:3"}}`, `{"containerImages":{"app":""}}`, "+5", "yesterday", uint8(1))
	f.Add("-", "Updating", `{"lastContainerStatuses":{"none":{}}}`, "null", "99999999999", "", uint8(2))
	f.Add("web-2-", "PreparingDelete", "[", "", "x", "0001-01-01T00:00:00Z", uint8(3))
	f.Fuzz(func(t *testing.T, hash, state, record, grace, cost, stamp string, kind uint8) {
		policies := []appsv1beta1.PodUpdatePolicy{appsv1beta1.PodReCreate, appsv1beta1.PodInPlaceIfPossible, appsv1beta1.PodInPlaceOnly}
		set := web(3).Image("app:2").Policy(policies[kind%3]).Rolling("0", "1", "0").Spec(func(s *appsv1beta1.CloneSetSpec) {
			s.UpdateStrategy.RollingUpdate.PriorityStrategy = &pods.UpdatePriorityStrategy{
				OrderPriority: []pods.UpdatePriorityOrderTerm{{OrderedKey: keys.PodDeletionCost}, {OrderedKey: keys.LifecycleState}},
			}
			s.UpdateStrategy.RollingUpdate.ScatterStrategy = []pods.UpdateScatterTerm{{Key: keys.LifecycleState, Value: "Normal"}}
			if kind&4 > 0 {
				withUpdateHook(s)
			}
		})
		o, names := observedOf(t, set, web(3))
		o.with(names[0], "a", "b")
		odd := pod("c").Rev(hash).Gate(kind&8 > 0, start).Running().Label(keys.LifecycleState, state).
			Annotation(keys.InPlaceUpdateState, record).Annotation(keys.InPlaceUpdateGrace, grace).
			Annotation(keys.PodDeletionCost, cost).Annotation(keys.LifecycleTimestamp, stamp).Obj()
		if kind&16 > 0 {
			odd.Status = corev1.PodStatus{}
		}
		if kind&32 > 0 {
			odd.Labels = map[string]string{"app": "web"}
			odd.OwnerReferences[0].Controller = new(true)
			odd.Spec.Containers = nil
			odd.DeletionTimestamp = new(metav1.NewTime(now))
		}
		o.pods = append(o.pods, odd)
		before := odd.DeepCopy()

		p := plan(o, now)
		require.Empty(t, cmp.Diff(before, odd), "a plan changes nothing")
		require.Equal(t, text(p), text(plan(o, now)), "the plan is deterministic")
		Registration().Fields.Strip(odd)
		require.Equal(t, text(p), text(plan(o, now)), "the plan reads no field that the cache drops")
		seen := map[string]bool{}
		taken := 0
		for _, s := range p.Steps {
			if s.Pod == nil {
				continue
			}
			require.False(t, seen[s.Pod.Key], "%s has two steps", s.Pod.Key)
			seen[s.Pod.Key] = true
			out := s.Kind == rollout.StepMarkUnready || s.Kind == rollout.StepDelete || s.Kind == rollout.StepPrepareUpdate
			if out && s.Pod.Key != "web-c" {
				taken++
			}
		}
		require.LessOrEqual(t, taken, 1, "the budget of the others")
		got, _ := status(o, p, applied{}, now)
		require.LessOrEqual(t, got.UpdatedAvailableReplicas, got.AvailableReplicas)
		require.LessOrEqual(t, got.Replicas, int32(3))
	})
}

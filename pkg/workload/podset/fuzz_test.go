package podset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
)

// FuzzView reads pods with arbitrary labels, annotations and conditions.
func FuzzView(f *testing.F) {
	f.Add("Normal", "web-6f7c", "5", `{"revision":"web-6f7c"}`, `{"containerImages":{"app":"app:2"}}`, `[]`, uint8(0))
	f.Add("Updating", "-", "+5", `{"lastContainerStatuses":{"app":{}},"nextContainerImages":{"app":""}}`, `{"metaDataPatch":"e30="}`, `null`, uint8(1))
	f.Add("Updated", "", "99999999999", `{`, `[]`, `{}`, uint8(2))
	f.Add("PreparingDelete", "a", "007", `{"updateTimestamp":"yesterday"}`, `"`, `[{"userAgent":1}]`, uint8(7))
	f.Fuzz(func(t *testing.T, state, hash, cost, record, grace, blockers string, flags uint8) {
		hook := &pods.LifecycleHook{
			LabelsHandler: map[string]string{keys.LifecycleState: state}, FinalizersHandler: []string{cost}, MarkPodNotReady: flags&4 != 0,
		}
		rules := Rules{
			MinReady: time.Duration(flags) * time.Second, Grace: time.Duration(flags>>4) * time.Second,
			Hooks: lifecycle.HooksOf(&pods.Lifecycle{PreDelete: hook, InPlaceUpdate: hook, PreNormal: hook}),
		}
		pod := serving(
			label(keys.LifecycleState, state), label(keys.ControllerRevisionHash, hash), annotation(keys.PodDeletionCost, cost),
			annotation(keys.InPlaceUpdateState, record), annotation(keys.InPlaceUpdateGrace, grace),
		)
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: keys.KruisePodReady, Message: blockers})
		if flags&1 != 0 {
			set(keys.InPlaceUpdateReady, corev1.ConditionFalse)(pod)
		}
		if flags&2 != 0 {
			pod.Spec.Containers, pod.Status.ContainerStatuses = nil, nil
		}
		before := pod.DeepCopy()
		got := View(pod, rules, start)
		require.Empty(t, cmp.Diff(before, pod), "reading a pod doesn't change it")
		require.Empty(t, cmp.Diff(got, View(pod, rules, start)), "same input, same output")
		require.True(t, got.Ready || !got.Available)
		requireFactsUntilTheyChange(t, pod, rules, got)
		_, err := rules.Hooks.PrepareUpdate(pod, start)
		require.NoError(t, err)
		AtRevision(pod, hash)
	})
}

package podpatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 3600))

func pod(conditions ...corev1.PodCondition) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-a", UID: "uid-a", ResourceVersion: "7"},
		Spec:       corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "Gate"}}},
		Status:     corev1.PodStatus{Conditions: conditions},
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	since := metav1.NewTime(now.Add(-time.Hour))
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		build func(*Body, *corev1.Pod)
		want  string
	}{
		{
			"a new body holds the UID alone", pod(), func(*Body, *corev1.Pod) {},
			`{"metadata":{"uid":"uid-a"}}`,
		},
		{
			"nil removes a key, and finalizers are added", pod(), func(b *Body, _ *corev1.Pod) {
				b.Metadata.Labels["gone"] = nil
				b.Metadata.Annotations["set"] = new("yes")
				b.Metadata.Finalizers = []string{"example.com/hold"}
			},
			`{"metadata":{"uid":"uid-a","labels":{"gone":null},"annotations":{"set":"yes"},"finalizers":["example.com/hold"]}}`,
		},
		{
			"the write applies to the observed version only", pod(), func(b *Body, p *corev1.Pod) { b.Observed(p) },
			`{"metadata":{"uid":"uid-a","resourceVersion":"7"}}`,
		},
		{
			"a new condition has the current time, in UTC and whole seconds", pod(), func(b *Body, p *corev1.Pod) {
				b.Set(p, "Gate", corev1.ConditionFalse, "Why", "because", now)
			},
			`{"metadata":{"uid":"uid-a"},"status":{"conditions":[{"type":"Gate","status":"False",
				"lastTransitionTime":"2026-01-02T02:04:05Z","reason":"Why","message":"because"}]}}`,
		},
		{
			"an unchanged condition keeps its time, and loses fields that are not set again",
			pod(corev1.PodCondition{Type: "Gate", Status: corev1.ConditionTrue, LastTransitionTime: since, Reason: "Old"}),
			func(b *Body, p *corev1.Pod) { b.Set(p, "Gate", corev1.ConditionTrue, "", "", now) },
			`{"metadata":{"uid":"uid-a"},"status":{"conditions":[{"type":"Gate","status":"True",
				"lastTransitionTime":"2026-01-02T01:04:05Z","reason":null,"message":null}]}}`,
		},
		{
			"a ready pod is made unready", pod(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}),
			func(b *Body, p *corev1.Pod) { b.Unready(p, now) },
			`{"metadata":{"uid":"uid-a"},"status":{"conditions":[{"type":"Ready","status":"False",
				"lastTransitionTime":"2026-01-02T02:04:05Z","reason":"ReadinessGatesNotReady","message":null}]}}`,
		},
		{
			"a pod that is not ready stays so", pod(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}),
			func(b *Body, p *corev1.Pod) { b.Unready(p, now) },
			`{"metadata":{"uid":"uid-a"}}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := New(tc.pod)
			tc.build(&b, tc.pod)
			p, err := b.Patch(tc.pod, Status)
			require.NoError(t, err)
			require.Equal(t, types.StrategicMergePatchType, p.Type)
			require.Equal(t, Status, p.Subresource)
			require.JSONEq(t, tc.want, string(p.Data))
		})
	}
}

func TestGated(t *testing.T) {
	t.Parallel()
	require.True(t, Gated(pod(), "Gate"))
	require.False(t, Gated(pod(), "Other"))
	require.False(t, Gated(&corev1.Pod{}, "Gate"))
}

// TestEndedAndActive: a pod that is being deleted keeps running for its grace period. It is not active, but has not ended.
func TestEndedAndActive(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		phase                 corev1.PodPhase
		deleted               bool
		wantEnded, wantActive bool
	}{
		{phase: "", wantActive: true},
		{phase: corev1.PodPending, wantActive: true},
		{phase: corev1.PodRunning, wantActive: true},
		{phase: corev1.PodUnknown, wantActive: true},
		{phase: corev1.PodSucceeded, wantEnded: true},
		{phase: corev1.PodFailed, wantEnded: true},
		{phase: corev1.PodRunning, deleted: true},
		{phase: corev1.PodSucceeded, deleted: true, wantEnded: true},
	} {
		p := pod()
		p.Status.Phase = tc.phase
		if tc.deleted {
			p.DeletionTimestamp = &metav1.Time{Time: now}
		}
		require.Equal(t, tc.wantEnded, Ended(p), "%+v", tc)
		require.Equal(t, tc.wantActive, Active(p), "%+v", tc)
	}
}

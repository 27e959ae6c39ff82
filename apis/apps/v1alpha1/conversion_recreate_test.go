package v1alpha1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func containerRecreateRequestFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.ContainerRecreateRequest{ObjectMeta: drawRecreateMeta(t), Spec: drawRecreateSpec(t)}
	in.Status = appsv1beta1.ContainerRecreateRequestStatus{
		Phase: appsv1beta1.RecreateRecreating, Message: word().Draw(t, "message"), ContainerRecreateStates: drawRecreateStates(t),
		ContainerStatusSnapshot: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.ContainerStatusSnapshot {
			return appsv1beta1.ContainerStatusSnapshot{
				Name: word().Draw(t, "name"), Ready: rapid.Bool().Draw(t, "ready"), RestartCount: rapid.Int32().Draw(t, "count"),
				ContainerID: word().Draw(t, "id"),
			}
		}), 0, 2).Draw(t, "snapshot"),
		Conditions: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) metav1.Condition {
			return metav1.Condition{
				Type:   rapid.SampledFrom([]string{appsv1beta1.RecreatePreGrace, "Mine"}).Draw(t, "type"),
				Status: rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse}).Draw(t, "status"),
				Reason: rapid.SampledFrom([]string{appsv1beta1.RecreatePreGrace, "Mine"}).Draw(t, "reason"), Message: word().Draw(t, "message"),
				LastTransitionTime: metav1.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "at"), 0), ObservedGeneration: rapid.Int64().Draw(t, "generation"),
			}
		}), 0, 2).Draw(t, "conditions"),
	}
	fromHubAndBack(t, in, ContainerRecreateRequestFromHub, ContainerRecreateRequestToHub)
}

func containerRecreateRequestToHubAndBack(t *rapid.T) {
	in := &ContainerRecreateRequest{ObjectMeta: drawRecreateMeta(t), Spec: drawRecreateSpec(t)}
	in.Status = ContainerRecreateRequestStatus{
		Phase: appsv1beta1.RecreateRecreating, Message: word().Draw(t, "message"), ContainerRecreateStates: drawRecreateStates(t),
	}
	toHubAndBack(t, in, ContainerRecreateRequestFromHub, ContainerRecreateRequestToHub)
}

// drawRecreateMeta draws metadata with the annotations of the status, valid and invalid ones.
func drawRecreateMeta(t *rapid.T) metav1.ObjectMeta {
	meta := drawMeta(t)
	for key, values := range map[string][]string{
		keys.RecreateUnready:  {"2026-11-22T16:44:49Z", "2026-11-22T16:44:49+01:00", "2026-11-22T16:44:49.5Z", "soon", ""},
		keys.RecreateStatuses: {`[{"name":"app","ready":true,"restartCount":1}]`, `[]`, `[{"name":"app","more":1}]`, `[{"name":1}]`, "null", ""},
	} {
		if rapid.Bool().Draw(t, "has "+key) {
			meta.Annotations = with(meta.Annotations, key, rapid.SampledFrom(values).Draw(t, key))
		}
	}
	return meta
}

func drawRecreateSpec(t *rapid.T) appsv1beta1.ContainerRecreateRequestSpec {
	container := rapid.Custom(func(t *rapid.T) appsv1beta1.ContainerRecreateRequestContainer {
		return appsv1beta1.ContainerRecreateRequestContainer{
			Name: word().Draw(t, "name"),
			PreStop: drawPtr(t, rapid.SampledFrom([]appsv1beta1.ProbeHandler{
				{Exec: &corev1.ExecAction{Command: []string{"drain"}}},
				{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("web")}},
				{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
			}), "hook"),
			Ports: rapid.SliceOfN(rapid.Just(appsv1beta1.RecreatePort{Name: "web", ContainerPort: 80, Protocol: corev1.ProtocolTCP}), 0, 1).Draw(t, "ports"),
			StatusContext: drawPtr(t, rapid.Just(appsv1beta1.ContainerRecreateRequestContainerContext{
				ContainerID: "containerd://a", RestartCount: 2,
			}), "context"),
		}
	})
	return appsv1beta1.ContainerRecreateRequestSpec{
		PodName: word().Draw(t, "pod"), Containers: rapid.SliceOfN(container, 0, 2).Draw(t, "containers"),
		ActiveDeadlineSeconds: drawPtr(t, rapid.Int64(), "deadline"), TTLSecondsAfterFinished: drawPtr(t, rapid.Int32(), "ttl"),
		Strategy: drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.ContainerRecreateRequestStrategy {
			return appsv1beta1.ContainerRecreateRequestStrategy{
				FailurePolicy:   appsv1beta1.ContainerRecreateRequestFailurePolicy(word().Draw(t, "policy")),
				OrderedRecreate: rapid.Bool().Draw(t, "ordered"), ForceRecreate: rapid.Bool().Draw(t, "force"),
				TerminationGracePeriodSeconds: drawPtr(t, rapid.Int64(), "grace"), UnreadyGracePeriodSeconds: drawPtr(t, rapid.Int64(), "unready"),
				MinStartedSeconds: rapid.Int32().Draw(t, "started"),
			}
		}), "strategy"),
	}
}

func drawRecreateStates(t *rapid.T) []appsv1beta1.ContainerRecreateRequestState {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.ContainerRecreateRequestState {
		return appsv1beta1.ContainerRecreateRequestState{
			Name: word().Draw(t, "name"), Phase: appsv1beta1.RecreateSucceeded, IsKilled: rapid.Bool().Draw(t, "killed"), Message: word().Draw(t, "why"),
		}
	}), 0, 2).Draw(t, "states")
}

// Agents of virtual nodes read and write the annotations of v1alpha1.
func TestTheStatusOfARequestIsInAnnotationsOfV1alpha1(t *testing.T) {
	t.Parallel()
	stored := &appsv1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Name: "again"}}
	stored.Status.Phase = appsv1beta1.RecreateRecreating
	stored.Status.ContainerStatusSnapshot = []appsv1beta1.ContainerStatusSnapshot{{Name: "app", Ready: true, RestartCount: 1, ContainerID: "containerd://b"}}
	stored.Status.Conditions = []metav1.Condition{{
		Type: appsv1beta1.RecreatePreGrace, Status: metav1.ConditionTrue, Reason: appsv1beta1.RecreatePreGrace,
		LastTransitionTime: metav1.Date(2026, 11, 22, 16, 44, 49, 0, time.UTC),
	}}
	seen := &ContainerRecreateRequest{}
	require.NoError(t, ContainerRecreateRequestFromHub(t.Context(), stored, seen))
	require.Equal(t, map[string]string{
		keys.RecreateStatuses: `[{"name":"app","ready":true,"restartCount":1,"containerID":"containerd://b"}]`,
		keys.RecreateUnready:  "2026-11-22T16:44:49Z",
	}, seen.Annotations)
	back := &appsv1beta1.ContainerRecreateRequest{}
	require.NoError(t, ContainerRecreateRequestToHub(t.Context(), seen, back))
	require.Empty(t, cmp.Diff(stored, back))
}

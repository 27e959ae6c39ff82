package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func broadcastJobFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.BroadcastJob{ObjectMeta: drawMeta(t), Spec: drawBroadcastSpec(t), Status: drawBroadcastStatus(t)}
	fromHubAndBack(t, in, BroadcastJobFromHub, BroadcastJobToHub)
}

func broadcastJobToHubAndBack(t *rapid.T) {
	in := &BroadcastJob{ObjectMeta: drawMeta(t), Spec: drawBroadcastSpec(t), Status: drawBroadcastStatus(t)}
	toHubAndBack(t, in, BroadcastJobFromHub, BroadcastJobToHub)
}

func drawBroadcastSpec(t *rapid.T) appsv1beta1.BroadcastJobSpec {
	return appsv1beta1.BroadcastJobSpec{
		Parallelism: drawPtr(t, intOrString(), "parallelism"), Paused: rapid.Bool().Draw(t, "paused"),
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: rapid.MapOfN(word(), word(), 0, 2).Draw(t, "labels")}},
		CompletionPolicy: appsv1beta1.BroadcastJobCompletionPolicy{
			Type:                    appsv1beta1.BroadcastJobCompletionPolicyType(word().Draw(t, "type")),
			ActiveDeadlineSeconds:   drawPtr(t, rapid.Int64(), "deadline"),
			TTLSecondsAfterFinished: drawPtr(t, rapid.Int32(), "ttl"),
		},
		FailurePolicy: appsv1beta1.BroadcastJobFailurePolicy{
			Type: appsv1beta1.BroadcastJobFailurePolicyType(word().Draw(t, "failure")), RestartLimit: rapid.Int32().Draw(t, "limit"),
		},
	}
}

func drawBroadcastStatus(t *rapid.T) appsv1beta1.BroadcastJobStatus {
	count := func(name string) int32 { return rapid.Int32().Draw(t, name) }
	return appsv1beta1.BroadcastJobStatus{
		Active: count("active"), Succeeded: count("succeeded"), Failed: count("failed"), Desired: count("desired"),
		Phase: appsv1beta1.BroadcastJobPhase(word().Draw(t, "phase")), SucceededNodes: drawWords(t), AcceptedFailures: count("accepted"),
		Conditions: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.BroadcastJobCondition {
			return appsv1beta1.BroadcastJobCondition{
				Type: appsv1beta1.BroadcastJobConditionType(word().Draw(t, "condition")), Status: corev1.ConditionTrue,
				Reason: word().Draw(t, "reason"), Message: word().Draw(t, "message"),
			}
		}), 0, 2).Draw(t, "conditions"),
	}
}

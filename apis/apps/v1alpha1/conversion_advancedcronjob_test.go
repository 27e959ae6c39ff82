package v1alpha1

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func advancedCronJobFromHubAndBack(t *rapid.T) {
	template := appsv1beta1.AdvancedCronJobTemplate{
		JobTemplate: drawJobTemplate(t), BroadcastJobTemplate: drawBroadcastTemplate(t),
		ImageListPullJobTemplate: drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.ImageListPullJobTemplateSpec {
			return appsv1beta1.ImageListPullJobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: drawLabels(t)}, Spec: drawListSpec(t)}
		}), "pull jobs"),
	}
	in := &appsv1beta1.AdvancedCronJob{ObjectMeta: drawMeta(t), Status: drawCronStatus(t), Spec: appsv1beta1.AdvancedCronJobSpec{
		AdvancedCronJobSchedule: drawSchedule(t), Template: template,
	}}
	fromHubAndBack(t, in, AdvancedCronJobFromHub, AdvancedCronJobToHub)
}

func advancedCronJobToHubAndBack(t *rapid.T) {
	in := &AdvancedCronJob{ObjectMeta: drawMeta(t), Status: drawCronStatus(t), Spec: AdvancedCronJobSpec{
		AdvancedCronJobSchedule: drawSchedule(t),
		Template:                AdvancedCronJobTemplate{JobTemplate: drawJobTemplate(t), BroadcastJobTemplate: drawBroadcastTemplate(t)},
	}}
	toHubAndBack(t, in, AdvancedCronJobFromHub, AdvancedCronJobToHub)
}

func drawSchedule(t *rapid.T) appsv1beta1.AdvancedCronJobSchedule {
	return appsv1beta1.AdvancedCronJobSchedule{
		Schedule: word().Draw(t, "schedule"), TimeZone: drawPtr(t, word(), "zone"), Paused: drawPtr(t, rapid.Bool(), "paused"),
		StartingDeadlineSeconds:    drawPtr(t, rapid.Int64(), "deadline"),
		ConcurrencyPolicy:          appsv1beta1.AdvancedCronJobConcurrencyPolicy(word().Draw(t, "policy")),
		SuccessfulJobsHistoryLimit: drawPtr(t, rapid.Int32(), "successful"), FailedJobsHistoryLimit: drawPtr(t, rapid.Int32(), "failed"),
	}
}

func drawLabels(t *rapid.T) map[string]string {
	return rapid.MapOfN(word(), word(), 0, 2).Draw(t, "labels of jobs")
}

func drawJobTemplate(t *rapid.T) *batchv1.JobTemplateSpec {
	return drawPtr(t, rapid.Custom(func(t *rapid.T) batchv1.JobTemplateSpec {
		return batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: drawLabels(t)},
			Spec:       batchv1.JobSpec{Completions: drawPtr(t, rapid.Int32(), "completions"), Suspend: drawPtr(t, rapid.Bool(), "suspend")},
		}
	}), "jobs")
}

func drawBroadcastTemplate(t *rapid.T) *appsv1beta1.BroadcastJobTemplateSpec {
	return drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.BroadcastJobTemplateSpec {
		return appsv1beta1.BroadcastJobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: drawLabels(t)}, Spec: drawBroadcastSpec(t)}
	}), "broadcast jobs")
}

func drawCronStatus(t *rapid.T) appsv1beta1.AdvancedCronJobStatus {
	at := func(name string) metav1.Time {
		return metav1.NewTime(time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, name), 0).UTC())
	}
	s := appsv1beta1.AdvancedCronJobStatus{
		Type: appsv1beta1.AdvancedCronJobTemplateKind(word().Draw(t, "kind")), LastScheduleTime: new(at("last")),
		LastMissedTime: new(at("missed")), ObservedGeneration: rapid.Int64().Draw(t, "observed"),
		Active: []corev1.ObjectReference{{Name: word().Draw(t, "active")}},
		Runs: []appsv1beta1.AdvancedCronJobRun{{
			Name: word().Draw(t, "run"), ScheduleTime: new(at("due")), Phase: appsv1beta1.AdvancedCronJobRunPhase(word().Draw(t, "phase")),
			Desired: rapid.Int32().Draw(t, "desired"), Succeeded: rapid.Int32().Draw(t, "succeeded"), Failed: rapid.Int32().Draw(t, "failures"),
		}},
	}
	if rapid.Bool().Draw(t, "pending") {
		s.Pending = &appsv1beta1.AdvancedCronJobPending{ScheduleTime: at("pending at"), Since: at("since")}
	}
	return s
}

func TestAnAdvancedCronJobEditedInV1alpha1KeepsItsTemplateOfV1beta1(t *testing.T) {
	t.Parallel()
	stored := parse[appsv1beta1.AdvancedCronJob](t, `{"metadata":{"name":"pull"},"spec":{"schedule":"@daily","template":{
		"imageListPullJobTemplate":{"metadata":{"labels":{"app":"pull"}},"spec":{"images":["nginx:1"],"completionPolicy":{"type":"Always"}}}}}}`)
	seen := &AdvancedCronJob{}
	require.NoError(t, AdvancedCronJobFromHub(t.Context(), stored, seen))
	require.Equal(t, []string{partCronTemplate}, keptParts(t, seen.Annotations))

	seen.Spec.Paused = new(true)
	back := &appsv1beta1.AdvancedCronJob{}
	require.NoError(t, AdvancedCronJobToHub(t.Context(), seen, back))
	require.Equal(t, stored.Spec.Template, back.Spec.Template)
	require.True(t, *back.Spec.Paused)
	require.NotContains(t, back.Annotations, keys.ConversionData)

	seen.Spec.Template.BroadcastJobTemplate = &appsv1beta1.BroadcastJobTemplateSpec{}
	require.NoError(t, AdvancedCronJobToHub(t.Context(), seen, back))
	require.Nil(t, back.Spec.Template.ImageListPullJobTemplate, "another template replaces it")
}

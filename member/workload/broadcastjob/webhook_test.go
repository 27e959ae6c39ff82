package broadcastjob

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

// newTestWebhook returns a webhook with a fake apiserver that counts dry runs.
func newTestWebhook(t *testing.T) (*Webhook, *int) {
	t.Helper()
	c, dryRuns := webhooktest.Apiserver()
	return &Webhook{Client: c}, dryRuns
}

func TestDefault(t *testing.T) {
	t.Parallel()
	w, dryRuns := newTestWebhook(t)
	job := testkit.BroadcastJob("scan").Obj()
	given := job.Spec.Template
	job.Spec = appsv1beta1.BroadcastJobSpec{Template: given}
	require.NoError(t, w.Default(t.Context(), job))
	require.Equal(t, "2147483647", job.Spec.Parallelism.String())
	require.Equal(t, appsv1beta1.BroadcastJobAlways, job.Spec.CompletionPolicy.Type)
	require.Equal(t, appsv1beta1.BroadcastJobFailFast, job.Spec.FailurePolicy.Type)
	require.Equal(t, corev1.PullAlways, job.Spec.Template.Spec.Containers[0].ImagePullPolicy, "as in OpenKruise")
	require.Equal(t, corev1.RestartPolicyNever, job.Spec.Template.Spec.RestartPolicy)
	_, err := w.ValidateCreate(t.Context(), job)
	require.NoError(t, err)
	require.Equal(t, 1, *dryRuns, "both webhooks make one dry run")

	job.Spec.Parallelism, job.Spec.CompletionPolicy.Type = new(intstr.FromString("10%")), appsv1beta1.BroadcastJobNever
	job.Spec.FailurePolicy.Type, job.Spec.Template.Spec.RestartPolicy = appsv1beta1.BroadcastJobPause, corev1.RestartPolicyOnFailure
	want := job.DeepCopy()
	require.NoError(t, w.Default(t.Context(), job))
	require.Equal(t, want.Spec, job.Spec, "explicit values are kept")
}

func TestAMissingRestartPolicyIsNotDefaulted(t *testing.T) {
	t.Parallel()
	w, dryRuns := newTestWebhook(t)
	job := testkit.BroadcastJob("scan").Spec(func(s *appsv1beta1.BroadcastJobSpec) { s.Template.Spec.RestartPolicy = "" }).Obj()
	require.NoError(t, w.Default(t.Context(), job))
	require.Empty(t, job.Spec.Template.Spec.RestartPolicy)
	_, err := w.ValidateCreate(t.Context(), job)
	require.ErrorContains(t, err, "spec.template.spec.restartPolicy: Required value: pods of a BroadcastJob run to completion")
	require.Zero(t, *dryRuns)
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	label := func(s *appsv1beta1.BroadcastJobSpec) { s.Template.Labels[keys.BroadcastJobName] = "scan" }
	for _, tt := range []struct {
		name     string
		old, new func(*appsv1beta1.BroadcastJobSpec)
		ended    bool
		want     string
		refused  string
	}{
		{name: "everything may change", new: func(s *appsv1beta1.BroadcastJobSpec) {
			s.Template.Spec.Containers[0].Image, s.Paused, s.Parallelism = "app:2", true, new(intstr.FromString("10%"))
			s.FailurePolicy.Type, s.CompletionPolicy.TTLSecondsAfterFinished = appsv1beta1.BroadcastJobContinue, new(int32(1))
		}},
		{name: "a new invalid value is refused", new: label, refused: "spec.template.metadata.labels[broadcastjob-name]: Forbidden"},
		{name: "a stored invalid value causes a warning", old: label, new: func(s *appsv1beta1.BroadcastJobSpec) {
			label(s)
			s.Paused = true
		}, want: "spec.template.metadata.labels[broadcastjob-name]"},
		{
			name: "the template of a job that has ended has no effect", ended: true, want: "the job has ended",
			new: func(s *appsv1beta1.BroadcastJobSpec) { s.Template.Spec.Containers[0].Image = "app:2" },
		},
		{name: "an invalid template is refused", new: func(s *appsv1beta1.BroadcastJobSpec) { s.Template.Spec.RestartPolicy = "Always" }, refused: `"Always": supported values`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := newTestWebhook(t)
			old, job := testkit.BroadcastJob("scan").Obj(), testkit.BroadcastJob("scan").Obj()
			if tt.old != nil {
				tt.old(&old.Spec)
			}
			tt.new(&job.Spec)
			if tt.ended {
				job.Status.Phase = appsv1beta1.BroadcastJobCompleted
			}
			warnings, err := w.ValidateUpdate(t.Context(), old, job)
			if tt.refused != "" {
				require.ErrorContains(t, err, tt.refused)
				return
			}
			require.NoError(t, err)
			if tt.want == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], tt.want)
		})
	}
}

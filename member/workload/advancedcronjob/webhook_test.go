package advancedcronjob

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

// newTestWebhook returns a webhook with a fake apiserver.
func newTestWebhook(t *testing.T) *Webhook {
	t.Helper()
	c, _ := webhooktest.Apiserver()
	fault := func(what string) func(path *field.Path) field.ErrorList {
		return func(path *field.Path) field.ErrorList {
			if what == "" {
				return nil
			}
			return field.ErrorList{field.Invalid(path, what, "it is bad")}
		}
	}
	return &Webhook{Client: c, Local: time.UTC, Templates: Templates{
		BroadcastJob: func(s *appsv1beta1.BroadcastJobSpec, path *field.Path) field.ErrorList {
			return fault(s.Template.Labels["bad"])(path)
		},
		ImageListPullJob: func(s *appsv1beta1.ImageListPullJobSpec, path *field.Path) field.ErrorList {
			return imagepull.Validate(&s.ImagePullJobTemplate, nil, path)
		},
	}}
}

func pods(policy corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: policy, Containers: []corev1.Container{{Name: "main", Image: "app"}}}}
}

func ofJob(c *appsv1beta1.AdvancedCronJob) {
	c.Spec.Template = appsv1beta1.AdvancedCronJobTemplate{JobTemplate: &batchv1.JobTemplateSpec{
		Spec: batchv1.JobSpec{Template: pods(corev1.RestartPolicyNever)},
	}}
}

// valid has a pod template that a webhook accepts.
func valid(changes ...change) *appsv1beta1.AdvancedCronJob {
	return nightly(append([]change{func(c *appsv1beta1.AdvancedCronJob) {
		c.Spec.Template.BroadcastJobTemplate.Spec.Template = pods(corev1.RestartPolicyNever)
	}}, changes...)...)
}

func TestDefaultsAreThoseOfOpenKruise(t *testing.T) {
	t.Parallel()
	w := newTestWebhook(t)
	cron := valid()
	require.NoError(t, w.Default(t.Context(), cron))
	require.Equal(t, appsv1beta1.AdvancedCronJobAllow, cron.Spec.ConcurrencyPolicy)
	require.False(t, *cron.Spec.Paused)
	require.Equal(t, int32(3), *cron.Spec.SuccessfulJobsHistoryLimit)
	require.Equal(t, int32(1), *cron.Spec.FailedJobsHistoryLimit)
	require.Equal(t, corev1.PullAlways, cron.Spec.Template.BroadcastJobTemplate.Spec.Template.Spec.Containers[0].ImagePullPolicy)
	require.Nil(t, cron.Spec.Template.BroadcastJobTemplate.Spec.Parallelism, "jobs get their own defaults")
	again := cron.DeepCopy()
	require.NoError(t, w.Default(t.Context(), again))
	require.Equal(t, cron, again)

	cron = valid(ofJob)
	require.NoError(t, w.Default(t.Context(), cron))
	require.Equal(t, corev1.PullAlways, cron.Spec.Template.JobTemplate.Spec.Template.Spec.Containers[0].ImagePullPolicy)

	cron = valid(ofKindPull)
	require.NoError(t, w.Default(t.Context(), cron))
	require.Equal(t, appsv1beta1.AdvancedCronJobReplace, cron.Spec.ConcurrencyPolicy)
	spec := cron.Spec.Template.ImageListPullJobTemplate.Spec
	require.Equal(t, appsv1beta1.ImagePullJobAlways, spec.CompletionPolicy.Type)
	require.Equal(t, appsv1beta1.PullIfNotPresent, spec.ImagePullPolicy)
	require.Equal(t, int32(600), *spec.PullPolicy.TimeoutSeconds)
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	type cron = appsv1beta1.AdvancedCronJob
	pull := func(change func(*appsv1beta1.ImageListPullJobSpec)) change {
		return func(c *cron) {
			ofKindPull(c)
			change(&c.Spec.Template.ImageListPullJobTemplate.Spec)
		}
	}
	for _, tc := range []struct {
		name   string
		change change
		want   string // expected in the refusal; empty: accepted
	}{
		{"five fields", func(*cron) {}, ""},
		{"a descriptor", schedule("@every 90s"), ""},
		{"a prefix", schedule("CRON_TZ=Asia/Tokyo 0 3 * * *"), ""},
		{"no schedule", schedule(""), "spec.schedule: Invalid value: \"\": is empty"},
		{"six fields", schedule("0 0 3 * * *"), `spec.schedule: Invalid value: "0 0 3 * * *"`},
		{"a prefix alone", schedule("TZ=UTC"), "add five fields or a descriptor after it"},
		{"a prefix beside a zone", func(c *cron) { c.Spec.Schedule, c.Spec.TimeZone = "TZ=UTC @daily", new("Asia/Tokyo") }, "remove one of them"},
		{"an unknown zone", func(c *cron) { c.Spec.TimeZone = new("Mars/Base") }, `spec.timeZone: Invalid value: "Mars/Base"`},
		{"the zone Local", func(c *cron) { c.Spec.TimeZone = new("Local") }, `spec.timeZone: Invalid value: "Local"`},
		{"a negative deadline", deadline(-1), "spec.startingDeadlineSeconds: Invalid value: -1"},
		{"negative limits", limits(-1, -1), "spec.failedJobsHistoryLimit: Invalid value: -1: it can't be negative: 0 keeps no job"},
		{"no template", func(c *cron) { c.Spec.Template = appsv1beta1.AdvancedCronJobTemplate{} }, "spec.template: Invalid value: set exactly one"},
		{"two templates", func(c *cron) { c.Spec.Template.JobTemplate = &batchv1.JobTemplateSpec{} }, "spec.template: Invalid value: set exactly one"},
		{"52 characters", func(c *cron) { c.Name = strings.Repeat("a", 52) }, ""},
		{"53 characters", func(c *cron) { c.Name = strings.Repeat("a", 53) }, "use at most 52 characters"},
		{"a generated name", func(c *cron) { c.Name, c.GenerateName = "", strings.Repeat("a", 48) }, "use at most 52 characters"},
		{"a dot", func(c *cron) { c.Name = "a.b" }, "must consist of letters, digits and dashes"},
		{"an invalid BroadcastJob", func(c *cron) {
			c.Spec.Template.BroadcastJobTemplate.Spec.Template.Labels = map[string]string{"bad": "x"}
		}, `spec.template.broadcastJobTemplate.spec: Invalid value: "x": it is bad`},
		{"an invalid label of the template", label("app", "a b"), "spec.template.broadcastJobTemplate.metadata.labels: Invalid value"},
		{"an annotation that the controller sets", func(c *cron) {
			c.Spec.Template.BroadcastJobTemplate.Annotations[keys.ScheduledAt] = "now"
		}, "spec.template.broadcastJobTemplate.metadata.annotations[apps.kruise.io/scheduled-at]: Forbidden"},

		{"a Job", ofJob, ""},
		{"a Job without a restartPolicy", func(c *cron) {
			ofJob(c)
			c.Spec.Template.JobTemplate.Spec.Template = pods("")
		}, "spec.template.jobTemplate.spec.template.spec.restartPolicy: Required value: pods of a Job run to completion"},

		{"an invalid image of a Job", func(c *cron) {
			ofJob(c)
			c.Spec.Template.JobTemplate.Spec.Template.Spec.Containers[0].Image = "bad"
		}, "spec.template.jobTemplate.spec.template.spec.containers[0].image: Invalid value"},
		{"an invalid image of a BroadcastJob", func(c *cron) {
			c.Spec.Template.BroadcastJobTemplate.Spec.Template.Spec.Containers[0].Image = "bad"
		}, "spec.template.broadcastJobTemplate.spec.template.spec.containers[0].image: Invalid value"},

		{"images", pull(func(*appsv1beta1.ImageListPullJobSpec) {}), ""},
		{"63 characters and images", func(c *cron) {
			ofKindPull(c)
			c.Name = strings.Repeat("a", 63)
		}, ""},
		{"images and Allow", func(c *cron) {
			ofKindPull(c)
			c.Spec.ConcurrencyPolicy = appsv1beta1.AdvancedCronJobAllow
		}, `spec.concurrencyPolicy: Unsupported value: "Allow": supported values: "Replace", "Forbid"`},
		{
			"an invalid ImageListPullJob", pull(func(s *appsv1beta1.ImageListPullJobSpec) { s.PullSecrets = []string{"x"} }),
			`spec.template.imageListPullJobTemplate.spec.pullSecrets[0]: Forbidden: x: `,
		},
		{
			"images that never complete",
			pull(func(s *appsv1beta1.ImageListPullJobSpec) { s.CompletionPolicy.Type = appsv1beta1.ImagePullJobNever }),
			`spec.template.imageListPullJobTemplate.spec.completionPolicy.type: Unsupported value: "Never": supported values: "Always"`,
		},
		{
			"images with a TTL",
			pull(func(s *appsv1beta1.ImageListPullJobSpec) { s.CompletionPolicy.TTLSecondsAfterFinished = new(int32(1)) }),
			"completionPolicy.ttlSecondsAfterFinished: Forbidden: successfulJobsHistoryLimit and failedJobsHistoryLimit determine which jobs are kept",
		},
		{
			"images with a short deadline",
			pull(func(s *appsv1beta1.ImageListPullJobSpec) { s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(599)) }),
			"completionPolicy.activeDeadlineSeconds: Invalid value: 599: it is less than the 600 seconds of pullPolicy.timeoutSeconds",
		},
		{
			"images with a long deadline",
			pull(func(s *appsv1beta1.ImageListPullJobSpec) {
				s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(86401))
			}),
			"completionPolicy.activeDeadlineSeconds: Invalid value: 86401",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cron, w := valid(tc.change), newTestWebhook(t)
			_, err := w.ValidateCreate(t.Context(), cron)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			paused := cron.DeepCopy()
			paused.Spec.Paused = new(true)
			_, err = w.ValidateUpdate(t.Context(), cron, paused)
			require.NoError(t, err, "a stored object may be older than the rule")
		})
	}
	w := newTestWebhook(t)
	w.Templates.PullsOff = true
	_, err := w.ValidateCreate(t.Context(), valid(ofKindPull))
	require.ErrorContains(t, err, "set ImagePullJobGate=true in featureGates of the chart")
}

func TestWhatMayChange(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		old, new change
		refused  bool
	}{
		{"all fields except for the template", func(*appsv1beta1.AdvancedCronJob) {}, func(c *appsv1beta1.AdvancedCronJob) {
			limits(1, 2)(c)
			deadline(60)(c)
			schedule("@daily")(c)
			c.Spec.TimeZone, c.Spec.Paused, c.Spec.ConcurrencyPolicy = new("Asia/Tokyo"), new(true), appsv1beta1.AdvancedCronJobReplace
		}, false},
		{"the pods of a BroadcastJob", func(*appsv1beta1.AdvancedCronJob) {}, func(c *appsv1beta1.AdvancedCronJob) {
			c.Spec.Template.BroadcastJobTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
		}, true},
		{"the template of a Job", ofJob, func(c *appsv1beta1.AdvancedCronJob) {
			ofJob(c)
			c.Spec.Template.JobTemplate.Spec.Completions = new(int32(2))
		}, true},
		{"images", ofKindPull, func(c *appsv1beta1.AdvancedCronJob) {
			ofKindPull(c)
			c.Spec.Template.ImageListPullJobTemplate.Spec.Images = []string{"nginx:2"}
		}, false},
		{"the kind of job", ofKindPull, ofJob, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := newTestWebhook(t).ValidateUpdate(t.Context(), valid(tc.old), valid(tc.new))
			if !tc.refused {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "spec.template: Forbidden: only an imageListPullJobTemplate can be changed")
		})
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	warnings, err := newTestWebhook(t).ValidateCreate(t.Context(), valid(schedule("0 0 30 2 *"), func(c *appsv1beta1.AdvancedCronJob) {
		c.Spec.Template.BroadcastJobTemplate.Name = "x"
		c.Spec.Template.BroadcastJobTemplate.Spec.CompletionPolicy.Type = appsv1beta1.BroadcastJobNever
	}))
	require.NoError(t, err)
	require.Len(t, warnings, 3)
	require.Contains(t, warnings[0], "spec.schedule: the schedule is never due")
	require.Contains(t, warnings[1], "spec.template.broadcastJobTemplate.metadata: only labels and annotations are copied")
	require.Contains(t, warnings[2], "jobs of type Never don't end")
}

func TestFaultsOfAJobAreUnderItsTemplate(t *testing.T) {
	t.Parallel()
	path := field.NewPath("spec", "template", "jobTemplate")
	faults, err := reroot(apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "x", field.ErrorList{
		field.Invalid(field.NewPath("spec", "parallelism"), -1, "must be greater than or equal to 0"),
		field.Required(field.NewPath("spec", "selector"), ""),
	}), path)
	require.NoError(t, err)
	require.Len(t, faults, 2)
	require.EqualError(t, faults[0], "spec.template.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0")
	require.EqualError(t, faults[1], "spec.template.jobTemplate.spec.selector: Required value")

	faults, err = reroot(apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "x", nil), path)
	require.NoError(t, err)
	require.Empty(t, faults, "a quota may change")

	_, err = reroot(apierrors.NewInternalError(testError{}), path)
	require.ErrorContains(t, err, "validate the Job of the template by a dry run")
}

type testError struct{}

func (testError) Error() string { return "no answer" }

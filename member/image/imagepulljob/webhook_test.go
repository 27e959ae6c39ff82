package imagepulljob

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	job := &appsv1beta1.ImagePullJob{Spec: appsv1beta1.ImagePullJobSpec{Image: "nginx:1.27"}}
	require.NoError(t, (&Webhook{}).Default(t.Context(), job))
	require.Equal(t, appsv1beta1.ImagePullJobAlways, job.Spec.CompletionPolicy.Type)
	require.Equal(t, appsv1beta1.PullIfNotPresent, job.Spec.ImagePullPolicy)
	require.Equal(t, &appsv1beta1.PullPolicy{TimeoutSeconds: new(int32(600)), BackoffLimit: new(int32(3))}, job.Spec.PullPolicy)
	require.Nil(t, job.Spec.Parallelism)
	again := job.DeepCopy()
	require.NoError(t, (&Webhook{}).Default(t.Context(), again))
	require.Equal(t, job, again)
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	type spec = appsv1beta1.ImagePullJobSpec
	for _, tc := range []struct {
		name   string
		change func(*spec)
		want   string // expected in the refusal; empty: accepted
	}{
		{"an image with a tag", func(*spec) {}, ""},
		{"an image of a registry, with a digest", func(s *spec) {
			s.Image = "registry.example.com:5000/team/app:1.2@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		}, ""},
		{"no image", func(s *spec) { s.Image = "" }, `spec.image: Invalid value: "": it is empty: set an image, as in nginx:1.27`},
		{"an uppercase name", func(s *spec) { s.Image = "Nginx:1" }, `spec.image: Invalid value: "Nginx:1": it is not an image: use registry/name:tag`},
		{"an invalid tag", func(s *spec) { s.Image = "nginx:.1" }, `the tag is not valid: use up to 128`},
		{"an invalid digest", func(s *spec) { s.Image = "nginx@sha256:12" }, `the digest is not valid: use sha256:`},
		{"parallelism as a number in a string", func(s *spec) { s.Parallelism = new(intstr.FromString("3")) }, ""},
		{
			"parallelism in percent", func(s *spec) { s.Parallelism = new(intstr.FromString("10%")) },
			`spec.parallelism: Invalid value: "10%": "10%" is not a number of nodes: set one, as in 10; a percentage is not supported`,
		},
		{
			"negative parallelism", func(s *spec) { s.Parallelism = new(intstr.FromInt32(-1)) },
			`spec.parallelism: Invalid value: "-1": -1 is negative: set a number of nodes, or 0 to pause`,
		},
		{
			"a name twice", func(s *spec) { s.Selector = &appsv1beta1.ImagePullJobNodeSelector{Names: []string{"a", "a"}} },
			`spec.selector.names[1]: Duplicate value: "a"`,
		},
		{"an invalid node name", func(s *spec) { s.Selector = &appsv1beta1.ImagePullJobNodeSelector{Names: []string{"A_b"}} }, "spec.selector.names[0]: Invalid value"},
		{"an invalid selector of nodes", func(s *spec) {
			s.Selector = &appsv1beta1.ImagePullJobNodeSelector{LabelSelector: metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "Like"}},
			}}
		}, "spec.selector.matchExpressions[0].operator: Invalid value"},
		{"an invalid selector of pods", func(s *spec) {
			s.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b c"}}
		}, "spec.podSelector.matchLabels: Invalid value"},
		{
			"a deadline shorter than an attempt", func(s *spec) { s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(599)) },
			"spec.completionPolicy.activeDeadlineSeconds: Invalid value: 599: it is less than the 600 seconds of pullPolicy.timeoutSeconds",
		},
		{
			"a timeout of 0", func(s *spec) { s.PullPolicy = &appsv1beta1.PullPolicy{TimeoutSeconds: new(int32(0))} },
			"spec.pullPolicy.timeoutSeconds: Invalid value: 0: must be at least 1 second: leave it unset for 600",
		},
		{
			"a negative backoffLimit", func(s *spec) { s.PullPolicy = &appsv1beta1.PullPolicy{BackoffLimit: new(int32(-1))} },
			"spec.pullPolicy.backoffLimit: Invalid value: -1: set 0 for one attempt",
		},
		{
			"a negative TTL", func(s *spec) { s.CompletionPolicy.TTLSecondsAfterFinished = new(int32(-1)) },
			"spec.completionPolicy.ttlSecondsAfterFinished: Invalid value: -1: set 0 to delete the job when it is complete",
		},
		{"a Secret that the manager may read", func(s *spec) { s.PullSecrets = []string{"login"} }, ""},
		{
			"a Secret that the manager may not read", func(s *spec) { s.PullSecrets = []string{"login", "regcred"} },
			"spec.pullSecrets[1]: Forbidden: regcred: the manager may not read Secrets of this name: add it to imagePullJob.secrets of the chart",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			job := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Name: "pull"}, Spec: spec{Image: "nginx:1.27"}}
			tc.change(&job.Spec)
			_, err := (&Webhook{Secrets: []string{"login"}}).ValidateCreate(t.Context(), job)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			warnings, err := (&Webhook{Secrets: []string{"login"}}).ValidateUpdate(t.Context(), job, job)
			require.NoError(t, err, "a stored object may be older than the rule")
			require.Len(t, warnings, 1)
		})
	}
}

func TestNoJobIsMadeWithoutDaemons(t *testing.T) {
	t.Parallel()
	job := &appsv1beta1.ImagePullJob{Spec: appsv1beta1.ImagePullJobSpec{Image: "nginx:1.27"}}
	_, err := (&Webhook{Off: true}).ValidateCreate(t.Context(), job)
	require.ErrorContains(t, err, "set ImagePullJobGate=true in featureGates of the chart")
	_, err = (&Webhook{Off: true}).ValidateUpdate(t.Context(), job, job)
	require.NoError(t, err)
}

func TestAChangeOfACompleteJobIsAWarning(t *testing.T) {
	t.Parallel()
	old := &appsv1beta1.ImagePullJob{Spec: appsv1beta1.ImagePullJobSpec{Image: "nginx:1.27"}}
	old.Status.CompletionTime = &metav1.Time{}
	job := old.DeepCopy()
	job.Spec.Image = "nginx:1.28"
	warnings, err := (&Webhook{}).ValidateUpdate(t.Context(), old, job)
	require.NoError(t, err)
	require.Contains(t, warnings[0], "create another ImagePullJob")
}

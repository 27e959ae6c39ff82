package imagelistpulljob

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func TestDefaultsAreThoseOfOpenKruise(t *testing.T) {
	t.Parallel()
	job := &appsv1beta1.ImageListPullJob{}
	require.NoError(t, (&Webhook{}).Default(t.Context(), job))
	require.Equal(t, appsv1beta1.ImagePullJobTemplate{
		CompletionPolicy: appsv1beta1.ImagePullJobCompletionPolicy{Type: appsv1beta1.ImagePullJobAlways},
		PullPolicy:       &appsv1beta1.PullPolicy{TimeoutSeconds: new(int32(600)), BackoffLimit: new(int32(3))},
	}, job.Spec.ImagePullJobTemplate)
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	type spec = appsv1beta1.ImageListPullJobSpec
	for _, tc := range []struct {
		name   string
		change func(*spec)
		want   string // expected in the refusal; empty: accepted
	}{
		{"two images", func(s *spec) { s.Images = []string{"nginx:1.26", "nginx:1.27"} }, ""},
		{"a deadline as long as an attempt", func(s *spec) { s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(600)) }, ""},
		{"an invalid image", func(s *spec) { s.Images = []string{"nginx", "a b"} }, `spec.images[1]: Invalid value: "a b": it is not an image`},
		{
			"an image written in two ways", func(s *spec) { s.Images = []string{"nginx", "nginx:latest"} },
			`spec.images[1]: Invalid value: "nginx:latest": it is the same image as nginx: remove one of them`,
		},
		{"parallelism in percent", func(s *spec) { s.Parallelism = new(intstr.FromString("10%")) }, "a percentage is not supported"},
		{"pull secrets", func(s *spec) { s.PullSecrets = []string{"regcred"} }, "spec.pullSecrets[0]: Forbidden: regcred: the manager may not read"},
		{
			"a deadline shorter than an attempt", func(s *spec) { s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(599)) },
			"spec.completionPolicy.activeDeadlineSeconds: Invalid value: 599: it is less than the 600 seconds of pullPolicy.timeoutSeconds",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			job := &appsv1beta1.ImageListPullJob{Spec: spec{Images: []string{"nginx:1.27"}}}
			tc.change(&job.Spec)
			_, err := (&Webhook{}).ValidateCreate(t.Context(), job)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			_, err = (&Webhook{}).ValidateUpdate(t.Context(), job, job)
			require.NoError(t, err, "a stored object may be older than the rule")
		})
	}
	_, err := (&Webhook{Off: true}).ValidateCreate(t.Context(), &appsv1beta1.ImageListPullJob{Spec: spec{Images: []string{"nginx:1.27"}}})
	require.ErrorContains(t, err, "set ImagePullJobGate=true in featureGates of the chart")
}

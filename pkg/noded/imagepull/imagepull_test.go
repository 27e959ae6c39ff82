package imagepull

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		image string
		want  Reference
		err   string
	}{
		{"nginx", Reference{"nginx", "latest"}, ""},
		{"nginx:1.27", Reference{"nginx", "1.27"}, ""},
		{"registry:5000/team/app", Reference{"registry:5000/team/app", "latest"}, ""},
		{"registry.example.com:5000/team/app:v1", Reference{"registry.example.com:5000/team/app", "v1"}, ""},
		{"[::1]:5000/app:v1", Reference{"[::1]:5000/app", "v1"}, ""},
		{"app@" + digest, Reference{"app", digest}, ""},
		{"app:v1@" + digest, Reference{"app", digest}, ""},
		{"", Reference{}, "it is empty"},
		{"App", Reference{}, "it is not an image"},
		{"a b", Reference{}, "it is not an image"},
		{"/app", Reference{}, "it is not an image"},
		{"app:", Reference{}, "the tag is not valid"},
		{"app:" + strings.Repeat("a", 129), Reference{}, "the tag is not valid"},
		{"app@sha256:1", Reference{}, "the digest is not valid"},
		{strings.Repeat("a", 256), Reference{}, "more than 255 bytes"},
	} {
		t.Run(tc.image, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(tc.image)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

// FuzzParse checks that a parsed reference is printed as a reference with the same meaning.
func FuzzParse(f *testing.F) {
	for _, image := range []string{"nginx", "registry:5000/team/app:v1", "app:v1@" + digest, "[::1]/a", "a:b:c", "a@@", ":", "@"} {
		f.Add(image)
	}
	f.Fuzz(func(t *testing.T, image string) {
		ref, err := Parse(image)
		if err != nil {
			return
		}
		again, err := Parse(ref.String())
		require.NoError(t, err)
		require.Equal(t, ref, again)
	})
}

func TestParallelism(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   *intstr.IntOrString
		want int
		err  string
	}{
		{nil, 1, ""},
		{new(intstr.FromInt32(0)), 0, ""},
		{new(intstr.FromInt32(10)), 10, ""},
		{new(intstr.FromString("10")), 10, ""},
		{new(intstr.FromString("10%")), 0, "a percentage is not supported"},
		{new(intstr.FromString("-1")), 0, "-1 is negative"},
	} {
		got, err := Parallelism(tc.in)
		require.Equal(t, tc.want, got)
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err)
		} else {
			require.NoError(t, err)
		}
	}
}

func TestDefaultJob(t *testing.T) {
	t.Parallel()
	var job, list appsv1beta1.ImagePullJobTemplate
	DefaultJob(&job)
	require.Equal(t, appsv1beta1.PullIfNotPresent, job.ImagePullPolicy)
	Default(&list)
	require.Empty(t, list.ImagePullPolicy, "a list leaves it to its jobs")
	list.ImagePullPolicy = job.ImagePullPolicy
	require.Equal(t, list, job, "everything else is the same")

	set := appsv1beta1.ImagePullJobTemplate{ImagePullPolicy: appsv1beta1.PullAlways}
	DefaultJob(&set)
	require.Equal(t, appsv1beta1.PullAlways, set.ImagePullPolicy)
}

func TestTheStateOfAFormerVersionDoesNotCount(t *testing.T) {
	t.Parallel()
	ref := Reference{"nginx", "1"}
	n := &appsv1beta1.NodeImage{}
	require.Nil(t, Find(n, ref))
	require.Nil(t, State(n, ref))
	n.Spec.Images = map[string]appsv1beta1.ImageSpec{"nginx": {Tags: []appsv1beta1.ImageTagSpec{{
		Tag: "1", Version: 2, OwnerReferences: []appsv1beta1.ImageTagOwner{{UID: "b"}, {UID: "a"}, {}},
	}}}}
	n.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"nginx": {Tags: []appsv1beta1.ImageTagStatus{{
		Tag: "1", Version: 1, Phase: appsv1beta1.ImagePhaseSucceeded,
	}}}}
	entry := Find(n, ref)
	require.Equal(t, appsv1beta1.ImagePhaseWaiting, Phase(n, ref, entry))
	n.Status.ImageStatuses["nginx"].Tags[0].Version = 2
	require.Equal(t, appsv1beta1.ImagePhaseSucceeded, Phase(n, ref, entry))
	require.True(t, Owns(entry, "a"))
	require.False(t, Owns(entry, "c"))
	require.Equal(t, []string{"a", "b"}, Owners(n))
}

func TestAttack28SandboxConfigsAreBounded(t *testing.T) {
	t.Parallel()
	job := &appsv1beta1.ImagePullJobTemplate{SandboxConfig: &appsv1beta1.SandboxConfig{
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": strings.Repeat("x", MaxSandbox-3)},
	}}
	require.Empty(t, Validate(job, nil, field.NewPath("spec")))
	job.SandboxConfig.Annotations["d"] = ""
	require.ErrorContains(t, Validate(job, nil, field.NewPath("spec")).ToAggregate(), "spec.sandboxConfig: Too long: may not be more than 4096 bytes")
}

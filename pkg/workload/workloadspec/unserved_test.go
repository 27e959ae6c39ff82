package workloadspec_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// env returns a container with env variables, given as name and value.
func env(env ...string) corev1.Container {
	var c corev1.Container
	for i := 0; i < len(env); i += 2 {
		c.Env = append(c.Env, corev1.EnvVar{Name: env[i], Value: env[i+1]})
	}
	return c
}

func TestUnserved(t *testing.T) {
	t.Parallel()
	type annotations = map[string]string
	const (
		noPull   = "no image will be pulled before an update because feature gate PreDownloadImageForInPlaceUpdate is off"
		noJob    = "has no effect because it stops a sidecar when the other containers have ended, and these pods run indefinitely"
		priority = keys.EnvContainerPriority
		end      = keys.EnvTerminateSidecar
	)
	tests := []struct {
		name       string
		workload   annotations
		pod        annotations
		strategy   *pods.InPlaceUpdateStrategy
		containers []corev1.Container
		want       []string
	}{
		{name: "a plain workload", workload: annotations{"mine": "1"}, pod: annotations{"mine": "1"}, containers: []corev1.Container{env("A", "b"), env()}},
		{
			name:     "annotations that pull images before an update, whatever their value, in the order of the list",
			workload: annotations{keys.ImagePreDownloadTimeoutSeconds: "", keys.ImagePreDownloadParallelism: "2", keys.ImagePreDownloadMinUpdatedReadyPods: "x"},
			want: []string{
				"metadata.annotations[apps.kruise.io/image-predownload-parallelism]: " + noPull,
				"metadata.annotations[apps.kruise.io/image-predownload-timeout-seconds]: " + noPull,
				"metadata.annotations[apps.kruise.io/image-predownload-min-updated-ready-pods]: " + noPull,
			},
		},
		{
			name: "fields that do",
			strategy: &pods.InPlaceUpdateStrategy{
				ImagePreDownloadParallelism: new(intstr.FromInt32(0)), ImagePreDownloadTimeoutSeconds: new(int32(0)),
				ImagePreDownloadMinUpdatedReadyPods: new(int32(0)),
			},
			want: []string{
				"spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism " +
					"(in v1alpha1 annotation apps.kruise.io/image-predownload-parallelism): " + noPull,
				"spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds " +
					"(in v1alpha1 annotation apps.kruise.io/image-predownload-timeout-seconds): " + noPull,
				"spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods " +
					"(in v1alpha1 annotation apps.kruise.io/image-predownload-min-updated-ready-pods): " + noPull,
			},
		},
		{name: "another field of the strategy", strategy: &pods.InPlaceUpdateStrategy{GracePeriodSeconds: 3}},
		{
			name: "liveness probes by the node daemon", pod: annotations{"apps.kruise.io/using-enhanced-liveness": "true"},
			want: []string{"spec.template.metadata.annotations[apps.kruise.io/using-enhanced-liveness]: has no effect because feature gate EnhancedLivenessProbe is off: the kubelet runs the liveness probes"},
		},
		{name: "launch priorities", pod: annotations{keys.ContainerLaunchPriority: "Ordered"}, containers: []corev1.Container{env(priority, "1"), env()}},
		{
			name: "sidecars of a Job", containers: []corev1.Container{env(), env("A", "true", end, "True"), env(keys.EnvTerminateSidecarByImage, "exit:1")},
			want: []string{
				"spec.template.spec.containers[1].env[KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT]: " + noJob,
				"spec.template.spec.containers[2].env[KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE]: " + noJob,
			},
		},
		{name: "sidecars that keep running", containers: []corev1.Container{env(end, "false"), env(keys.EnvTerminateSidecarByImage, "")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: tt.pod}, Spec: corev1.PodSpec{Containers: tt.containers}}
			require.Equal(t, tt.want, workloadspec.Unserved(&metav1.ObjectMeta{Annotations: tt.workload}, template, tt.strategy, workloadspec.Off{PreDownload: feature.PreDownloadForInPlaceUpdate, Liveness: feature.EnhancedLiveness}, nil))
		})
	}
}

func TestPreDownload(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Annotations: map[string]string{
		keys.ImagePreDownloadParallelism: "10%", keys.ImagePreDownloadTimeoutSeconds: "-1", keys.ImagePreDownloadMinUpdatedReadyPods: "20%",
	}}
	fine := &pods.InPlaceUpdateStrategy{
		ImagePreDownloadParallelism: new(intstr.FromString("5")), ImagePreDownloadTimeoutSeconds: new(int32(0)),
		ImagePreDownloadMinUpdatedReadyPods: new(int32(2)),
	}
	require.Equal(t, []string{
		`metadata.annotations[apps.kruise.io/image-predownload-parallelism]: "10%" has no effect: must be a non-negative number`,
		`metadata.annotations[apps.kruise.io/image-predownload-timeout-seconds]: "-1" has no effect: must be a non-negative number`,
	}, workloadspec.Unserved(&meta, &corev1.PodTemplateSpec{}, fine, workloadspec.Off{}, nil))

	require.Empty(t, workloadspec.PreDownload(nil, nil))
	require.Empty(t, workloadspec.PreDownload(fine, nil))
	faults := workloadspec.PreDownload(&pods.InPlaceUpdateStrategy{
		ImagePreDownloadParallelism: new(intstr.FromString("10%")), ImagePreDownloadTimeoutSeconds: new(int32(-1)),
		ImagePreDownloadMinUpdatedReadyPods: new(int32(-2)),
	}, field.NewPath("strategy"))
	require.Len(t, faults, 3)
	require.ErrorContains(t, faults.ToAggregate(), `strategy.imagePreDownloadParallelism: Invalid value: "10%": "10%" is not a number of nodes`)
	require.ErrorContains(t, faults.ToAggregate(), "strategy.imagePreDownloadTimeoutSeconds: Invalid value: -1: it is negative")
	require.ErrorContains(t, faults.ToAggregate(), "strategy.imagePreDownloadMinUpdatedReadyPods: Invalid value: -2: it is negative")
}

func TestPullAnnotation(t *testing.T) {
	t.Parallel()
	const parallelism, timeout, ready = keys.ImagePreDownloadParallelism, keys.ImagePreDownloadTimeoutSeconds, keys.ImagePreDownloadMinUpdatedReadyPods
	for _, tc := range []struct {
		name, key, value string
		want             *intstr.IntOrString // nil: it has no effect
	}{
		{"a number of nodes", parallelism, "3", new(intstr.FromInt32(3))},
		{"a number of seconds", timeout, "60", new(intstr.FromInt32(60))},
		{"a number of pods", ready, "2", new(intstr.FromInt32(2))},
		{"zero", parallelism, "0", new(intstr.FromInt32(0))},
		{"a percentage of pods", ready, "20%", new(intstr.FromString("20%"))},
		{"a percentage of nodes is invalid", parallelism, "20%", nil},
		{"so is a percentage of seconds", timeout, "20%", nil},
		{"a negative number", parallelism, "-1", nil},
		{"a negative percentage", ready, "-20%", nil},
		{"a percent sign alone", ready, "%", nil},
		{"text", timeout, "5m", nil},
		{"no text", ready, "", nil},
		{"more than 32 bits", timeout, "2147483648", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			annotations := map[string]string{tc.key: tc.value}
			require.Equal(t, tc.want, workloadspec.PullAnnotation(annotations, tc.key))
			warnings := workloadspec.Unserved(&metav1.ObjectMeta{Annotations: annotations}, &corev1.PodTemplateSpec{}, nil, workloadspec.Off{}, nil)
			require.Equal(t, tc.want == nil, len(warnings) == 1, "admission warns about fields without effect")
		})
	}
	require.Nil(t, workloadspec.PullAnnotation(nil, parallelism))
	require.Nil(t, workloadspec.PullAnnotation(map[string]string{timeout: "60"}, parallelism))
}

func TestUnservedNamesTheTemplateOfAnotherObject(t *testing.T) {
	t.Parallel()
	annotated := metav1.ObjectMeta{Annotations: map[string]string{keys.EnhancedLiveness: "true"}}
	meta := metav1.ObjectMeta{Annotations: map[string]string{keys.ImagePreDownloadParallelism: "1"}}
	got := workloadspec.Unserved(&meta, &corev1.PodTemplateSpec{ObjectMeta: annotated}, nil, workloadspec.Off{PreDownload: feature.PreDownloadForInPlaceUpdate, Liveness: feature.EnhancedLiveness}, field.NewPath("spec", "template", "cloneSetTemplate"))
	require.Len(t, got, 2)
	require.Contains(t, got[0], "spec.template.cloneSetTemplate.metadata.annotations[apps.kruise.io/image-predownload-parallelism]: ")
	require.Contains(t, got[1], "spec.template.cloneSetTemplate.spec.template.metadata.annotations[apps.kruise.io/using-enhanced-liveness]: ")

	got = workloadspec.UnservedByPods(&corev1.PodTemplateSpec{ObjectMeta: annotated}, workloadspec.Off{Other: true}, field.NewPath("patch"))
	require.Len(t, got, 1)
	require.Contains(t, got[0], "patch.metadata.annotations[apps.kruise.io/using-enhanced-liveness]: has no effect because it only applies to pods of CloneSets")
	require.Empty(t, workloadspec.UnservedByPods(&corev1.PodTemplateSpec{ObjectMeta: annotated}, workloadspec.Off{}, field.NewPath("patch")), "the gate is on")
	require.Len(t, workloadspec.UnservedByJobPods(&corev1.PodTemplateSpec{ObjectMeta: annotated}, nil), 1)
}

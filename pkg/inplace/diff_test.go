package inplace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// template has the containers app and side; app reads the annotation config and the label tier by env.
func template(fs ...func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{}
	t.Labels = map[string]string{"app": "web", "tier": "one"}
	t.Annotations = map[string]string{"config": "one", "note": "one"}
	t.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}}
	t.Spec.Containers = []corev1.Container{
		{
			Name: "app", Image: "app:1", Env: []corev1.EnvVar{
				reads("CONFIG", "metadata.annotations['config']"), reads("TIER", "metadata.labels['tier']"),
				reads("SIDECARSET_VERSION", "metadata.annotations['note']"),
				{Name: "PLAIN", Value: "x"},
			},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		},
		{Name: "side", Image: "side:1"},
	}
	for _, f := range fs {
		f(t)
	}
	return t
}

func reads(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func image(i int, image string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Spec.Containers[i].Image = image }
}

func TestDiff(t *testing.T) {
	t.Parallel()
	two := "two"
	for _, tc := range []struct {
		name   string
		change func(*corev1.PodTemplateSpec)
		want   Edit
		why    string
	}{
		{name: "equal templates need nothing", change: func(*corev1.PodTemplateSpec) {}},
		{
			name: "quantities are equal by value",
			change: func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("1000m")
			},
		},
		{name: "an empty list equals none", change: func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Env = []corev1.EnvVar{} }},
		{name: "an image is changed", change: image(1, "side:2"), want: Edit{Images: map[string]string{"side": "side:2"}}},
		{
			name: "labels and annotations are set and taken off",
			change: func(t *corev1.PodTemplateSpec) {
				t.Labels = map[string]string{"app": "web", "tier": "one", "new": "two"}
				t.Annotations = map[string]string{"config": "one"}
			},
			want: Edit{Labels: map[string]*string{"new": &two}, Annotations: map[string]*string{"note": nil}},
		},
		{
			name:   "a changed annotation that a container reads needs a restart",
			change: func(t *corev1.PodTemplateSpec) { t.Annotations["config"] = "two" },
			why:    "container app reads annotation config by env CONFIG, and only a node daemon could restart it",
		},
		{
			name:   "a changed label that a container reads needs a restart",
			change: func(t *corev1.PodTemplateSpec) { t.Labels["tier"] = "two" },
			why:    "container app reads label tier by env TIER, and only a node daemon could restart it",
		},
		{
			name:   "a container that gets a new image reads the new value as it starts",
			change: func(t *corev1.PodTemplateSpec) { t.Annotations["config"] = "two"; image(0, "app:2")(t) },
			want:   Edit{Images: map[string]string{"app": "app:2"}, Annotations: map[string]*string{"config": &two}},
		},
		{
			name:   "taking off what a container reads needs no restart",
			change: func(t *corev1.PodTemplateSpec) { delete(t.Annotations, "config") },
			want:   Edit{Annotations: map[string]*string{"config": nil}},
		},
		{
			name:   "the version of a sidecar set needs no restart",
			change: func(t *corev1.PodTemplateSpec) { t.Annotations["note"] = "two" },
			want:   Edit{Annotations: map[string]*string{"note": &two}},
		},
		{
			name:   "an init container's image can't change",
			change: func(t *corev1.PodTemplateSpec) { t.Spec.InitContainers[0].Image = "init:2" },
			why:    "initContainers changed",
		},
		{
			name:   "env can't change",
			change: func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Env[3].Value = "y" },
			why:    "container app: env changed",
		},
		{
			name: "each changed field is named",
			change: func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[1].Command, t.Spec.Containers[1].Args = []string{"a"}, []string{"b"}
				image(1, "side:2")(t)
			},
			why: "container side: command, args changed",
		},
		{
			name:   "containers can't change places",
			change: func(t *corev1.PodTemplateSpec) { c := t.Spec.Containers; c[0], c[1] = c[1], c[0] },
			why:    "containers were added, removed or reordered",
		},
		{
			name: "containers can't be added",
			change: func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "c"})
			},
			why: "containers were added, removed or reordered",
		},
		{
			name:   "other fields can't change",
			change: func(t *corev1.PodTemplateSpec) { t.Spec.HostNetwork, t.Spec.NodeName = true, "n1" },
			why:    "nodeName, hostNetwork changed",
		},
		{
			name:   "finalizers are only taken at creation",
			change: func(t *corev1.PodTemplateSpec) { t.Finalizers = []string{"f"} },
			why:    "metadata.finalizers changed",
		},
		{name: "the template's name is nobody's", change: func(t *corev1.PodTemplateSpec) { t.Name = "other" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			from, to := template(), template(tc.change)
			edit, why, ok := Diff(from, to)
			require.Equal(t, tc.why, why)
			require.Equal(t, tc.why == "", ok)
			require.Empty(t, cmp.Diff(tc.want, edit))
			require.Equal(t, len(tc.want.Images) == 0, edit.Quiet())
			require.Empty(t, cmp.Diff(template(), from), "the template stays as it was")
			require.Empty(t, cmp.Diff(template(tc.change), to), "the template stays as it was")
		})
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}, {Name: "injected"}}}}
	_, ok := Edit{Images: map[string]string{"app": "app:2"}}.Fits(pod)
	require.True(t, ok, "containers that others put in don't matter")
	why, ok := Edit{Images: map[string]string{"app": "app:2", "side": "side:2"}}.Fits(pod)
	require.False(t, ok)
	require.Equal(t, "pod has no container side", why)
}

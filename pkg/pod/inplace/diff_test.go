package inplace

import (
	"strings"
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
	t.Spec.InitContainers = []corev1.Container{
		{Name: "init", Image: "init:1"}, {Name: "proxy", Image: "proxy:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
	}
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
		want   Update
		why    string
	}{
		{name: "no update between equal templates", change: func(*corev1.PodTemplateSpec) {}},
		{
			name: "quantities are equal by value",
			change: func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("1000m")
			},
		},
		{name: "an empty list equals a missing one", change: func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Env = []corev1.EnvVar{} }},
		{name: "a changed image", change: image(1, "side:2"), want: Update{Images: map[string]string{"side": "side:2"}}},
		{
			name: "added and removed labels and annotations",
			change: func(t *corev1.PodTemplateSpec) {
				t.Labels = map[string]string{"app": "web", "tier": "one", "new": "two"}
				t.Annotations = map[string]string{"config": "one"}
			},
			want: Update{Labels: map[string]*string{"new": &two}, Annotations: map[string]*string{"note": nil}},
		},
		{
			name:   "a changed annotation that a container reads needs a restart",
			change: func(t *corev1.PodTemplateSpec) { t.Annotations["config"] = "two" },
			want: Update{
				Annotations: map[string]*string{"config": &two}, Env: map[string]string{"app": "annotation config by env CONFIG"},
			},
		},
		{
			name:   "a changed label that a container reads needs a restart",
			change: func(t *corev1.PodTemplateSpec) { t.Labels["tier"] = "two" },
			want:   Update{Labels: map[string]*string{"tier": &two}, Env: map[string]string{"app": "label tier by env TIER"}},
		},
		{
			name:   "a container with a new image reads the new value when it starts",
			change: func(t *corev1.PodTemplateSpec) { t.Annotations["config"] = "two"; image(0, "app:2")(t) },
			want: Update{
				Images: map[string]string{"app": "app:2"}, Annotations: map[string]*string{"config": &two},
				Env: map[string]string{"app": "annotation config by env CONFIG"},
			},
		},
		{
			name:   "removing metadata that a container reads needs no restart",
			change: func(t *corev1.PodTemplateSpec) { delete(t.Annotations, "config") },
			want:   Update{Annotations: map[string]*string{"config": nil}},
		},
		{
			name:   "the version of a sidecar set needs no restart",
			change: func(t *corev1.PodTemplateSpec) { t.Annotations["note"] = "two" },
			want:   Update{Annotations: map[string]*string{"note": &two}},
		},
		{
			name:   "an init container has ended, so its image can't change",
			change: func(t *corev1.PodTemplateSpec) { t.Spec.InitContainers[0].Image = "init:2" },
			why:    "container init: image changed",
		},
		{
			name:   "#1671: a native sidecar runs, so its image changes in place",
			change: func(t *corev1.PodTemplateSpec) { t.Spec.InitContainers[1].Image = "proxy:2" },
			want:   Update{Images: map[string]string{"proxy": "proxy:2"}},
		},
		{
			name: "init containers can't be added",
			change: func(t *corev1.PodTemplateSpec) {
				t.Spec.InitContainers = append(t.Spec.InitContainers, corev1.Container{Name: "c"})
			},
			why: "initContainers were added, removed or reordered",
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
			name:   "containers can't be reordered",
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
			name:   "finalizers are only used at creation",
			change: func(t *corev1.PodTemplateSpec) { t.Finalizers = []string{"f"} },
			why:    "metadata.finalizers changed",
		},
		{name: "the template's name is ignored", change: func(t *corev1.PodTemplateSpec) { t.Name = "other" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			from, to := template(), template(tc.change)
			update, why, ok := Diff(from, to, Options{Env: true})
			require.Equal(t, tc.why, why)
			require.Equal(t, tc.why == "", ok)
			require.Empty(t, cmp.Diff(tc.want, update))
			require.Equal(t, len(tc.want.Images)+len(tc.want.Env) == 0, update.MetadataOnly())
			require.Empty(t, cmp.Diff(template(), from), "the template is not modified")
			require.Empty(t, cmp.Diff(template(tc.change), to), "the template is not modified")
		})
	}
}

func TestDiffOfEnvWithoutTheGate(t *testing.T) {
	t.Parallel()
	two := "two"
	update, why, ok := Diff(template(), template(func(t *corev1.PodTemplateSpec) { t.Annotations["config"] = "two" }), Options{})
	require.True(t, ok, why)
	require.Empty(t, cmp.Diff(Update{Annotations: map[string]*string{"config": &two}}, update))
	require.True(t, update.MetadataOnly(), "then it is metadata like any other")
}

// list is a list of resources: list("cpu=1 memory=1Gi").
func list(text string) corev1.ResourceList {
	var out corev1.ResourceList
	for item := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(item, "=")
		set(&out, corev1.ResourceName(name), resource.MustParse(value))
	}
	return out
}

func TestDiffOfResources(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// limits and requests of the container before and after.
		limits, requests [2]string
		want             corev1.ResourceRequirements
		why              string
	}{
		{
			name:   "only changed values are part of the update",
			limits: [2]string{"cpu=2 memory=1Gi", "cpu=3 memory=1Gi"}, requests: [2]string{"cpu=1 memory=1Gi", "cpu=1 memory=512Mi"},
			want: corev1.ResourceRequirements{Limits: list("cpu=3"), Requests: list("memory=512Mi")},
		},
		{name: "quantities are equal by value", limits: [2]string{"cpu=1", "cpu=1000m"}, requests: [2]string{"cpu=1", "cpu=1"}},
		{
			name:   "an omitted request follows its limit, as in a pod",
			limits: [2]string{"cpu=1 memory=1Gi", "cpu=2 memory=1Gi"},
			want:   corev1.ResourceRequirements{Limits: list("cpu=2"), Requests: list("cpu=2")},
		},
		{
			name:   "a request that is set to its previous value is not a change",
			limits: [2]string{"cpu=1", "cpu=1"}, requests: [2]string{"", "cpu=1"},
		},
		{
			name:     "a value can't be added",
			requests: [2]string{"cpu=1", "cpu=1 memory=1Gi"},
			why:      "container app: resources.requests.memory was added, which isn't possible in a running container",
		},
		{
			name:   "a value can't be removed",
			limits: [2]string{"cpu=2 memory=1Gi", "cpu=2"}, requests: [2]string{"cpu=1 memory=1", "cpu=1 memory=1"},
			why: "container app: resources.limits.memory was removed, which isn't possible in a running container",
		},
		{
			name:     "other resources can't be resized",
			requests: [2]string{"cpu=1 ephemeral-storage=1Gi", "cpu=2 ephemeral-storage=2Gi"},
			why:      "container app: resources.requests.ephemeral-storage changed, but only cpu and memory can be resized",
		},
		{
			name:   "the QoS class can't change",
			limits: [2]string{"cpu=2 memory=1Gi", "cpu=1 memory=1Gi"}, requests: [2]string{"cpu=1 memory=1Gi", "cpu=1 memory=1Gi"},
			why: "the QoS class of a running pod can't change from Burstable to Guaranteed",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			made := func(i int) *corev1.PodTemplateSpec {
				out := &corev1.PodTemplateSpec{}
				out.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
					Limits: list(tc.limits[i]), Requests: list(tc.requests[i]),
				}}}
				return out
			}
			update, why, ok := Diff(made(0), made(1), Options{Resources: true})
			require.Equal(t, tc.why, why)
			require.Equal(t, tc.why == "", ok)
			require.Empty(t, cmp.Diff(tc.want, update.Resources["app"]))
			_, why, ok = Diff(made(0), made(1), Options{})
			same := len(tc.want.Limits)+len(tc.want.Requests) == 0 && tc.why == ""
			require.Equal(t, same && tc.requests[0] == tc.requests[1], ok, "without the gate, any change of resources is refused: %s", why)
		})
	}
}

func TestRestarts(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", ResizePolicy: []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
	}}}}}
	resizes := func(r corev1.ResourceRequirements) Update {
		return Update{Resources: map[string]corev1.ResourceRequirements{"app": r}}
	}
	for _, tc := range []struct {
		name   string
		update Update
		want   bool
	}{
		{"metadata restarts nothing", Update{Labels: map[string]*string{"a": nil}}, false},
		{"a new image restarts its container", Update{Images: map[string]string{"app": "app:2"}}, true},
		{"env is only read at a start", Update{Env: map[string]string{"app": "label a by env A"}}, true},
		{"a resize restarts nothing by itself", resizes(corev1.ResourceRequirements{Limits: list("cpu=1")}), false},
		{"a resize restarts a container whose policy requires it", resizes(corev1.ResourceRequirements{Requests: list("memory=1Gi")}), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.update.Restarts(pod))
		})
	}
}

func TestCanApply(t *testing.T) {
	t.Parallel()
	pod := func(fs ...func(*corev1.Pod)) *corev1.Pod {
		out := &corev1.Pod{Spec: corev1.PodSpec{
			NodeName: "n1",
			Containers: []corev1.Container{
				{Name: "app", Resources: corev1.ResourceRequirements{Limits: list("cpu=2 memory=1Gi"), Requests: list("cpu=1 memory=1Gi")}},
				{Name: "injected"},
			},
		}}
		for _, f := range fs {
			f(out)
		}
		return out
	}
	alone := func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] }
	env := Update{Env: map[string]string{"app": "label tier by env TIER"}}
	guaranteed := Update{Resources: map[string]corev1.ResourceRequirements{"app": {Limits: list("cpu=1")}}}
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		update Update
		daemon bool
		why    string
	}{
		{name: "#1683: injected containers are ignored", pod: pod(), update: Update{Images: map[string]string{"app": "app:2"}}},
		{
			name: "a pod that lacks a container can't be updated", pod: pod(), update: Update{Images: map[string]string{"side": "side:2"}},
			why: "pod has no container side",
		},
		{
			name: "B 29: without a node daemon a container can't be restarted for its env", pod: pod(), update: env,
			why: "container app reads label tier by env TIER, and its node has no daemon that could restart it",
		},
		{name: "a node daemon restarts it", pod: pod(), update: env, daemon: true},
		{
			name: "a new image restarts it without a daemon", pod: pod(),
			update: Update{Env: env.Env, Images: map[string]string{"app": "app:2"}},
		},
		{
			name: "unless somebody has already written it to the pod", pod: pod(func(p *corev1.Pod) {
				p.Spec.Containers[0].Image, p.Spec.Containers[0].Env = "app:2", []corev1.EnvVar{reads("TIER", "metadata.labels['tier']")}
			}),
			update: Update{Env: env.Env, Images: map[string]string{"app": "app:2"}, Labels: map[string]*string{"tier": new("two")}},
			why:    "container app reads label tier by env TIER, and its node has no daemon that could restart it",
		},
		{
			name: "but not a container that the kubelet wouldn't start again", update: env, daemon: true,
			pod: pod(func(p *corev1.Pod) { p.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyNever) }),
			why: "container app reads label tier by env TIER, but policy Never doesn't allow its restart",
		},
		{
			name: "nor is a container restarted on request", pod: pod(), update: Update{Restart: map[string]bool{"app": true}},
			why: "container app is to be restarted, and its node has no daemon that could restart it",
		},
		{name: "a node daemon restarts it", pod: pod(), update: Update{Restart: map[string]bool{"app": true}}, daemon: true},
		{
			name: "a new image is restarted by the kubelet that has seen the old one", pod: pod(func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 2, 2 }),
			update: Update{Restart: map[string]bool{"app": true}, Images: map[string]string{"app": "app:2"}},
		},
		{
			name: "but not another container", pod: pod(func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 2, 1 }),
			update: Update{Restart: map[string]bool{"app": true}, Images: map[string]string{"app": "app:2"}},
			why:    "container app is to be restarted, and its node has no daemon that could restart it",
		},
		{name: "a pod without a node has not started yet", pod: pod(func(p *corev1.Pod) { p.Spec.NodeName = "" }), update: env},
		{
			name: "the QoS class of the pod itself counts", pod: pod(alone), update: guaranteed,
			why: "the QoS class of a running pod can't change from Burstable to Guaranteed",
		},
		{name: "#1683: an injected container may determine the QoS class", pod: pod(), update: guaranteed},
		{
			name: "Windows containers can't be resized", update: guaranteed,
			pod: pod(func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }),
			why: "Windows containers can't be resized",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			why, ok := tc.update.CanApply(tc.pod, tc.daemon)
			require.Equal(t, tc.why, why)
			require.Equal(t, tc.why == "", ok)
		})
	}
}

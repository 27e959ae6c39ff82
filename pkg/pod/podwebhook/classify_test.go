package podwebhook

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func running() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "proxy", Image: "proxy:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
			Containers: []corev1.Container{{
				Name: "app", Image: "app:1", Resources: corev1.ResourceRequirements{
					Requests: resources("100m", "1Gi"), Limits: resources("200m", "2Gi"),
				},
				ResizePolicy: []corev1.ContainerResizePolicy{
					{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
					{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
				},
			}},
		},
	}
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func TestOperationOf(t *testing.T) {
	t.Parallel()
	app := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
	}
	requests := func(name corev1.ResourceName, q string) func(*corev1.Pod) {
		return app(func(c *corev1.Container) { c.Resources.Requests[name] = resource.MustParse(q) })
	}
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	label := func(p *corev1.Pod) { p.Labels["unavailable-pod.kruise.io/tool"] = "" }
	for _, tc := range []struct {
		name            string
		prepare, change func(*corev1.Pod)
		want            Operation
	}{
		{name: "nothing", change: func(*corev1.Pod) {}},
		{name: "a status", change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }},
		{name: "labels and annotations", change: func(p *corev1.Pod) { p.Labels["a"] = "b"; p.Annotations = map[string]string{"a": "b"} }},
		{name: "the same quantity in another form", change: requests(corev1.ResourceCPU, "0.1")},
		{name: "an empty list instead of a missing one", change: func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{} }},
		{name: "an image", change: app(func(c *corev1.Container) { c.Image = "app:2" }), want: Update},
		{name: "an image of a native sidecar", change: func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "proxy:2" }, want: Update},
		{name: "a toleration", change: func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }, want: Update},
		{name: "a label that marks it as unavailable", change: label, want: Update},
		{name: "such a label with another value", prepare: label, change: func(p *corev1.Pod) { p.Labels["unavailable-pod.kruise.io/tool"] = "x" }},
		{name: "a removed label of that kind", prepare: label, change: func(p *corev1.Pod) { delete(p.Labels, "unavailable-pod.kruise.io/tool") }},
		{name: "an image of a terminating pod", prepare: deleted, change: app(func(c *corev1.Container) { c.Image = "app:2" })},
		{name: "cpu that needs no restart", change: requests(corev1.ResourceCPU, "150m"), want: Resize},
		{name: "a new cpu limit", change: app(func(c *corev1.Container) { delete(c.Resources.Limits, corev1.ResourceCPU) }), want: Resize},
		{name: "memory that restarts the container", change: requests(corev1.ResourceMemory, "2Gi"), want: Update},
		{name: "both", change: func(p *corev1.Pod) {
			requests(corev1.ResourceCPU, "150m")(p)
			requests(corev1.ResourceMemory, "2Gi")(p)
		}, want: Update},
		{name: "memory without a policy, which defaults to no restart", prepare: app(func(c *corev1.Container) { c.ResizePolicy = nil }), change: requests(corev1.ResourceMemory, "2Gi"), want: Resize},
		{name: "cpu and an image", change: func(p *corev1.Pod) {
			requests(corev1.ResourceCPU, "150m")(p)
			p.Spec.Containers[0].Image = "app:2"
		}, want: Update},
		{name: "another resource", change: requests("example.com/gpu", "1"), want: Update},
		{name: "another QoS class", prepare: func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers[0].ResizePolicy = nil, nil
		}, change: app(func(c *corev1.Container) { c.Resources.Requests = c.Resources.Limits }), want: Update},
		{name: "one container fewer", change: func(p *corev1.Pod) { p.Spec.InitContainers = nil }, want: Update},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			old := running()
			if tc.prepare != nil {
				tc.prepare(old)
			}
			next := old.DeepCopy()
			tc.change(next)
			require.Equal(t, tc.want, OperationOf(old, next))
		})
	}
}

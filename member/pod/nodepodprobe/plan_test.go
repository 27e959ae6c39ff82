package nodepodprobe

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/testkit"
)

// runningPod returns a pod that is probed.
func runningPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := probedPod(name, "")
	pod.Spec.NodeName = "node-1"
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "admin", ContainerPort: 8081}}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func node(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node", Labels: labels}}
}

func entry(pod *corev1.Pod, markers ...*appsv1alpha1.PodProbeMarker) appsv1alpha1.PodProbe {
	out := appsv1alpha1.PodProbe{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, IP: pod.Status.PodIP}
	for _, m := range markers {
		for _, p := range m.Spec.Probes {
			out.Probes = append(out.Probes, appsv1alpha1.ContainerProbe{
				Name: podprobe.Name(m.Name, p.Name), ContainerName: p.ContainerName, Probe: p.Probe,
			})
		}
	}
	return out
}

func nodePodProbe(entries ...appsv1alpha1.PodProbe) *appsv1alpha1.NodePodProbe {
	return &appsv1alpha1.NodePodProbe{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "probe"}, Spec: appsv1alpha1.NodePodProbeSpec{PodProbes: entries},
	}
}

func observedWith(n *corev1.Node, probe *appsv1alpha1.NodePodProbe, markers []*appsv1alpha1.PodProbeMarker, pods ...*corev1.Pod) observed {
	list := make([]appsv1alpha1.PodProbeMarker, 0, len(markers))
	for _, m := range markers {
		list = append(list, *m)
	}
	return observed{node: n, probe: probe, pods: pods, markers: map[string]podprobe.Markers{testkit.Namespace: podprobe.MarkersOf(list)}}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	m := idleMarker("idle")
	one := []*appsv1alpha1.PodProbeMarker{m}
	later := idleMarker("late", func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Probes[0].Name = "a" })
	none := idleMarker("idle", func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Probes[0].ContainerName = "none" })
	deleted := idleMarker("idle", func(m *appsv1alpha1.PodProbeMarker) { m.DeletionTimestamp = &metav1.Time{} })
	going := nodePodProbe(entry(runningPod("a"), m))
	going.DeletionTimestamp = &metav1.Time{}
	another := entry(runningPod("a"), m)
	another.UID = "of-before"
	for _, tc := range []struct {
		name string
		in   observed
		want planned
	}{
		{name: "a node without probes gets no object", in: observedWith(node(nil), nil, nil, runningPod("a"))},
		{
			name: "the first probe creates the object", in: observedWith(node(nil), nil, one, runningPod("b"), runningPod("a")),
			want: planned{step: stepCreate, reason: reasonProbes, podProbes: []appsv1alpha1.PodProbe{entry(runningPod("a"), m), entry(runningPod("b"), m)}},
		},
		{name: "an up-to-date object is not written", in: observedWith(node(nil), nodePodProbe(entry(runningPod("b"), m), entry(runningPod("a"), m)), one, runningPod("a"), runningPod("b"))},
		{
			name: "a pod has the probes of all markers, sorted by name",
			in:   observedWith(node(nil), nodePodProbe(entry(runningPod("a"), m)), []*appsv1alpha1.PodProbeMarker{later, m}, runningPod("a")),
			want: planned{step: stepWrite, reason: reasonProbes, podProbes: []appsv1alpha1.PodProbe{entry(runningPod("a"), m, later)}},
		},
		{
			name: "a pod that waits for init containers is not probed",
			in:   observedWith(node(nil), nil, one, runningPod("a", func(p *corev1.Pod) { p.Status.Conditions = nil })),
		},
		{name: "a pod without an address is not probed", in: observedWith(node(nil), nil, one, runningPod("a", func(p *corev1.Pod) { p.Status.PodIP = "" }))},
		{name: "a pod that has ended is not probed", in: observedWith(node(nil), nil, one, runningPod("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))},
		{
			name: "a pod that is being deleted is no longer probed, without asking the apiserver",
			in:   observedWith(node(nil), nodePodProbe(entry(runningPod("a"), m)), one, runningPod("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })),
			want: planned{step: stepWrite, reason: reasonProbes},
		},
		{
			name: "a marker that is being deleted asks for nothing", in: observedWith(node(nil), nodePodProbe(entry(runningPod("a"), m)), []*appsv1alpha1.PodProbeMarker{deleted}, runningPod("a")),
			want: planned{step: stepWrite, reason: reasonProbes, markers: []types.NamespacedName{{Namespace: testkit.Namespace, Name: "idle"}}},
		},
		{
			name: "a missing pod has to be confirmed", in: observedWith(node(nil), nodePodProbe(another, entry(runningPod("a"), m)), one, runningPod("a")),
			want: planned{
				step: stepWrite, reason: reasonProbes, podProbes: []appsv1alpha1.PodProbe{entry(runningPod("a"), m)}, pods: []appsv1alpha1.PodProbe{another},
			},
		},
		{
			name: "a pod without the container is left out",
			in:   observedWith(node(nil), nil, []*appsv1alpha1.PodProbeMarker{none}, runningPod("a")),
			want: planned{left: []string{reasonContainer}},
		},
		{name: "a virtual node is left to its agent", in: observedWith(node(map[string]string{"type": "virtual-kubelet"}), nil, one, runningPod("a"))},
		{name: "nothing is created without a node", in: observedWith(nil, nil, one, runningPod("a"))},
		{name: "the object is deleted with its node", in: observedWith(nil, nodePodProbe(), one), want: planned{step: stepRemove, reason: reasonNode}},
		{name: "an object that is being deleted is left alone", in: observedWith(node(nil), going, nil, runningPod("a"))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, plan(tc.in))
		})
	}
}

func TestNamedPortsBecomeNumbers(t *testing.T) {
	t.Parallel()
	with := func(h corev1.ProbeHandler) []*appsv1alpha1.PodProbeMarker {
		return []*appsv1alpha1.PodProbeMarker{idleMarker("idle", func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Probes[0].Probe.ProbeHandler = h })}
	}
	get := func(port intstr.IntOrString) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: port}}
	}
	connect := func(port intstr.IntOrString) corev1.ProbeHandler {
		return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}
	}
	for _, newHandler := range []func(intstr.IntOrString) corev1.ProbeHandler{get, connect} {
		markers := with(newHandler(intstr.FromString("admin")))
		p := plan(observedWith(node(nil), nil, markers, runningPod("a")))
		require.Equal(t, newHandler(intstr.FromInt32(8081)), p.podProbes[0].Probes[0].Probe.ProbeHandler)
		require.Equal(t, newHandler(intstr.FromString("admin")), markers[0].Spec.Probes[0].Probe.ProbeHandler, "the cached marker is not modified")
		p = plan(observedWith(node(nil), nil, with(newHandler(intstr.FromString("none"))), runningPod("a")))
		require.Equal(t, planned{left: []string{reasonPort}}, p)
		p = plan(observedWith(node(nil), nil, with(newHandler(intstr.FromInt32(1))), runningPod("a")))
		require.Equal(t, newHandler(intstr.FromInt32(1)), p.podProbes[0].Probes[0].Probe.ProbeHandler)
	}
}

func TestAnInitContainerThatKeepsRunningIsProbed(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	pod := runningPod("a", func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "once"}, {Name: "proxy", RestartPolicy: &always}}
	})
	require.Nil(t, inplace.Container(&pod.Spec, "once"))
	require.NotNil(t, inplace.Container(&pod.Spec, "proxy"))
}

func TestWhatChangesAPlan(t *testing.T) {
	t.Parallel()
	current := runningPod("a")
	for _, change := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.UID = "another" },
		func(p *corev1.Pod) { p.Labels = map[string]string{"game": "no"} },
		func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.2" },
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse },
	} {
		next := current.DeepCopy()
		change(next)
		require.True(t, podChanged(current, next))
	}
	same := current.DeepCopy()
	same.Annotations = map[string]string{"seen": "yes"}
	same.Status.Conditions = append(same.Status.Conditions, corev1.PodCondition{Type: idle})
	require.False(t, podChanged(current, same))
	require.True(t, nodeChanged(node(nil), node(map[string]string{"type": "virtual-kubelet"})))
	require.False(t, nodeChanged(node(nil), node(map[string]string{"zone": "a"})))

	m := idleMarker("idle")
	require.True(t, (&Reconciler{}).isProbed(current, podprobe.MarkersOf([]appsv1alpha1.PodProbeMarker{*m}), nil))
	require.False(t, (&Reconciler{}).isProbed(current, nil, nodePodProbe()))
	require.True(t, (&Reconciler{}).isProbed(current, nil, nodePodProbe(entry(current, m))), "a probed pod that is no longer selected concerns its node")
	elsewhere := nodePodProbe(entry(runningPod("b"), m))
	elsewhere.Name = "node-2"
	require.Equal(t, []string{"node-1", "node-2"}, nodesOf(m, []*appsv1alpha1.NodePodProbe{elsewhere}, []*corev1.Pod{current}))
	require.Equal(t, []string{testkit.Namespace + "/idle"}, markersOf(elsewhere))
}

// Liveness probes run for containers that have started up. Their names are derived from the current run of the container.
func TestLivenessProbes(t *testing.T) {
	t.Parallel()
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		pod := runningPod("a", func(p *corev1.Pod) {
			p.Labels = nil
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: "1", Controller: new(true)}}
			p.Annotations[keys.ContainerProbeContext] = `[{"name":"app","livenessProbe":{"httpGet":{"path":"/","port":"admin"},"failureThreshold":2}}]`
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "app", ContainerID: "containerd://1", Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}
		})
		for _, c := range change {
			c(pod)
		}
		return pod
	}
	planFor := func(pod *corev1.Pod, n *appsv1alpha1.NodePodProbe) planned {
		o := observedWith(node(nil), n, nil, pod)
		o.liveness = true
		return plan(o)
	}
	p := planFor(pod(), nil)
	require.Equal(t, stepCreate, p.step)
	require.Equal(t, []appsv1alpha1.ContainerProbe{{
		Name: "EnhancedLivenessProbe#app/1", ContainerName: "app", Probe: corev1.Probe{
			ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8081)}},
			TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 2,
		},
	}}, p.podProbes[0].Probes)
	n := nodePodProbe(p.podProbes...)
	require.Empty(t, planFor(pod(), n).step)
	require.Empty(t, markersOf(n), "a liveness probe belongs to no PodProbeMarker")
	again := planFor(pod(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "containerd://2" }), n)
	require.Equal(t, stepWrite, again.step)
	require.Equal(t, "EnhancedLivenessProbe#app/2", again.podProbes[0].Probes[0].Name)
	require.Empty(t, again.markers, "no object has to be confirmed for it")
	for name, change := range map[string]func(*corev1.Pod){
		"while it starts up":      func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Started = new(false) },
		"while it does not run":   func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} },
		"of another workload":     func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps/v1" },
		"of an unknown container": func(p *corev1.Pod) { p.Spec.Containers[0].Name = "log" },
		"of an unknown port":      func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil },
		"that is not readable":    func(p *corev1.Pod) { p.Annotations[keys.ContainerProbeContext] = "{" },
	} {
		p := planFor(pod(change), n)
		require.Equal(t, stepWrite, p.step, name)
		require.Empty(t, p.podProbes, name)
		require.True(t, podChanged(pod(), pod(change)) || name == "of an unknown container" || name == "of an unknown port", name)
	}
	require.Equal(t, stepWrite, plan(observedWith(node(nil), n, nil, pod())).step, "the gate is off")
	require.True(t, (&Reconciler{Liveness: true}).isProbed(pod(), nil, nil))
	require.False(t, (&Reconciler{}).isProbed(pod(), nil, nil))
}

package launchpriority

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// started returns a pod on a node after the step, with its containers in these states, in list order: "ready", "running", "done", "failed" or
// "" for one that has not started.
func started(p *corev1.Pod, states ...string) *corev1.Pod {
	facts{suffix: "abcde"}.Change(p)
	p.Spec.NodeName = "node-1"
	setStates(p, states...)
	return p
}

func setStates(p *corev1.Pod, states ...string) {
	p.Status.ContainerStatuses = nil
	for i, state := range states {
		s := corev1.ContainerStatus{Name: p.Spec.Containers[i].Name}
		switch state {
		case "ready":
			s.Ready, s.State.Running = true, &corev1.ContainerStateRunning{}
		case "running":
			s.State.Running = &corev1.ContainerStateRunning{}
		case "done", "failed":
			s.State.Terminated = &corev1.ContainerStateTerminated{}
			if state == "failed" {
				s.State.Terminated.ExitCode = 1
			}
		default:
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError"}
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
}

func reaching(p *corev1.Pod, priority string) *corev1.Pod {
	p.Annotations[keys.ContainerLaunchPriorityReached] = priority
	return p
}

// three returns a pod that starts proxy, then app, then log.
func three() *corev1.Pod {
	return podOf(container("app", ""), container("proxy", "10"), container("log", "-1"))
}

// openKruisePod prepares a pod as OpenKruise does: all of its containers wait, and its ConfigMap has its name.
func openKruisePod(p *corev1.Pod) *corev1.Pod {
	for i, priority := range []string{"p_0", "p_10", "p_-1"} {
		p.Spec.Containers[i].Env = []corev1.EnvVar{{Name: keys.EnvContainerBarrier, ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "web-0-barrier"}, Key: priority},
		}}}
	}
	p.Spec.NodeName = "node-1"
	return p
}

func TestPlan(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	const name = "web-0-abcde-barrier"
	never := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		return p
	}
	for _, tt := range []struct {
		name     string
		pod      *corev1.Pod
		ago      time.Duration // How long it has waited.
		reported bool
		want     planned
	}{
		{name: "nothing before the pod has a node", pod: func() *corev1.Pod {
			p := started(three())
			p.Spec.NodeName = ""
			return p
		}()},
		{name: "the first containers need no key", pod: started(three(), "", "running", ""), want: planned{waits: "proxy", recheck: patience}},
		{name: "when the first containers are ready, the next ones may start", pod: started(three(), "", "ready", ""), want: planned{
			configMap: name, keys: []string{"p_0"}, reached: "0",
		}},
		{name: "the last containers wait for the next ones", pod: reaching(started(three(), "running", "ready", ""), "0"), want: planned{waits: "app", recheck: patience}},
		{name: "the last containers wait for first ones that are no longer ready", pod: reaching(started(three(), "ready", "running", ""), "0"), want: planned{
			waits: "proxy", recheck: patience,
		}},
		{name: "the pod is complete when the last containers may start", pod: reaching(started(three(), "ready", "ready", ""), "0"), want: planned{
			configMap: name, keys: []string{"p_0", "p_-1"}, reached: "-1", done: true,
		}},
		{name: "no container waits for the last ones", pod: reaching(started(three(), "ready", "ready", "running"), "-1")},
		{name: "an invalid annotation is ignored", pod: reaching(started(three(), "", "ready", ""), "soon"), want: planned{
			configMap: name, keys: []string{"p_0"}, reached: "0",
		}},
		{name: "containers of one priority are waited for together", pod: started(podOf(container("a", "1"), container("b", "1"), container("c", "")), "ready", "running", ""), want: planned{
			waits: "b", recheck: patience,
		}},
		{name: "a completed container that won't be restarted lets others start", pod: started(never(three()), "", "done", ""), want: planned{
			configMap: name, keys: []string{"p_0"}, reached: "0",
		}},
		{name: "a failed container lets no others start", pod: started(never(three()), "", "failed", ""), want: planned{waits: "proxy", recheck: patience}},
		{name: "a completed container that will be restarted lets no others start", pod: started(three(), "", "done", ""), want: planned{waits: "proxy", recheck: patience}},
		{name: "a wait of five minutes is reported", pod: started(three(), "", "running", ""), ago: patience, want: planned{
			waits: "proxy", stalled: "container proxy is not ready for 5m0s: because of launch priorities, app and log wait for that",
		}},
		{name: "a shorter wait is not reported", pod: started(three(), "", "running", ""), ago: patience - time.Second, want: planned{waits: "proxy", recheck: time.Second}},
		{name: "a long wait is reported only once", pod: started(three(), "", "running", ""), ago: time.Hour, reported: true, want: planned{waits: "proxy"}},
		{name: "several containers are reported together", pod: started(podOf(container("a", "1"), container("b", "1"), container("c", "")), "running", "running", ""), ago: patience, want: planned{
			waits: "a,b", stalled: "containers a and b are not ready for 5m0s: because of launch priorities, c waits for that",
		}},
		{name: "all containers of a pod of OpenKruise wait", pod: openKruisePod(three()), want: planned{configMap: "web-0-barrier", keys: []string{"p_10"}, reached: "10"}},
		{name: "a pod of OpenKruise continues where its manager stopped", pod: func() *corev1.Pod {
			p := openKruisePod(three())
			setStates(p, "running", "ready", "")
			return p
		}(), want: planned{configMap: "web-0-barrier", keys: []string{"p_10"}, reached: "10"}},
		{name: "a foreign key holds back only its container", pod: func() *corev1.Pod {
			p := started(three(), "", "ready", "")
			for i := range p.Spec.Containers[0].Env {
				if p.Spec.Containers[0].Env[i].ValueFrom != nil {
					p.Spec.Containers[0].Env[i].ValueFrom.ConfigMapKeyRef.Key = "mine"
				}
			}
			return p
		}(), want: planned{configMap: name, keys: []string{"p_-1"}, reached: "-1", done: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := tt.pod.DeepCopy()
			require.Equal(t, tt.want, plan(&observed{pod: tt.pod, since: now.Add(-tt.ago), reported: tt.reported}, now))
			require.Equal(t, before, tt.pod)
		})
	}
}

func TestWhichPodsWait(t *testing.T) {
	t.Parallel()
	require.True(t, waiting(started(three())))
	require.False(t, waiting(three()), "no container has a barrier")
	done := started(three())
	done.Annotations[keys.ContainerLaunchPriorityCompleted] = "true"
	require.False(t, waiting(done))
	ended := started(three())
	ended.Status.Phase = corev1.PodFailed
	require.False(t, waiting(ended))
}

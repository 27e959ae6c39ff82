package jobsidecar

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

const (
	mark   = keys.EnvTerminateSidecar
	ignore = keys.EnvTerminateSidecarIgnoreExitCode
	image  = keys.EnvTerminateSidecarByImage
)

func container(name string, env ...string) corev1.Container {
	c := corev1.Container{Name: name}
	for i := 0; i < len(env); i += 2 {
		c.Env = append(c.Env, corev1.EnvVar{Name: env[i], Value: env[i+1]})
	}
	return c
}

func podOf(policy corev1.RestartPolicy, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: policy, Containers: containers}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// exits makes the containers of a pod end with these codes; a container with a negative code is still running.
func exits(pod *corev1.Pod, codes ...int32) *corev1.Pod {
	for i, code := range codes {
		st := corev1.ContainerStatus{Name: pod.Spec.Containers[i].Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		if code >= 0 {
			st.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, st)
	}
	return pod
}

func TestConcerns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"a marked container beside another one", podOf(corev1.RestartPolicyNever, container("app"), container("side", mark, "True")), true},
		{"marked by an image", podOf(corev1.RestartPolicyOnFailure, container("app"), container("side", image, "exit:1")), true},
		{"a pod that is restarted forever", podOf(corev1.RestartPolicyAlways, container("app"), container("side", mark, "true")), false},
		{"a pod without a policy, which is Always", podOf("", container("app"), container("side", mark, "true")), false},
		{"nothing but sidecars", podOf(corev1.RestartPolicyNever, container("side", mark, "true")), false},
		{"another value", podOf(corev1.RestartPolicyNever, container("app"), container("side", mark, "yes")), false},
		{"the last value counts", podOf(corev1.RestartPolicyNever, container("app"), container("side", mark, "true", mark, "false")), false},
		{"an exit code alone doesn't mark a sidecar", podOf(corev1.RestartPolicyNever, container("app"), container("side", ignore, "true")), false},
	} {
		require.Equal(t, tc.want, Concerns(tc.pod), tc.name)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	pod := func(policy corev1.RestartPolicy, codes ...int32) *corev1.Pod {
		return exits(podOf(policy, container("app"), container("more"), container("side", mark, "true", ignore, "TRUE", image, "exit:1")), codes...)
	}
	deleted := pod(corev1.RestartPolicyNever, 0, 0, -1)
	deleted.DeletionTimestamp = &metav1.Time{}
	over := pod(corev1.RestartPolicyNever, 0, 0, -1)
	over.Status.Phase = corev1.PodFailed
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		done  bool
		phase corev1.PodPhase
	}{
		{"one runs", pod(corev1.RestartPolicyNever, 0, -1, -1), false, ""},
		{"one has no status yet", pod(corev1.RestartPolicyNever, 0), false, ""},
		{"both have succeeded", pod(corev1.RestartPolicyNever, 0, 0, -1), true, corev1.PodSucceeded},
		{"one has failed, and is not restarted", pod(corev1.RestartPolicyNever, 1, 0, -1), true, corev1.PodFailed},
		{"one has failed, and is restarted", pod(corev1.RestartPolicyOnFailure, 1, 0, -1), false, ""},
		{"OnFailure, and both have succeeded", pod(corev1.RestartPolicyOnFailure, 0, 0, -1), true, corev1.PodSucceeded},
		{"a pod that is being deleted", deleted, false, ""},
		{"a pod that has ended", over, false, ""},
	} {
		got := Of(tc.pod)
		require.Equal(t, tc.done, got.Done, tc.name)
		if tc.done {
			require.Equal(t, tc.phase, got.Phase, tc.name)
		}
		require.Len(t, got.Sidecars, 1)
		require.Equal(t, "side", got.Sidecars[0].Container.Name)
		require.True(t, got.Sidecars[0].Stopped && got.Sidecars[0].Ignored)
		require.Equal(t, "exit:1", got.Sidecars[0].Image)
	}
}

func TestEndedOfASidecarThatIsRestarted(t *testing.T) {
	t.Parallel()
	st := func(code int32) *corev1.ContainerStatus {
		return &corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	require.True(t, Pod{}.Ended(st(143)))
	require.False(t, Pod{restarts: true}.Ended(st(143)))
	require.True(t, Pod{restarts: true}.Ended(st(0)))
	require.False(t, Pod{}.Ended(nil))
}

//go:build e2e

package real

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// TestAJobEndsWithoutItsSidecars runs two Jobs whose sidecars serve until they are stopped. One sidecar then exits with 0. The other one
// doesn't end within its grace period and is killed, which doesn't count.
func TestAJobEndsWithoutItsSidecars(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	job := func(name string, more ...corev1.EnvVar) {
		t.Helper()
		side := app("side", port+1)
		side.Env = append(side.Env, append(more, corev1.EnvVar{Name: keys.EnvTerminateSidecar, Value: "true"})...)
		pods := template(name, app("app", port), side)
		pods.Spec.RestartPolicy = corev1.RestartPolicyNever
		s.create(env.East, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: pods}})
	}
	job("clean")
	job("killed", corev1.EnvVar{Name: "TESTAPP_STOP_DELAY", Value: "1m"}, corev1.EnvVar{Name: keys.EnvTerminateSidecarIgnoreExitCode, Value: "true"})
	for name, want := range map[string]int32{"clean": 0, "killed": 137} {
		var pod corev1.Pod
		s.until(func(context.Context) string {
			for _, pod = range s.pods(env.East, name) {
				if ready(&pod) {
					return ""
				}
				return brief(&pod)
			}
			return "there is no pod"
		})
		s.post(fmt.Sprintf("http://%s:%d/exit?code=0", pod.Status.PodIP, port))
		s.until(func(ctx context.Context) string {
			job := &batchv1.Job{}
			if err := env.East.Client.Get(ctx, s.key(name), job); err != nil || job.Status.Succeeded != 1 {
				return fmt.Sprintf("Job %s: %+v (%v)", name, job.Status, err)
			}
			if err := env.East.Client.Get(ctx, s.key(pod.Name), &pod); err != nil {
				return err.Error()
			}
			if side := container(&pod, "side"); pod.Status.Phase != corev1.PodSucceeded || side.State.Terminated == nil || side.State.Terminated.ExitCode != want {
				return fmt.Sprintf("%s; sidecar: %+v, not code %d", brief(&pod), side.State.Terminated, want)
			}
			return ""
		})
		require.Equal(t, want != 0, podpatch.Find(&pod, "SidecarTerminated") != nil)
	}
}

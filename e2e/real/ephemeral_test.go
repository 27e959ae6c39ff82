//go:build e2e

package real

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
)

// TestAnEphemeralContainerRunsInOnePodAfterTheOther runs a job for the pods of a CloneSet. Its container serves until it is told to end. It
// succeeds in the first pod, and fails in the second.
func TestAnEphemeralContainerRunsInOnePodAfterTheOther(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(env.East, set("debug", 2, app("app", port)))
	s.awaitRollout(env.East, "debug", 2, 2)
	before := s.pods(env.East, "debug")
	serves := app("dbg", port+1)
	s.create(env.East, &appsv1alpha1.EphemeralJob{
		ObjectMeta: metav1.ObjectMeta{Name: "debug"},
		Spec: appsv1alpha1.EphemeralJobSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "debug"}},
			Template: appsv1alpha1.EphemeralContainerTemplateSpec{EphemeralContainers: []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{
					Name: serves.Name, Image: serves.Image, ImagePullPolicy: serves.ImagePullPolicy, Env: serves.Env,
				},
			}}},
		},
	})
	for code := range 2 {
		var at corev1.Pod
		s.until(func(ctx context.Context) string {
			runs := 0
			for _, pod := range s.pods(env.East, "debug") {
				if all := pod.Status.EphemeralContainerStatuses; len(all) == 1 && all[0].State.Running != nil {
					at, runs = pod, runs+1
				}
			}
			if runs != 1 { // Parallelism is 1.
				return fmt.Sprintf("%d ephemeral containers run", runs)
			}
			if _, err := fetch(ctx, fmt.Sprintf("http://%s:%d/healthz", at.Status.PodIP, port+1)); err != nil {
				return err.Error()
			}
			return ""
		})
		s.post(fmt.Sprintf("http://%s:%d/exit?code=%d", at.Status.PodIP, port+1, code))
		s.until(func(ctx context.Context) string {
			if err := env.East.Client.Get(ctx, s.key(at.Name), &at); err != nil {
				return err.Error()
			}
			if end := at.Status.EphemeralContainerStatuses[0].State.Terminated; end == nil || int(end.ExitCode) != code {
				return fmt.Sprintf("the container in pod %s has not ended with %d: %+v", at.Name, code, end)
			}
			return ""
		})
	}
	s.until(func(ctx context.Context) string {
		job := &appsv1alpha1.EphemeralJob{}
		if err := env.East.Client.Get(ctx, s.key("debug"), job); err != nil {
			return err.Error()
		}
		if st := job.Status; st.Phase != appsv1alpha1.EphemeralJobFailed || st.Matches != 2 || st.Succeeded != 1 || st.Failed != 1 {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
	for name, pod := range s.pods(env.East, "debug") {
		old, ok := before[name]
		require.True(t, ok, name)
		require.Equal(t, old.UID, pod.UID)
		require.Zero(t, container(&pod, "app").RestartCount)
	}
}

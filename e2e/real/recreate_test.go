//go:build e2e

package real

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// TestOneOfThreeContainersIsRecreated restarts one of three containers, while the others continue. Then two concurrent requests restart the
// other two, one after the other.
func TestOneOfThreeContainersIsRecreated(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pods := template("again", app("a", port), app("b", port+1), app("c", port+2))
	s.create(env.East, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "again", Labels: pods.Labels}, Spec: pods.Spec})
	pod := &corev1.Pod{}
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, s.key("again"), pod); err != nil || !ready(pod) {
			return fmt.Sprintf("%s (%v)", brief(pod), err)
		}
		return ""
	})
	ids := func(p *corev1.Pod) map[string]string {
		out := map[string]string{}
		for _, st := range p.Status.ContainerStatuses {
			out[st.Name] = fmt.Sprintf("%s since %v, %d restarts", st.ContainerID, st.State.Running, st.RestartCount)
		}
		return out
	}
	before := ids(pod)
	ask := func(name string) {
		t.Helper()
		s.create(env.East, &appsv1beta1.ContainerRecreateRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1beta1.ContainerRecreateRequestSpec{
				PodName: pod.Name, Containers: []appsv1beta1.ContainerRecreateRequestContainer{{Name: name}},
			},
		})
	}
	completed := func(name string) *appsv1beta1.ContainerRecreateRequest {
		t.Helper()
		r := &appsv1beta1.ContainerRecreateRequest{}
		s.until(func(ctx context.Context) string {
			if err := env.East.Client.Get(ctx, s.key(name), r); err != nil || r.Status.Phase != appsv1beta1.RecreateCompleted {
				return fmt.Sprintf("ContainerRecreateRequest %s: %+v (%v)", name, r.Status, err)
			}
			return ""
		})
		require.Equal(t, []appsv1beta1.ContainerRecreateRequestState{
			{Name: name, Phase: appsv1beta1.RecreateSucceeded, IsKilled: true},
		}, r.Status.ContainerRecreateStates)
		require.Empty(t, r.Status.Message)
		return r
	}
	restarts := func(a, b, c int32) {
		t.Helper()
		require.NoError(t, env.East.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		for name, want := range map[string]int32{"a": a, "b": b, "c": c} {
			require.Equal(t, want, container(pod, name).RestartCount, name)
		}
	}
	uid := pod.UID
	ask("b")
	completed("b")
	restarts(0, 1, 0)
	after := ids(pod)
	require.Equal(t, before["a"], after["a"])
	require.Equal(t, before["c"], after["c"])
	require.NotEqual(t, before["b"], after["b"])
	require.Equal(t, uid, pod.UID)

	ask("a")
	ask("c")
	first, second := completed("a"), completed("c")
	restarts(1, 1, 1)
	require.Equal(t, after["b"], ids(pod)["b"])
	require.False(t, second.Status.CompletionTime.Before(first.Status.CompletionTime), "one after the other")
}

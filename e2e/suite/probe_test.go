//go:build e2e

package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// TestPodProbeMarkerMarksPods writes the results in place of a node daemon: simulated nodes have none.
func TestPodProbeMarkerMarksPods(t *testing.T) {
	s := parallel(t)
	c := env.East.Client
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Labels = s.namespace, "game", map[string]string{"app": "game"}
	pod.Spec.Containers = []corev1.Container{{Name: "server", Image: "game:1"}}
	require.NoError(t, c.Create(t.Context(), pod))
	s.apply(env.East, "podprobemarker.yaml")

	n := &appsv1alpha1.NodePodProbe{}
	probed := func(ctx context.Context) string {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		if err := c.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, n); err != nil {
			return err.Error()
		}
		if podprobe.Find(n, pod.UID) == nil {
			return "node " + n.Name + " does not probe the pod"
		}
		return ""
	}
	for _, tc := range []struct {
		state  appsv1alpha1.ProbeState
		status corev1.ConditionStatus
		label  string
	}{{appsv1alpha1.ProbeSucceeded, corev1.ConditionTrue, "true"}, {appsv1alpha1.ProbeFailed, corev1.ConditionFalse, "false"}} {
		s.until(probed)
		next := n.DeepCopy()
		next.Status, _ = podprobe.Report(n, map[podprobe.Key]podprobe.Result{
			{Pod: pod.UID, Name: podprobe.Name("idle", "idle")}: {State: tc.state, At: clock.RealClock{}.Now()},
		})
		require.NoError(t, c.Status().Patch(t.Context(), next, client.MergeFrom(n)))
		s.until(func(ctx context.Context) string {
			if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err.Error()
			}
			if condition := podpatch.Find(pod, "example.com/idle"); condition == nil || condition.Status != tc.status || pod.Labels["idle"] != tc.label {
				return fmt.Sprintf("%s: condition %v, labels %v", tc.state, condition, pod.Labels)
			}
			return ""
		})
	}
	m := &appsv1alpha1.PodProbeMarker{}
	m.Namespace, m.Name = s.namespace, "idle"
	require.NoError(t, c.Delete(t.Context(), m))
	s.until(func(ctx context.Context) string {
		if err := c.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err.Error()
		}
		if podprobe.Find(n, pod.UID) != nil {
			return "the pod is still probed"
		}
		return ""
	})
}

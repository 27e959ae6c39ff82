//go:build e2e

package real

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// TestContainersThatFailTheirLivenessProbeAreRestartedOneAtATime makes the probes of three pods fail at once. The pods are always ready,
// except during their restarts. The kubelet has no liveness probe, and restarts nothing by itself.
func TestContainersThatFailTheirLivenessProbeAreRestartedOneAtATime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	web := set("alive", 3, app("app", port))
	web.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
	web.Spec.Template.Annotations = map[string]string{keys.EnhancedLiveness: "true"}
	web.Spec.Template.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{
			Command: []string{"/testapp", "get", "http://127.0.0.1:" + strconv.Itoa(port) + "/readyz"},
		}},
		PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 2,
	}
	s.create(env.East, web)
	s.awaitRollout(env.East, "alive", 3, 3)
	before := s.pods(env.East, "alive")
	require.Len(t, before, 3)
	for name, pod := range before {
		require.Nil(t, pod.Spec.Containers[0].LivenessProbe, name)
		require.Contains(t, pod.Annotations[keys.ContainerProbeContext], `"name":"app"`)
	}
	for _, pod := range before {
		s.post(fmt.Sprintf("http://%s:%d/ready?is=no", pod.Status.PodIP, port))
	}
	most := 0
	s.until(func(context.Context) string {
		out, restarted := 0, 0
		for _, pod := range s.pods(env.East, "alive") {
			if status := container(&pod, "app"); status.RestartCount == 1 && status.Ready {
				restarted++
			} else if !status.Ready {
				out++
			}
		}
		most = max(most, out)
		if restarted < 3 {
			return fmt.Sprintf("%d pods were restarted", restarted)
		}
		return ""
	})
	require.LessOrEqual(t, most, 1, "at most one pod may be out of service at a time")

	requests := &appsv1beta1.ContainerRecreateRequestList{}
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.List(ctx, requests, client.InNamespace(s.namespace)); err != nil {
			return err.Error()
		}
		for i := range requests.Items {
			if requests.Items[i].Status.CompletionTime == nil {
				return requests.Items[i].Name + " is not complete"
			}
		}
		return ""
	})
	require.Len(t, requests.Items, 3, "one ContainerRecreateRequest for each container")
	for i := range requests.Items {
		owner := requests.Items[i].OwnerReferences[0]
		require.Equal(t, "Pod", owner.Kind)
		require.Equal(t, before[owner.Name].UID, owner.UID)
	}
	for name, pod := range s.pods(env.East, "alive") {
		require.Equal(t, before[name].UID, pod.UID, "the pod stays")
		require.EqualValues(t, 1, container(&pod, "app").RestartCount, "%s is restarted once", name)
	}
}

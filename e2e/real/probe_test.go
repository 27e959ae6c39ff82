//go:build e2e

package real

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
)

// TestProbesFollowAContainer probes a container with a command, a request, a connection, and a health check that it doesn't serve. The
// container becomes unready, then hangs, and then restarts. In between, the node's daemon is killed. In the end nothing is probed any longer.
func TestProbesFollowAContainer(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pods := template("probed", app("app", port))
	pods.Spec.Containers[0].ReadinessProbe = nil
	pods.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: port}}
	s.create(env.East, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probed", Labels: pods.Labels}, Spec: pods.Spec})
	// On a busy machine an answer may occasionally take seconds: two failures in a row count.
	probe := func(name string, h corev1.ProbeHandler) appsv1alpha1.PodContainerProbe {
		return appsv1alpha1.PodContainerProbe{
			Name: name, ContainerName: "app", PodConditionType: "example.com/" + name,
			Probe: corev1.Probe{ProbeHandler: h, PeriodSeconds: 1, TimeoutSeconds: 4, FailureThreshold: 2},
		}
	}
	url := "http://127.0.0.1:" + strconv.Itoa(port)
	marker := &appsv1alpha1.PodProbeMarker{
		ObjectMeta: metav1.ObjectMeta{Name: "follow"},
		Spec: appsv1alpha1.PodProbeMarkerSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pods.Labels},
			Probes: []appsv1alpha1.PodContainerProbe{
				probe("exec", corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/testapp", "get", url + "/readyz"}}}),
				probe("http", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/version", Port: intstr.FromString("http")}}),
				probe("tcp", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}),
				probe("grpc", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: port, Service: new("")}}),
				probe("missing", corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh"}}}),
			},
		},
	}
	s.create(env.East, marker)
	pod := &corev1.Pod{}
	// states returns the results of the pod's probes by their name in the PodProbeMarker.
	states := func(ctx context.Context) (map[string]appsv1alpha1.ContainerProbeState, error) {
		if err := env.East.Client.Get(ctx, s.key("probed"), pod); err != nil {
			return nil, err
		}
		n := &appsv1alpha1.NodePodProbe{}
		if err := env.East.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, n); err != nil {
			return nil, err
		}
		out := map[string]appsv1alpha1.ContainerProbeState{}
		for _, podStatus := range n.Status.PodProbeStatuses {
			for _, state := range podStatus.ProbeStates {
				if podStatus.UID == pod.UID {
					out[state.Name[len("follow#"):]] = state
				}
			}
		}
		return out, nil
	}
	become := func(want map[string]appsv1alpha1.ProbeState) (results map[string]appsv1alpha1.ContainerProbeState) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			var err error
			if results, err = states(ctx); err != nil {
				return err.Error()
			}
			for name, state := range want {
				if results[name].State != state {
					return fmt.Sprintf("probe %s is %q: %s", name, results[name].State, results[name].Message)
				}
			}
			return ""
		})
		return results
	}
	const succeeded, failed, unknown = appsv1alpha1.ProbeSucceeded, appsv1alpha1.ProbeFailed, appsv1alpha1.ProbeUnknown
	up := map[string]appsv1alpha1.ProbeState{"exec": succeeded, "http": succeeded, "tcp": succeeded, "grpc": failed, "missing": unknown}
	results := become(up)
	require.Equal(t, "1.0\n", results["http"].Message)
	s.until(func(ctx context.Context) string {
		if results, err := states(ctx); err != nil || !strings.HasPrefix(results["missing"].Message, "the probe could not be run: ") {
			return fmt.Sprintf("probe missing says %q (%v)", results["missing"].Message, err)
		}
		return ""
	})
	at := fmt.Sprintf("http://%s:%d", pod.Status.PodIP, port)

	// The daemon continues from its earlier results.
	before := results
	require.NoError(t, killDaemon(t.Context(), env.East, pod.Spec.NodeName))
	s.post(at + "/ready?is=no")
	results = become(map[string]appsv1alpha1.ProbeState{"exec": failed, "http": succeeded, "tcp": succeeded, "grpc": failed, "missing": unknown})
	s.until(func(ctx context.Context) string { // On a busy machine the command may be killed before it has an answer.
		if results, err := states(ctx); err != nil || !strings.Contains(results["exec"].Message, "503") {
			return fmt.Sprintf("probe exec says %q (%v)", results["exec"].Message, err)
		}
		return ""
	})
	for _, name := range []string{"http", "tcp", "grpc"} {
		require.Equal(t, before[name].LastTransitionTime, results[name].LastTransitionTime, "%s did not change in between", name)
	}

	// Connections wait forever.
	s.post(at + "/ready?is=yes")
	become(up)
	s.post(at + "/hang")
	results = become(map[string]appsv1alpha1.ProbeState{"exec": failed, "http": failed, "tcp": succeeded})
	require.Equal(t, "the command did not finish within 4s and was killed", results["exec"].Message)
	require.Equal(t, "no response within 4s", results["http"].Message)
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, s.key("probed"), pod); err != nil {
			return err.Error()
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == "example.com/http" && c.Status == corev1.ConditionFalse && c.Message == "no response within 4s" {
				return ""
			}
		}
		return fmt.Sprintf("conditions of the pod: %v", pod.Status.Conditions)
	})

	// The probes of a restarted container start over.
	require.NoError(t, env.East.KillContainers(t.Context(), pod))
	become(up)
	require.EqualValues(t, 1, container(pod, "app").RestartCount)

	require.NoError(t, env.East.Client.Delete(t.Context(), marker))
	s.until(func(ctx context.Context) string {
		results, err := states(ctx)
		if client.IgnoreNotFound(err) != nil || len(results) > 0 {
			return fmt.Sprintf("there are results: %v (%v)", results, err)
		}
		return ""
	})
}

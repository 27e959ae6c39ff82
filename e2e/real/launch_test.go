//go:build e2e

package real

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// TestContainersStartInTheOrderOfTheirLaunchPriority decides when the proxy is ready. Until then the kubelet starts no other container. Then
// it starts the next one without its usual back-off of ten seconds.
func TestContainersStartInTheOrderOfTheirLaunchPriority(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	priority := func(c *corev1.Container, n string) {
		c.Env = append(c.Env, corev1.EnvVar{Name: keys.EnvContainerPriority, Value: n})
	}
	one, proxy, log := app("app", port), app("proxy", port+1), app("log", port+2)
	priority(&proxy, "10")
	priority(&log, "-1")
	proxy.Env = append(proxy.Env, corev1.EnvVar{Name: "TESTAPP_READY", Value: "no"})
	proxy.ReadinessProbe.HTTPGet.Path = "/readyz"
	s.create(env.East, set("web", 1, one, proxy, log))
	// state waits until exactly these containers have started, and returns the pod.
	state := func(want string) *corev1.Pod {
		t.Helper()
		var found corev1.Pod
		s.until(func(context.Context) string {
			for _, p := range s.pods(env.East, "web") {
				var started []string
				for _, c := range p.Status.ContainerStatuses {
					if c.State.Running != nil {
						started = append(started, c.Name)
					}
				}
				if found = p; strings.Join(started, " ") == want {
					return ""
				}
				return fmt.Sprintf("%s: containers %v have started, not %s", brief(&p), started, want)
			}
			return "there is no pod"
		})
		return &found
	}
	state("proxy")
	require.True(t, pause(t.Context(), 12*time.Second), "the test ended before the kubelet could try again")
	p := state("proxy")
	require.Equal(t, "CreateContainerConfigError", container(p, "app").State.Waiting.Reason)

	s.post(fmt.Sprintf("http://%s:%d/ready?is=yes", p.Status.PodIP, port+1))
	began := time.Now() //nolint:forbidigo // For reading it together with the times of the kubelet.
	p = state("app log proxy")
	t.Logf("all containers have started %s after the first one was made ready", time.Since(began).Round(time.Millisecond)) //nolint:forbidigo // Likewise.
	at := func(name string) metav1.Time { return container(p, name).State.Running.StartedAt }
	require.False(t, at("log").Time.Before(at("app").Time), "log at %s, app at %s", at("log"), at("app"))
	s.until(func(context.Context) string {
		for _, p := range s.pods(env.East, "web") {
			if !ready(&p) || p.Annotations[keys.ContainerLaunchPriorityCompleted] != "true" {
				return brief(&p)
			}
			for _, c := range p.Status.ContainerStatuses {
				if c.RestartCount > 0 {
					return brief(&p)
				}
			}
		}
		return ""
	})
	said, err := env.Plugin(t.Context(), "--kubeconfig="+env.East.Lab.Kubeconfig, "explain", "pod", p.Name, "--namespace="+s.namespace)
	require.NoError(t, err)
	require.Contains(t, said, "ContainerLaunchPriority: ")
}

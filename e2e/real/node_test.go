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
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

func TestStoppedOrKilledNodeIsRestartedWithItsPods(t *testing.T) { //nolint:tparallel // Parallel to each other, but to nothing else.
	whole := newScene(t)
	whole.restore()
	for _, tc := range []struct {
		name string
		in   *fleet.Cluster
		end  func(*lab.Cluster, context.Context, string) error
	}{
		{"shut down gracefully", env.East, (*lab.Cluster).StopNode},
		{"killed", env.West, (*lab.Cluster).KillNode},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			web := set("web", 4, app("app", port))
			// The scheduler prefers to spread pods, but it considers everything that runs in the cluster.
			web.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: web.Spec.Selector,
			}}
			s.create(tc.in, web)
			s.awaitRollout(tc.in, "web", 4, 4)
			before := s.pods(tc.in, "web")
			there := on(before, "node-2")
			require.NotZero(t, there, "pods are spread over the nodes")

			require.NoError(t, tc.end(tc.in.Lab, t.Context(), "node-2"))
			s.until(func(ctx context.Context) string {
				if err := tc.in.Client.Get(ctx, client.ObjectKeyFromObject(web), web); err != nil {
					return err.Error()
				}
				if web.Status.AvailableReplicas != int32(4-there) {
					return fmt.Sprintf("%d pods count as available", web.Status.AvailableReplicas)
				}
				return ""
			})
			// The unavailable pods use up the budget, so an update must not take more.
			change(s, tc.in, web, func(c *appsv1beta1.CloneSet) { image(&c.Spec.Template, imageNew) })
			s.until(func(context.Context) string {
				return s.untouchedBut(tc.in, before, "node-2")
			})

			require.NoError(t, tc.in.Lab.StartNode(t.Context(), "node-2"))
			s.awaitRollout(tc.in, "web", 4, 4)
			after := s.pods(tc.in, "web")
			for name, old := range before {
				require.Equal(t, old.UID, after[name].UID)
			}
		})
	}
}

// on counts the pods on a node.
func on(pods map[string]corev1.Pod, node string) int {
	n := 0
	for _, p := range pods {
		if p.Spec.NodeName == node {
			n++
		}
	}
	return n
}

// untouchedBut waits until the member has observed the new template, and checks that it has changed no ready pod.
func (s *scene) untouchedBut(c *fleet.Cluster, before map[string]corev1.Pod, away string) string {
	s.Helper()
	web := &appsv1beta1.CloneSet{}
	if err := c.Client.Get(s.ctx, s.key("web"), web); err != nil {
		return err.Error()
	}
	if web.Status.ObservedGeneration != web.Generation {
		return "the new template is not observed yet"
	}
	for name, p := range s.pods(c, "web") {
		if p.Spec.NodeName != away {
			require.Equal(s, before[name].Spec.Containers[0].Image, p.Spec.Containers[0].Image, "%s is still ready", name)
		}
	}
	return ""
}

func TestMemberThatIsCutOffFromTheHubRollsOutAndReconnects(t *testing.T) {
	lab.Full(t) // In e2e/suite members continue without the hub, on simulated nodes.
	s := newScene(t)
	s.restore()
	ud := united("web", shares{"east": 4, "west": 2})
	s.create(env.Hub, ud)
	s.awaitSettled("web", shares{"east": 4, "west": 2}, nil)
	before := s.census("web", true)

	// The new image has arrived in east when the network is cut.
	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) { udImage(ud, imageNew) })
	s.until(func(ctx context.Context) string {
		web := &appsv1beta1.UnitedDeployment{}
		if err := env.East.Client.Get(ctx, s.key("web"), web); err != nil {
			return err.Error()
		}
		if got := web.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image; got != imageNew {
			return "east has image " + got
		}
		return ""
	})
	hub, east := lab.Place{Cluster: env.Hub.Lab}, lab.Place{Cluster: env.East.Lab}
	require.NoError(t, lab.Cut(t.Context(), hub, east))
	t.Cleanup(func() { require.NoError(t, lab.Heal(context.WithoutCancel(t.Context()), hub, east)) })
	require.NoError(t, env.AwaitPhase(t.Context(), "east", fleetv1alpha1.ClusterUnreachable))
	s.until(func(context.Context) string {
		for name, p := range s.pods(env.East, "web") {
			if !ready(&p) || container(&p, "app").RestartCount != 1 {
				return name + " is not updated in east"
			}
		}
		return ""
	})
	// Another change, which east can't receive.
	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) {
		udImage(ud, imageNewer)
		*ud.Spec.Replicas = 7
	})
	s.until(func(context.Context) string {
		n := 0
		for _, p := range s.pods(env.West, "web") {
			if ready(&p) && strings.Contains(container(&p, "app").Image, imageNewer) {
				n++
			}
		}
		if n != 3 {
			return fmt.Sprintf("%d pods are updated in west, although the change is not for west", n)
		}
		return ""
	})
	require.Equal(t, map[string]int{"2.0": 4}, s.versions("web", env.East))

	require.NoError(t, lab.Heal(t.Context(), hub, east))
	require.NoError(t, env.AwaitPhase(t.Context(), "east", fleetv1alpha1.ClusterReady))
	s.awaitSettled("web", shares{"east": 4, "west": 3}, nil)
	require.Equal(t, map[string]int{"3.0": 7}, s.versions("web"))
	after := s.census("web", true)
	for pod, what := range before {
		n := "2"
		if strings.HasPrefix(pod, "west/") {
			n = "1" // It may have been updated directly from the first image to the third.
		}
		require.Contains(t, []string{restarted(what, n), restarted(what, "2")}, after[pod])
	}
}

// pause waits. False means that the test is ending.
func pause(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

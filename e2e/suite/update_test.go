//go:build e2e

package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

func TestImageIsUpdatedInPlaceWithAPartitionPerSubset(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 10, in("east", "60%"), in("west", "40%")))
	all := shares{"east": 6, "west": 4}
	s.awaitSettled("web", all, nil)
	before := s.census("web")

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) {
		image(ud, imageNew)
		partitions(ud, map[string]int32{"east": 4, "west": 3})
	})
	s.awaitSettled("web", all, shares{"east": 2, "west": 1})
	require.Equal(t, before.uids(), s.census("web").uids())
	require.Equal(t, 2, s.countUpdated(env.East))
	require.Equal(t, 1, s.countUpdated(env.West))

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { partitions(ud, map[string]int32{"west": 4, "east": 0}) })
	s.awaitSettled("web", all, shares{"east": 6, "west": 1})
	require.Equal(t, 1, s.countUpdated(env.West), "a larger partition reverts nothing")

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { partitions(ud, nil) })
	ud := s.awaitSettled("web", all, nil)
	require.Equal(t, ud.Status.UpdatedRevision, ud.Status.CurrentRevision)
	after := s.census("web")
	require.Equal(t, before.uids(), after.uids(), "the same pods")
	for pod, what := range after {
		require.Contains(t, what, ", 1 restarts", pod)
	}
}

// countUpdated returns how many pods have imageNew both in their spec and in a running container.
func (s *scene) countUpdated(c *fleet.Cluster) int {
	s.Helper()
	n := 0
	for _, p := range s.pods(c, "web") {
		if p.Spec.Containers[0].Image == imageNew && restarts(p) == 1 {
			n++
		}
	}
	return n
}

func TestChangeOfMoreThanAnImageRecreatesPods(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 4, in("east", "2"), in("west", "2")))
	all := shares{"east": 2, "west": 2}
	s.awaitSettled("web", all, nil)
	before := s.census("web")
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Args = []string{"--verbose"}
	})
	s.awaitSettled("web", all, nil)
	for pod := range s.census("web") {
		require.NotContains(t, before, pod)
	}
}

func TestImageThatDoesNotStartStopsTheRolloutInItsBounds(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 8, in("east", "4"), in("west", "4")))
	s.awaitSettled("web", shares{"east": 4, "west": 4}, nil)
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { image(ud, "registry.example/app:bad") })
	s.until(func(context.Context) string {
		ud := s.get("web")
		if ud.Status.ObservedGeneration != ud.Generation || ud.Status.ReadyReplicas != 4 {
			return fmt.Sprintf("%d pods are ready, not the half that maxUnavailable leaves", ud.Status.ReadyReplicas)
		}
		return ""
	})
	s.awaitQuiet()
	require.EqualValues(t, 4, s.get("web").Status.ReadyReplicas, "half of the pods of each subset are unchanged")
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { image(ud, imageNew) })
	s.awaitSettled("web", shares{"east": 4, "west": 4}, nil)
}

func TestI27InPlaceUpdateOfThirtyPodsKeepsToItsBudgetOfWrites(t *testing.T) {
	s := parallel(t)
	ud := s.create(united("web", 30, in("east", "")))
	s.awaitSettled("web", shares{"east": 30}, nil)
	s.awaitQuiet()
	mark := fleet.Mark()
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { image(ud, imageNew) })
	s.awaitSettled("web", shares{"east": 30}, nil)
	s.awaitQuiet()

	rows, source, pods := 0, 0, 0
	for _, c := range s.writes(mark, func(w fleet.Write) bool { return w.Ours() && s.isOwn(w) && w.Succeeded() }) {
		t.Log(c)
		switch {
		case c.Cluster == "hub" && (c.Resource == "memberworks.fleet.kruise.io" || c.Resource == "memberworks.fleet.kruise.io/status"):
			rows += c.Writes
		case c.Cluster == "hub" && c.Resource == "uniteddeployments.apps.kruise.io/status":
			source += c.Writes
		case c.Cluster == "east" && (c.Resource == "pods" || c.Resource == "pods/status"):
			pods += c.Writes
		}
	}
	t.Logf("%d writes of the row, %d of the source's status, %.1f of each pod", rows, source, float64(pods)/30)
	require.LessOrEqual(t, rows, 25)
	require.LessOrEqual(t, source, 15)
	require.LessOrEqual(t, pods, 90, "at most three writes per pod")
	require.Less(t, size(t, s.row(ud, "east").Status), 4096)
}

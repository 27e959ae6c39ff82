//go:build e2e

package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// waves makes the hub roll out the object over its clusters.
func waves(ud *appsv1beta1.UnitedDeployment, maxUnavailable, partition int32) {
	ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{
		Type: appsv1beta1.WavesUpdateStrategyType,
		Rollout: &pods.RolloutPlan{
			MaxUnavailable: new(intstr.FromInt32(maxUnavailable)), Partition: new(intstr.FromInt32(partition)),
		},
	}
}

// TestI22ARolloutKeepsToOneBudgetOverClusters updates pods in place, so that the same pods become unready and ready again.
func TestI22ARolloutKeepsToOneBudgetOverClusters(t *testing.T) {
	s := parallel(t)
	ud := united("web", 12, in("east", "6"), in("west", "6"))
	waves(ud, 2, 8)
	s.create(ud)
	all := shares{"east": 6, "west": 6}
	s.awaitSettled("web", all, nil)
	before := s.census("web")
	most := s.watchUpdating("web", env.Members()...)

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { image(ud, imageNew) })
	updated := func() int { return s.countUpdated(env.East) + s.countUpdated(env.West) }
	s.until(func(context.Context) string {
		if n := updated(); n != 4 || s.get("web").Status.UpdatedAvailableReplicas != 4 {
			return fmt.Sprintf("%d pods are updated, of which the partition allows 4", n)
		}
		return ""
	})
	require.Equal(t, 4, s.countUpdated(env.East), "one cluster after another")
	row := s.row(s.get("web"), "west")
	require.NotEqual(t, s.get("web").Status.UpdatedRevision, row.Spec.Grant.Revision, "west has not been sent the new template")

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.UpdateStrategy.Rollout.Paused = true })
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.UpdateStrategy.Rollout.Partition = nil })
	s.until(func(context.Context) string {
		if r := s.get("web").Status.Rollout; r.Message != "paused" {
			return "the status says " + r.Message
		}
		return ""
	})
	s.awaitQuiet()
	require.Equal(t, 4, updated(), "a paused rollout updates nothing")

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.UpdateStrategy.Rollout.Paused = false })
	done := s.awaitSettled("web", all, nil)
	require.Equal(t, 12, updated())
	require.Equal(t, done.Status.UpdatedRevision, done.Status.CurrentRevision)
	require.Equal(t, int32(2), done.Status.Rollout.Budget.Max)
	require.Empty(t, done.Status.Rollout.Message)
	require.LessOrEqual(t, most(), 2, "pods that were updated at a time, in both clusters")
	require.Equal(t, before.uids(), s.census("web").uids(), "the same pods")
}

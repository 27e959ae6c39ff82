//go:build e2e

package suite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/e2e/fleet"
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

// soak is longer than the hub may delay a change of the status, so that the status says that a wave soaks.
const soak = 8

// TestI23TheRestWaitsForTheGatesOfTheCanary updates two pods of east, which must be healthy for a while and be approved before all others, in
// both clusters, are updated within one budget.
func TestI23TheRestWaitsForTheGatesOfTheCanary(t *testing.T) {
	s := parallel(t)
	ud := united("web", 12, in("east", "6"), in("west", "6"))
	waves(ud, 2, 0)
	ud.Spec.UpdateStrategy.Rollout.Waves = []pods.RolloutWave{{
		Name: "canary", Clusters: []string{"east"}, Pods: new(int32(2)),
		Gates: []pods.RolloutGate{{Type: pods.SoakGate, Seconds: new(int32(soak))}, {Type: pods.ApprovalGate}},
	}}
	s.create(ud)
	all := shares{"east": 6, "west": 6}
	old := s.awaitSettled("web", all, nil).Status.UpdatedRevision
	before := s.census("web")
	most := s.watchUpdating("web", env.Members()...)

	awaitPhase := s.wavePhases("web", "canary")
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { image(ud, imageNew) })
	phases := awaitPhase(pods.WaveAwaitingApproval)
	// It is Updating again if one of its pods is unavailable for a moment. Then the time starts anew.
	phases = slices.DeleteFunc(phases, func(p pods.RolloutWavePhase) bool { return p == pods.WaveUpdating })
	require.Equal(t, []pods.RolloutWavePhase{pods.WaveSoaking, pods.WaveAwaitingApproval}, slices.Compact(phases))
	s.awaitQuiet()
	ud = s.get("web")
	r := ud.Status.Rollout
	require.Equal(t, []pods.RolloutWaveStatus{
		{Name: "canary", Phase: pods.WaveAwaitingApproval, Clusters: 1, Pods: 6, Updated: 2},
		{Name: pods.RestWave, Phase: pods.WavePending, Clusters: 1, Pods: 6},
	}, r.Waves)
	require.Equal(t, ud.Status.UpdatedRevision, r.Revision)
	require.Contains(t, r.Message, "kubectl kruise rollout approve ud/web --wave canary")
	onlyTheCanary := func() {
		t.Helper()
		require.Equal(t, 2, s.countUpdated(env.East))
		require.Zero(t, s.countUpdated(env.West))
		require.Equal(t, r.Revision, s.row(ud, "east").Spec.Grant.Revision)
		require.Equal(t, old, s.row(ud, "west").Spec.Grant.Revision, "west has not been sent the new template")
	}
	onlyTheCanary()

	require.ErrorContains(t, s.approve("web", old, "canary"), "UnitedDeployment web is rolled out to revision "+r.Revision+": name that one")
	require.ErrorContains(t, s.approve("web", r.Revision, "canry"), "UnitedDeployment web has no such wave: name one of canary")
	onlyTheCanary()

	require.NoError(t, s.approve("web", r.Revision, "canary"))
	s.awaitSettled("web", all, nil)
	s.until(func(context.Context) string {
		last := s.get("web").Status.Rollout
		unfinished := func(w pods.RolloutWaveStatus) bool { return w.Phase != pods.WaveDone }
		if last.Message != "" || len(last.Waves) != 2 || slices.ContainsFunc(last.Waves, unfinished) {
			return fmt.Sprintf("the waves are %v, and the status says %q", last.Waves, last.Message)
		}
		return ""
	})
	require.Equal(t, 12, s.countUpdated(env.East)+s.countUpdated(env.West))
	require.LessOrEqual(t, most(), 2, "pods that were updated at a time, in both clusters")
	require.Equal(t, before.uids(), s.census("web").uids(), "the same pods")
}

// approve approves a wave of a revision, as any user may who can create RolloutApprovals.
func (s *scene) approve(name, revision, wave string) error {
	s.Helper()
	a := &fleetv1alpha1.RolloutApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: name + "-"},
		Spec: fleetv1alpha1.RolloutApprovalSpec{
			Target:   fleetv1alpha1.RolloutTarget{Kind: fleetv1alpha1.RolloutUnitedDeployment, Name: name},
			Revision: revision, Wave: wave,
		},
	}
	if err := env.Hub.Client.Create(s.ctx, a); err != nil {
		return err //nolint:wrapcheck // It is what the test checks.
	}
	require.NotEmpty(s, a.Spec.User, "the hub writes down who has approved")
	return nil
}

// wavePhases watches the phase of a wave, as far as a revision is rolled out in waves. The returned function waits for a phase, stops watching,
// and returns all phases that occurred.
func (s *scene) wavePhases(name, wave string) func(pods.RolloutWavePhase) []pods.RolloutWavePhase {
	s.Helper()
	var mu sync.Mutex
	var all []pods.RolloutWavePhase
	end, err := fleet.Follow(s.ctx, env.Hub, &appsv1beta1.UnitedDeploymentList{}, func(_ watch.EventType, ud *appsv1beta1.UnitedDeployment) {
		if ud.Status.Rollout == nil || ud.Status.Rollout.Revision == "" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, w := range ud.Status.Rollout.Waves {
			if w.Name == wave {
				all = append(all, w.Phase)
			}
		}
	}, client.InNamespace(s.namespace), client.MatchingFields{"metadata.name": name})
	require.NoError(s, err)
	return func(phase pods.RolloutWavePhase) []pods.RolloutWavePhase {
		s.Helper()
		defer end()
		s.until(func(context.Context) string {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(all, phase) {
				return fmt.Sprintf("wave %s is not %s, its phases were %v", wave, phase, all)
			}
			return ""
		})
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

//go:build e2e

package suite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// kills is how often a test kills its manager.
const kills = 4

func TestI09HubKilledAtRandomMomentsRestartsNothingAndThenRests(t *testing.T) {
	lab.Full(t) // Simulations kill it at each of its writes, and soak at more random moments.
	testKill(t, func() *fleet.Manager { return env.Hub.Manager })
}

func TestI09AgentKilledAtRandomMomentsRestartsNothingAndThenRests(t *testing.T) {
	lab.Full(t) // As above.
	testKill(t, func() *fleet.Manager { return env.East.Manager })
}

// testKill kills a manager at random moments during a rollout and scaling. Each container is restarted once, for its new image, no pod is
// recreated, and nothing is deleted. Then it kills the manager once more at rest, and the restarted manager writes nothing.
func testKill(t *testing.T, which func() *fleet.Manager) {
	t.Helper()
	s := alone(t)
	moments := fleet.Dice(t)
	s.changeCluster("east", func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Heartbeat = patient })
	s.create(united("web", 10, in("east", "60%"), in("west", "40%")))
	s.awaitSettled("web", shares{"east": 6, "west": 4}, nil)
	before, mark := s.census("web"), fleet.Mark()

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { image(ud, imageNew) })
	for i := range kills {
		require.True(t, pause(t.Context(), time.Duration(moments.IntN(2500))*time.Millisecond))
		require.NoError(t, which().Kill(t.Context()))
		if i == 1 { // The hub scales the object while the manager is down, or has just started.
			s.until(func(ctx context.Context) string {
				ud := &appsv1beta1.UnitedDeployment{}
				if err := env.Hub.Client.Get(ctx, s.key("web"), ud); err != nil {
					return err.Error()
				}
				*ud.Spec.Replicas = 14
				return s.restartOnFailure(ctx, which(), env.Hub.Client.Update(ctx, ud))
			})
		}
		require.NoError(t, which().Start(t.Context()))
	}
	s.awaitSettled("web", shares{"east": 8, "west": 6}, nil)
	after := s.census("web")
	for pod, what := range before {
		require.Contains(t, after, pod, "a pod was recreated")
		uid := census{pod: what}.uids()[pod]
		require.Equal(t, uid+", 1 restarts", after[pod])
	}
	s.requireNoDeletes(mark)

	s.awaitQuiet()
	settled, mark := s.census("web"), fleet.Mark()
	require.NoError(t, which().Kill(t.Context()))
	require.NoError(t, which().Start(t.Context()))
	s.awaitLeader(which(), mark)
	require.True(t, pause(t.Context(), window)) // Its leader election event may come at any time after the Lease.
	require.Empty(t, s.writes(mark, func(w fleet.Write) bool { return s.isUnexpected(w) && !isElectionWrite(w) }),
		"the restarted manager wrote something")
	require.Equal(t, settled, s.census("web"))
	s.requireNoDeletes(mark)
}

// restartOnFailure starts the manager again if a write failed because its webhook was down.
func (s *scene) restartOnFailure(ctx context.Context, m *fleet.Manager, err error) string {
	s.Helper()
	if err == nil {
		return ""
	}
	require.NoError(s, m.Start(ctx))
	return err.Error()
}

// isElectionWrite reports whether a manager makes a write because it becomes the leader: to its Lease, or the event about it.
func isElectionWrite(w fleet.Write) bool {
	return w.Verb == "create" && (w.Resource == "leases.coordination.k8s.io" || w.Resource == "events" || w.Resource == "events.events.k8s.io")
}

// awaitLeader waits until a manager leads again: its Lease was acquired after since.
func (s *scene) awaitLeader(m *fleet.Manager, since time.Time) {
	s.Helper()
	s.until(func(context.Context) string {
		writes, err := env.Writes(since)
		if err != nil {
			return err.Error()
		}
		for _, w := range writes {
			if w.Ours() && w.Renewal() && w.Namespace == fleet.Namespace && w.Name == m.Name && w.Cluster == m.Cluster() && w.Succeeded() {
				return ""
			}
		}
		return m.Name + " does not lead"
	})
}

// withoutWebhooks removes the webhooks of a cluster because their manager is down. The returned function restores them.
func (s *scene) withoutWebhooks(c *fleet.Cluster) (restore func()) {
	s.Helper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	var taken []client.Object
	for _, o := range []client.Object{mutating, validating} {
		require.NoError(s, c.Client.Get(s.ctx, client.ObjectKey{Name: c.Manager.Name}, o))
		require.NoError(s, c.Client.Delete(s.ctx, o))
		taken = append(taken, o)
	}
	return func() {
		s.Helper()
		for _, o := range taken {
			o.SetResourceVersion("")
			o.SetUID("")
			o.SetManagedFields(nil)
			require.NoError(s, c.Client.Create(s.ctx, o))
		}
	}
}

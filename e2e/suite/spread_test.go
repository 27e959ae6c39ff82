//go:build e2e

package suite

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

// apply applies an example in the test's namespace.
func (s *scene) apply(c *fleet.Cluster, example string) {
	s.Helper()
	objects, err := c.ApplyFile(s.ctx, env.Example(example), func(o *unstructured.Unstructured) { o.SetNamespace(s.namespace) })
	require.NoError(s, err)
	require.Len(s, objects, 1)
	if c == env.Hub {
		s.objects, s.rows = append(s.objects, objects[0].GetName()), append(s.rows, rowName(objects[0]))
	}
}

func TestReplicasAreSplitBySixtyAndFortyPercent(t *testing.T) {
	s := parallel(t)
	s.apply(env.Hub, "uniteddeployment-two-clusters.yaml")
	ud := s.awaitSettled("web", shares{"east": 6, "west": 4}, nil)
	require.Len(t, s.pods(env.East, "web"), 6)
	require.Len(t, s.pods(env.West, "web"), 4)
	require.EqualValues(t, 10, ud.Status.ReadyReplicas)
	require.Equal(t, corev1.ConditionTrue, condition(ud, appsv1beta1.UnitedDeploymentPlaced).Status)
	require.Equal(t, s.slice(env.East, "web").Status.UpdatedRevision, s.slice(env.West, "web").Status.UpdatedRevision,
		"the template is identical everywhere, so its revision is, too")
	require.Equal(t, s.slice(env.East, "web").Status.UpdatedRevision, ud.Status.UpdatedRevision)
}

func TestReplicasAreSplitOverClustersByLabel(t *testing.T) {
	s := parallel(t)
	s.apply(env.Hub, "uniteddeployment-selector.yaml")
	s.awaitSettled("api", shares{"prod-east": 4, "prod-west": 4}, nil)
	require.Len(t, s.pods(env.East, "api"), 4)
	require.Len(t, s.pods(env.West, "api"), 4)
}

func TestScalingKeepsTheSplitAndTheOtherPods(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 10, in("east", "60%"), in("west", "40%")))
	s.awaitSettled("web", shares{"east": 6, "west": 4}, nil)
	before := s.census("web")

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 16 })
	s.awaitSettled("web", shares{"east": 10, "west": 6}, nil)
	after := s.census("web")
	for pod, what := range before {
		require.Equal(t, what, after[pod], "scaling out touches no existing pod")
	}

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 5 })
	s.awaitSettled("web", shares{"east": 3, "west": 2}, nil)
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 0 })
	s.awaitSettled("web", shares{"east": 0, "west": 0}, nil)
	require.Empty(t, s.census("web"))
}

func TestHalvesOfAnOddTotalAreRoundedTogether(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 7, in("east", "50%"), in("west", "50%")))
	s.awaitSettled("web", shares{"east": 4, "west": 3}, nil)
}

func TestReplicasAboveAMaximumGoToTheNextSubset(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 4, between("east", 1, 3), between("west", 1, -1)))
	s.awaitSettled("web", shares{"east": 3, "west": 1}, nil)
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 9 })
	s.awaitSettled("web", shares{"east": 3, "west": 6}, nil)

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Topology.Subsets[1] = between("west", 1, 4)
	})
	ud := s.awaitSettled("web", shares{"east": 3, "west": 4}, nil)
	require.EqualValues(t, 2, ud.Status.UnallocatedReplicas)
	placed := condition(ud, appsv1beta1.UnitedDeploymentPlaced)
	require.Equal(t, corev1.ConditionFalse, placed.Status, "unallocated replicas are reported")
	require.Contains(t, placed.Message, "2 of 9 replicas are unallocated")
	require.Len(t, s.pods(env.West, "web"), 4, "a lowered maximum is applied, even if no other cluster can take the replicas")
}

func TestReplicasMoveOnlyAsTheyBecomeAvailableElsewhere(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 6, in("east", "6"), in("west", "0")))
	s.awaitSettled("web", shares{"east": 6, "west": 0}, nil)

	ctx, stop := context.WithCancel(t.Context())
	lowest := make(chan int32, 1)
	go func() {
		least := int32(6)
		for pause(ctx, poll) {
			var n int32
			for _, m := range env.Members() {
				list := &corev1.PodList{}
				if m.Client.List(ctx, list, inScene(s, "web")...) != nil {
					n = least
					break
				}
				for i := range list.Items {
					if ready(&list.Items[i]) {
						n++
					}
				}
			}
			least = min(least, n)
		}
		lowest <- least
	}()
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Topology.Subsets = []appsv1beta1.Subset{in("east", "2"), in("west", "4")}
	})
	s.awaitSettled("web", shares{"east": 2, "west": 4}, nil)
	stop()
	least := <-lowest
	t.Logf("at least %d of 6 pods were ready during the move", least)
	require.GreaterOrEqual(t, least, int32(4), "the source is only reduced by pods that are available at the destination")
}

func TestSubsetThatIsRemovedIsEmptiedAndItsRowDeleted(t *testing.T) {
	s := parallel(t)
	ud := s.create(united("web", 6, in("east", "3"), in("west", "3")))
	s.awaitSettled("web", shares{"east": 3, "west": 3}, nil)
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Topology.Subsets = []appsv1beta1.Subset{in("west", "6")}
	})
	s.awaitSettled("web", shares{"west": 6}, nil)
	s.until(func(ctx context.Context) string {
		if err := s.withdraw(ctx); err != nil {
			return err.Error()
		}
		if _, err := s.findRow(ud, "east"); err == nil {
			return "the row for east still exists"
		}
		if s.slice(env.East, "web") != nil {
			return "the slice is still in east"
		}
		return ""
	})
	s.until(func(context.Context) string {
		if len(s.pods(env.East, "web")) > 0 {
			return "pods are left in east"
		}
		return ""
	})
}

//go:build e2e

package suite

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func TestDriftInAMemberIsRevertedAndReported(t *testing.T) {
	s := parallel(t)
	ud := s.create(united("web", 4, in("east", "2"), in("west", "2")))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	before := s.census("web")

	// A drift is reported once. The next report has the state after it.
	reported := s.onceRow(ud, "east", "the drift", func(row *fleetv1alpha1.MemberWork) bool {
		return slices.Contains(row.Status.Drift, "spec.replicas")
	})
	slice := s.slice(env.East, "web")
	const note = "example.com/note"
	slice.Spec.Replicas, slice.Spec.Topology.Subsets[0].Replicas = new(int32(5)), nil
	slice.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{Partitions: map[string]int32{"east": 1}}
	slice.Annotations[note] = "mine"
	require.NoError(t, env.East.Client.Update(t.Context(), slice))

	s.until(func(context.Context) string {
		slice := s.slice(env.East, "web")
		if n := *slice.Spec.Replicas; n != 2 {
			return fmt.Sprintf("replicas in east are %d", n)
		}
		if n := slice.Spec.UpdateStrategy.ManualUpdate.Partitions["east"]; n != 0 {
			return fmt.Sprintf("the partition in east is %d", n)
		}
		return ""
	})
	reported()
	require.Equal(t, "mine", s.slice(env.East, "web").Annotations[note], "annotations that the hub doesn't set are kept")
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	after := s.census("web")
	for pod, what := range before {
		require.Equal(t, what, after[pod])
	}
}

func TestObjectOfAnotherOwnerIsNotTouched(t *testing.T) {
	s := parallel(t)
	foreign := united("web", 1, appsv1beta1.Subset{Name: "own"})
	foreign.Namespace = s.namespace
	require.NoError(t, env.East.Client.Create(t.Context(), foreign))
	s.until(func(context.Context) string {
		if u := s.slice(env.East, "web"); u.Status.ReadyReplicas != 1 || u.Status.ObservedGeneration != u.Generation {
			return "the foreign object is not stable"
		}
		return ""
	})
	before := s.slice(env.East, "web")

	ud := s.create(united("web", 4, in("east", "2"), in("west", "2")))
	s.awaitRow(ud, "east", func(row *fleetv1alpha1.MemberWork) string {
		if row.Status.Phase != fleetv1alpha1.WorkBlocked || row.Status.Reason != fleetv1alpha1.ReasonForeignObject {
			return fmt.Sprintf("the row is %s (%s)", row.Status.Phase, row.Status.Reason)
		}
		return ""
	})
	s.until(func(context.Context) string {
		ud := s.get("web")
		failure := condition(ud, appsv1beta1.SubsetFailure)
		if failure.Status != corev1.ConditionTrue || failure.Reason != fleetv1alpha1.ReasonForeignObject {
			return fmt.Sprintf("the object does not report the problem: %+v", failure)
		}
		for _, line := range ud.Status.SubsetStatuses {
			if line.Cluster == "west" && line.AvailableReplicas != 2 {
				return "the other cluster does not continue"
			}
		}
		return ""
	})
	s.awaitQuiet()
	require.Equal(t, before.ResourceVersion, s.slice(env.East, "web").ResourceVersion, "the slice was written without a change")

	// The remedy is to remove it. Then the hub's object is created.
	require.NoError(t, env.East.Client.Delete(t.Context(), before))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
}

func TestNamespaceThatAMemberLacksBlocksItsRowAlone(t *testing.T) {
	s := parallel(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	require.NoError(t, env.East.Client.Delete(t.Context(), ns))
	s.until(func(ctx context.Context) string {
		if !apierrors.IsNotFound(env.East.Client.Get(ctx, client.ObjectKeyFromObject(ns), ns)) {
			return "the namespace still exists"
		}
		return ""
	})
	ud := s.create(united("web", 4, in("east", "2"), in("west", "2")))
	row := s.awaitRow(ud, "east", func(row *fleetv1alpha1.MemberWork) string {
		if row.Status.Reason != fleetv1alpha1.ReasonNamespaceNotFound {
			return fmt.Sprintf("the row is %s (%s)", row.Status.Phase, row.Status.Reason)
		}
		return ""
	})
	require.Contains(t, row.Status.Message, s.namespace)
	s.until(func(context.Context) string {
		if n := len(s.pods(env.West, "web")); n != 2 {
			return "the other cluster does not continue"
		}
		return ""
	})
	require.NoError(t, env.Namespace(t.Context(), s.namespace, nil))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
}

func TestI11ObjectThatOthersRecreatedIsNotDeleted(t *testing.T) {
	s := alone(t)
	s.create(united("web", 2, in("east", "1"), in("west", "1")))
	s.awaitSettled("web", shares{"east": 1, "west": 1}, nil)
	agents := env.East.Manager
	require.NoError(t, agents.Stop(t.Context()))

	// While the agent is down, a user deletes its object and creates another one with the same name. The webhooks are down too.
	restore := s.withoutWebhooks(env.East)
	slice := s.slice(env.East, "web")
	slice.Finalizers = nil
	require.NoError(t, env.East.Client.Update(t.Context(), slice))
	require.NoError(t, client.IgnoreNotFound(env.East.Client.Delete(t.Context(), slice)))
	foreign := united("web", 1, appsv1beta1.Subset{Name: "own"})
	foreign.Namespace = s.namespace
	s.until(func(ctx context.Context) string {
		foreign.ResourceVersion = ""
		if err := env.East.Client.Create(ctx, foreign); err != nil {
			return err.Error()
		}
		return ""
	})
	restore()
	require.NoError(t, env.Hub.Client.Delete(t.Context(), s.get("web")))
	require.NoError(t, agents.Start(t.Context()))
	s.awaitDeleted("web")
	left := s.slice(env.East, "web")
	require.NotNil(t, left)
	require.Equal(t, foreign.UID, left.UID)
	require.Nil(t, left.DeletionTimestamp)
	require.NoError(t, env.East.Client.Delete(t.Context(), left))
}

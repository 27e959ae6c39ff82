//go:build e2e

package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func TestCloneSetInAMemberIsUpdatedInPlace(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "cloneset.yaml")
	set := s.cloneSet("shop", 5)
	before := s.census("shop")
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := env.East.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		set.Spec.Template.Spec.Containers[0].Image = "registry.example/shop:2.0"
		return env.East.Client.Update(t.Context(), set)
	}))
	set = s.cloneSet("shop", 5)
	require.Equal(t, set.Status.UpdateRevision, set.Status.CurrentRevision)
	after := s.census("shop")
	require.Equal(t, before.uids(), after.uids())
	for pod, what := range after {
		require.Contains(t, what, ", 1 restarts", pod)
	}
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
}

// cloneSet waits until a CloneSet in east has all its pods available and at the current revision.
func (s *scene) cloneSet(name string, replicas int32) *appsv1beta1.CloneSet {
	s.Helper()
	set := &appsv1beta1.CloneSet{}
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, s.key(name), set); err != nil {
			return err.Error()
		}
		st := set.Status
		if st.ObservedGeneration != set.Generation || st.Replicas != replicas || st.UpdatedAvailableReplicas != replicas {
			return fmt.Sprintf("generation %d; status %+v", set.Generation, st)
		}
		return ""
	})
	return set
}

func TestCloneSetInV1alpha1Works(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "cloneset-v1alpha1.yaml")
	set := s.cloneSet("shop-v1alpha1", 3)
	require.Equal(t, appsv1beta1.PodInPlaceIfPossible, set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy)
	former := &appsv1alpha1.CloneSet{}
	require.NoError(t, env.East.Client.Get(t.Context(), client.ObjectKeyFromObject(set), former))
	require.EqualValues(t, "InPlaceIfPossible", former.Spec.UpdateStrategy.Type)
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
}

func TestUnitedDeploymentInOneClusterSpreadsOverZones(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "uniteddeployment-zones.yaml")
	s.until(func(ctx context.Context) string {
		ud := s.slice(env.East, "zoned")
		if ud.Status.ObservedGeneration != ud.Generation || ud.Status.ReadyReplicas != 7 {
			return fmt.Sprintf("%d of 7 pods are ready", ud.Status.ReadyReplicas)
		}
		return ""
	})
	require.Equal(t, shares{"zone-a": 3, "zone-b": 2, "zone-c": 2}, s.zones("zoned"))
	deployments := &appsv1.DeploymentList{}
	require.NoError(t, env.East.Client.List(t.Context(), deployments, client.InNamespace(s.namespace)))
	require.Len(t, deployments.Items, 3)
	require.NoError(t, env.East.Client.Delete(t.Context(), s.slice(env.East, "zoned")))
}

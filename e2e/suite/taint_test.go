//go:build e2e

package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

func TestAClusterMayBeNamedBeforeItExists(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 5, in("east", "40%"), in("to-come", "60%")))
	ud := s.awaitSettled("web", shares{"east": 2, "to-come": 0}, nil)
	require.EqualValues(t, 3, ud.Status.UnallocatedReplicas)
	require.Contains(t, condition(ud, appsv1beta1.UnitedDeploymentPlaced).Message, "3 reserved for to-come, which has not joined")
	require.Contains(t, condition(ud, appsv1beta1.SubsetFailure).Message, "there is no member cluster to-come")

	s.createGuest("to-come", false)
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, s.key("web"), ud); err != nil {
			return err.Error()
		}
		if c := condition(ud, appsv1beta1.SubsetFailure); c.Reason != "ClusterNotAccepted" {
			return "the reason is " + c.Reason
		}
		return ""
	})
	require.Len(t, s.pods(env.East, "web"), 2)
	s.remove("web")
}

// It runs alone: a taint concerns every object that doesn't tolerate it.
func TestTaintsKeepReplicasAwayAndMoveThem(t *testing.T) {
	s := alone(t)
	s.create(united("web", 6, in("east", ""), in("west", "")))
	patient := united("patient", 2, in("east", ""), in("west", ""))
	patient.Spec.Topology.Placement = &pods.Placement{
		Tolerations: []fleetv1alpha1.ClusterToleration{{Key: "e2e", Operator: fleetv1alpha1.TolerationExists}},
	}
	s.create(patient)
	s.awaitSettled("web", shares{"east": 3, "west": 3}, nil)
	s.awaitSettled("patient", shares{"east": 1, "west": 1}, nil)
	before := s.census("patient")

	taint := func(args ...string) {
		t.Helper()
		_, err := env.Plugin(t.Context(), append([]string{"cluster", "taint", "west"}, args...)...)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		s.changeCluster("west", func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Taints = nil })
	})
	taint("e2e:NoPlace")
	s.until(func(ctx context.Context) string {
		mc := &fleetv1alpha1.MemberCluster{}
		if err := env.Hub.Client.Get(ctx, client.ObjectKey{Name: "west"}, mc); err != nil {
			return err.Error()
		}
		for _, c := range mc.Status.Conditions {
			if c.Type == fleetv1alpha1.ConditionSchedulable && c.Reason == "Tainted" {
				if mc.Spec.Taints[0].TimeAdded == nil {
					return "the taint has no time"
				}
				return ""
			}
		}
		return fmt.Sprint(mc.Status.Conditions)
	})
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 8 })
	s.awaitSettled("web", shares{"east": 5, "west": 3}, nil)

	taint("e2e:Evict", "e2e:NoPlace-")
	ud := s.awaitSettled("web", shares{"east": 8, "west": 0}, nil)
	require.Equal(t, corev1.ConditionTrue, condition(ud, appsv1beta1.UnitedDeploymentPlaced).Status)
	taint("e2e-")
	s.awaitSettled("web", shares{"east": 4, "west": 4}, nil)
	require.Equal(t, before, s.census("patient"), "pods that tolerate the taint are not touched")
}

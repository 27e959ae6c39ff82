//go:build e2e

package suite

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func TestAttack06ClusterThatIsClosedToANamespaceIsEmptied(t *testing.T) {
	s := alone(t)
	ud := united("web", 6)
	ud.Spec.Topology.Subsets = []appsv1beta1.Subset{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}
	s.create(ud)
	s.awaitSettled("web", shares{"all-east": 3, "all-west": 3}, nil)
	limit := func(namespaces ...string) {
		s.changeCluster("east", func(mc *fleetv1alpha1.MemberCluster) {
			if mc.Spec.Limits == nil {
				mc.Spec.Limits = &fleetv1alpha1.ClusterLimits{}
			}
			mc.Spec.Limits.AllowedNamespaces = namespaces
		})
	}
	t.Cleanup(func() { limit() })
	limit("another")
	s.until(func(context.Context) string {
		if east, west := len(s.pods(env.East, "web")), len(s.pods(env.West, "web")); east > 0 || west != 6 {
			return "west does not have all replicas"
		}
		return ""
	})
	limit()
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 8 })
	s.until(func(context.Context) string {
		if len(s.pods(env.East, "web")) == 0 {
			return "east is open again but has no pods"
		}
		return ""
	})
}

// A member restored from a backup has entries in its ledger, and their objects, for rows that the hub has withdrawn since.
func TestAttack15ObjectsWithoutARowAreCountedAndDecidedOn(t *testing.T) {
	s := alone(t)
	s.create(united("web", 2, in("east", "2"), in("west", "0")))
	s.awaitSettled("web", shares{"east": 2, "west": 0}, nil)
	ledger := &fleetv1alpha1.AppliedWorkList{}
	require.NoError(t, env.East.Client.List(t.Context(), ledger))
	var lost *fleetv1alpha1.AppliedWork
	for i := range ledger.Items {
		if ledger.Items[i].Spec.Object.Namespace == s.namespace {
			lost = &ledger.Items[i]
		}
	}
	require.NotNil(t, lost)
	// As in a restored member: the entry and the object exist, and the hub has no row.
	ghost := &fleetv1alpha1.AppliedWork{ObjectMeta: metav1.ObjectMeta{Name: "uniteddeployment-ghost"}, Spec: lost.Spec}
	ghost.Spec.Row.Name, ghost.Spec.Object.Name, ghost.Spec.Object.UID = ghost.Name, "ghost", "gone"
	require.NoError(t, env.East.Client.Create(t.Context(), ghost))
	require.NoError(t, env.East.Manager.Kill(t.Context()))
	require.NoError(t, env.East.Manager.Start(t.Context()))
	s.until(func(context.Context) string {
		if s.cluster("east").Status.UnclaimedObjects != 1 {
			return "the object without a row is not counted"
		}
		return ""
	})
	require.Len(t, s.pods(env.East, "web"), 2)
	membership := &fleetv1alpha1.Membership{}
	require.NoError(t, env.East.Client.Get(t.Context(), client.ObjectKey{Name: fleetv1alpha1.MembershipName}, membership))
	next := membership.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, "fleet.kruise.io/unclaimed", "Delete")
	require.NoError(t, env.East.Client.Patch(t.Context(), next, client.MergeFrom(membership)))
	s.until(func(ctx context.Context) string {
		if s.cluster("east").Status.UnclaimedObjects != 0 {
			return "the decision has no effect"
		}
		if err := env.East.Client.Get(ctx, client.ObjectKeyFromObject(membership), membership); err != nil || membership.Annotations["fleet.kruise.io/unclaimed"] != "" {
			return "the decision has not been removed from the Membership"
		}
		return ""
	})
	require.Len(t, s.pods(env.East, "web"), 2, "objects that the hub has a row for stay")
}

package link_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/fields"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

func TestHubCacheHoldsOnlyWhatIsTheMembersOwn(t *testing.T) {
	t.Parallel()
	o := link.HubCache("east")
	require.Len(t, o.ByObject, 2)
	require.Contains(t, o.DefaultNamespaces, "fleet-east")
	require.Len(t, o.DefaultNamespaces, 1)
	for obj, by := range o.ByObject {
		switch obj.(type) {
		case *fleetv1alpha1.MemberWork:
			require.Len(t, by.Namespaces, 1)
			require.Contains(t, by.Namespaces, "fleet-east")
		case *fleetv1alpha1.MemberCluster:
			require.True(t, by.Field.Matches(fields.Set{"metadata.name": "east"}))
			require.False(t, by.Field.Matches(fields.Set{"metadata.name": "west"}), "list and watch are granted by resourceName")
		default:
			require.Failf(t, "unexpected kind", "%T", obj)
		}
	}
}

func TestNamespaceIsTheHubsForThisMember(t *testing.T) {
	t.Parallel()
	require.Equal(t, "fleet-east", link.Link{Cluster: "east"}.Namespace())
}

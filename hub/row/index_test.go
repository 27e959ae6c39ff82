package row

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestOfListsTheRowsOfOneObjectFromACacheAndFromTheApiserver(t *testing.T) {
	t.Parallel()
	made := func(cluster, uid string) client.Object {
		w := want(cluster, 1)
		w.Source.UID = uid
		return w.create("c")
	}
	bare := made("south", "u")
	delete(bare.GetLabels(), keys.FleetSourceUID)
	b := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(made("east", "u"), made("west", "u"), made("east", "v"), bare)
	require.NoError(t, IndexBySource(t.Context(), testkit.Indexes{Builder: b}))
	c := b.Build()
	for _, live := range []bool{false, true} {
		rows := &fleetv1alpha1.MemberWorkList{}
		require.NoError(t, c.List(t.Context(), rows, Of("u", live)...))
		require.Len(t, rows.Items, 2)
		for i := range rows.Items {
			require.Equal(t, "u", rows.Items[i].Labels[keys.FleetSourceUID])
		}
	}
}

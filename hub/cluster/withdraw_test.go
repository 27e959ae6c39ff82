package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func TestI20ALeavingClustersRowsCarryTheHubsEpoch(t *testing.T) {
	t.Parallel()
	w := settled().leavingSince(time.Minute)
	w.hub.Epoch = 8
	policy := w.mc.Spec.Leave.Policy
	w.row("live", policy, false).row("going", policy, true).row("done", policy, true)
	w.rows[0].Spec.Grant.Epoch, w.rows[1].Spec.Grant.Epoch, w.rows[2].Spec.Grant.Epoch = 7, 7, 8
	p := plan(w.observed, noon)
	require.Equal(t, []string{"live", "going"}, rowNames(p.withdraw))

	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	objects := []client.Object{w.mc}
	for _, row := range w.rows {
		objects = append(objects, row)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	for _, o := range objects {
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	}
	r := &reconciler{client: c}
	_, err := r.apply(t.Context(), w.observed, planned{withdraw: p.withdraw, identity: w.mc.Spec.Identity.ClusterUID})
	require.NoError(t, err)
	for _, row := range w.rows {
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(row), row))
		require.False(t, row.DeletionTimestamp.IsZero(), row.Name)
		require.Equal(t, int64(8), row.Spec.Grant.Epoch, row.Name)
	}
	require.Empty(t, plan(w.observed, noon).withdraw, "withdrawn rows are not withdrawn again")
}

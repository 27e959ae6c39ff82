package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

func TestCountsOfRowsAreWrittenEveryTenSeconds(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	mc := settled().mc
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mc).WithStatusSubresource(mc).Build()
	r := &reconciler{client: c, throttle: report.Throttle{Interval: countsInterval}}
	// write returns when the status is due, and the number of rows in the stored status.
	write := func(after time.Duration, phase fleetv1alpha1.ClusterPhase, total int32) (time.Duration, int32) {
		live := &fleetv1alpha1.MemberCluster{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(mc), live))
		next := hubPart(live.Status)
		next.Phase, next.Rows = phase, &fleetv1alpha1.RowCounts{Total: total}
		later, err := r.writeStatus(t.Context(), live, next, noon.Add(after))
		require.NoError(t, err)
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(mc), live))
		return later, live.Status.Rows.Total
	}
	for _, step := range []struct {
		name  string
		after time.Duration
		phase fleetv1alpha1.ClusterPhase
		total int32
		later time.Duration
		shown int32
	}{
		{name: "the first counts are written at once", phase: fleetv1alpha1.ClusterReady, total: 1, shown: 1},
		{name: "later counts wait", after: 3 * time.Second, phase: fleetv1alpha1.ClusterReady, total: 2, later: 7 * time.Second, shown: 1},
		{name: "another change writes the counts too", after: 4 * time.Second, phase: fleetv1alpha1.ClusterUnreachable, total: 3, shown: 3},
		{name: "the interval starts again with that write", after: 13 * time.Second, phase: fleetv1alpha1.ClusterUnreachable, total: 4, later: time.Second, shown: 3},
		{name: "counts are written after the interval", after: 14 * time.Second, phase: fleetv1alpha1.ClusterUnreachable, total: 4, shown: 4},
	} {
		later, shown := write(step.after, step.phase, step.total)
		require.Equal(t, step.later, later, step.name)
		require.Equal(t, step.shown, shown, step.name)
	}
}

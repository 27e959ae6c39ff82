package workloadspread

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestClustersNeedAHub(t *testing.T) {
	t.Parallel()
	east := func(s *appsv1beta1.WorkloadSpreadSubset) { s.Cluster = "east" }
	any := func(s *appsv1beta1.WorkloadSpreadSubset) { s.ClusterSelector = &metav1.LabelSelector{} }
	for _, tt := range []struct {
		name    string
		hub     bool
		subsets []appsv1beta1.WorkloadSpreadSubset
		fault   string
	}{
		{"a cluster", false, []appsv1beta1.WorkloadSpreadSubset{subset("a", 1, east)}, "spec.subsets[0].cluster: Forbidden: only a hub places subsets"},
		{"a selector", false, []appsv1beta1.WorkloadSpreadSubset{subset("a", 1, any)}, "spec.subsets[0].clusterSelector: Forbidden: only a hub places subsets"},
		{"cluster and clusterSelector on a hub", true, []appsv1beta1.WorkloadSpreadSubset{subset("a", 1, east, any)}, "a subset has either cluster or clusterSelector"},
		{"only some on a hub", true, []appsv1beta1.WorkloadSpreadSubset{subset("a", 1, east), subset("b", 1)}, "spec.subsets[1].cluster: Required"},
		{"one or the other on a hub", true, []appsv1beta1.WorkloadSpreadSubset{subset("a", 1, east), subset("b", 1, any)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newWebhook(store(t))
			h.AllowClusters = tt.hub
			_, err := h.ValidateCreate(t.Context(), spreading(ours, "CloneSet", tt.subsets...))
			if tt.fault == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.fault)
		})
	}
}

func TestASliceReportsWhatItsLastSubsetCanNotSchedule(t *testing.T) {
	t.Parallel()
	waiting := observedFor(with(spreading(ours, "CloneSet", subset("a", 1), subset("b", unlimited)), adaptive(60)),
		stored("0", "a", stuckSince(noon.Add(-2*time.Minute))),
		stored("1", "b", stuckSince(noon.Add(-2*time.Minute))), stored("2", "b", stuckSince(noon.Add(-40*time.Second))))
	p := plan(waiting, noon)
	s, _ := status(waiting, p, noon)
	require.Zero(t, s.SubsetStatuses[1].UnschedulableReplicas, "only for a hub")

	waiting.ws.Annotations = map[string]string{keys.FleetRowUID: "row"}
	p = plan(waiting, noon)
	s, _ = status(waiting, p, noon)
	require.EqualValues(t, 1, s.SubsetStatuses[1].UnschedulableReplicas)
	require.Zero(t, s.SubsetStatuses[0].UnschedulableReplicas, "the pod goes to the other subset of this cluster")
	require.Len(t, p.deletes, 1, "the hub moves the others")
	require.Equal(t, "0", p.deletes[0].Name)
	require.Equal(t, 20*time.Second, p.recheck, "the recheck is when the next pod has waited for too long")
}

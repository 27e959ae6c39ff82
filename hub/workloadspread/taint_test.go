package workloadspread

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// taint gives a cluster one taint, or removes its taints if effect is "".
func (w *world) taint(name string, effect fleetv1alpha1.TaintEffect) {
	c := w.o.slices.Clusters[name].DeepCopy()
	c.Spec.Taints = nil
	if effect != "" {
		c.Spec.Taints = []fleetv1alpha1.ClusterTaint{{Key: "upgrade", Effect: effect, TimeAdded: new(metav1.NewTime(w.now))}}
	}
	w.o.slices.Clusters[name] = c
}

// everywhere returns a subset in each cluster.
func everywhere(name string) appsv1beta1.WorkloadSpreadSubset {
	return appsv1beta1.WorkloadSpreadSubset{Name: name, ClusterSelector: &metav1.LabelSelector{}}
}

func TestTaintsOfClusters(t *testing.T) {
	t.Parallel()
	type effects = map[string]fleetv1alpha1.TaintEffect
	named := []appsv1beta1.WorkloadSpreadSubset{subsetIn("a", "east", "5"), subsetIn("b", "west", "")}
	for _, tt := range []struct {
		name    string
		subsets []appsv1beta1.WorkloadSpreadSubset
		// before are the taints before the workload is placed. then are the taints that are set once 8 replicas are placed, before the workload is
		// scaled.
		before, then effects
		scaled       int32
		want         string
	}{
		{name: "NoNewPlace: a cluster without replicas gets none", subsets: named, before: effects{"east": fleetv1alpha1.NoNewPlace}, scaled: 8, want: "map[west:8]"},
		{name: "NoNewPlace: a cluster with replicas grows", subsets: named, then: effects{"west": fleetv1alpha1.NoNewPlace}, scaled: 12, want: "map[east:5 west:7]"},
		{name: "NoPlace: a cluster without replicas gets none", subsets: named, before: effects{"east": fleetv1alpha1.NoPlace}, scaled: 8, want: "map[west:8]"},
		{name: "NoPlace: replicas stay, but do not grow", subsets: named, then: effects{"west": fleetv1alpha1.NoPlace}, scaled: 12, want: "map[east:5 west:3]"},
		{name: "NoPlace: replicas may shrink", subsets: named, then: effects{"west": fleetv1alpha1.NoPlace}, scaled: 6, want: "map[east:5 west:1]"},
		{name: "Evict: all replicas move to the next cluster, and the copy is kept", subsets: named, then: effects{"east": fleetv1alpha1.Evict}, scaled: 8, want: "map[east:0 west:8]"},
		{name: "Evict: without room elsewhere all replicas stay", subsets: named, then: effects{"west": fleetv1alpha1.Evict}, scaled: 8, want: "map[east:5 west:3]"},
		{
			name: "Evict: a selector no longer matches", subsets: []appsv1beta1.WorkloadSpreadSubset{everywhere("a")},
			then: effects{"east": fleetv1alpha1.Evict}, scaled: 8, want: "map[west:8]",
		},
		{
			name: "NoNewPlace: a selector keeps clusters with replicas", subsets: []appsv1beta1.WorkloadSpreadSubset{everywhere("a")},
			then: effects{"east": fleetv1alpha1.NoNewPlace}, scaled: 10, want: "map[east:5 west:5]",
		},
		{
			name: "NoPlace: a selector does not match", subsets: []appsv1beta1.WorkloadSpreadSubset{everywhere("a")},
			before: effects{"east": fleetv1alpha1.NoPlace}, scaled: 8, want: "map[west:8]",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(8, tt.subsets...).cluster("east", "west")
			for name, effect := range tt.before {
				w.taint(name, effect)
			}
			w.settle(t)
			for name, effect := range tt.then {
				w.taint(name, effect)
			}
			w.settle(t)
			w.scale(tt.scaled)
			w.settle(t)
			require.Equal(t, tt.want, w.granted())
			require.Len(t, w.o.slices.Rows, len(w.o.copies.Rows), "each cluster with a copy has a slice")
		})
	}
}

func TestATaintIsAProblemWhereReplicasLackAPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(8, subsetIn("a", "east", "5"), subsetIn("b", "west", "")).cluster("east", "west")
	w.settle(t)
	failure := func() *metav1.Condition {
		return report.GetCondition(w.o.ws.Status.Conditions, appsv1beta1.WorkloadSpreadFailure)
	}
	w.taint("east", fleetv1alpha1.NoPlace)
	w.settle(t)
	require.Equal(t, "NoFailure", failure().Reason)
	w.taint("west", fleetv1alpha1.NoPlace)
	w.scale(12)
	w.settle(t)
	require.Equal(t, placement.ReasonTainted, failure().Reason)
	require.Contains(t, failure().Message, "cluster west has taint upgrade:NoPlace")
}

func TestTolerations(t *testing.T) {
	t.Parallel()
	w := newWorld(8, subsetIn("a", "east", "5"), subsetIn("b", "west", "")).cluster("east", "west")
	tolerate := func(list ...fleetv1alpha1.ClusterToleration) {
		w.o.ws.Spec.Placement = &pods.Placement{Tolerations: list}
		w.o.copies.Tolerations, w.o.copies.Now = list, w.now
	}
	tolerate(fleetv1alpha1.ClusterToleration{Key: "upgrade", Operator: fleetv1alpha1.TolerationExists})
	w.taint("east", fleetv1alpha1.NoPlace)
	w.settle(t)
	require.Equal(t, "map[east:5 west:3]", w.granted())
	tolerate(fleetv1alpha1.ClusterToleration{Key: "upgrade", Operator: fleetv1alpha1.TolerationExists, Effect: fleetv1alpha1.Evict, TolerationSeconds: new(int64(60))})
	w.taint("east", fleetv1alpha1.Evict)
	w.settle(t)
	require.Equal(t, "map[east:5 west:3]", w.granted())
	require.Equal(t, time.Minute, w.o.copies.EvictsIn())
	w.o.copies.Now = w.now.Add(time.Minute)
	w.settle(t)
	require.Equal(t, "map[east:0 west:8]", w.granted())
}

func TestReallocationBoundsMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(8, subsetIn("a", "east", "8"), subsetIn("b", "west", "")).cluster("east", "west")
	w.settle(t)
	w.o.ws.Spec.Placement = &pods.Placement{Reallocation: &pods.Reallocation{MaxSurge: new(intstr.FromInt32(1))}}
	w.taint("east", fleetv1alpha1.Evict)
	w.step(t)
	w.applyRows("west")
	w.step(t)
	require.EqualValues(t, 1, w.o.copies.Rows["west"].Spec.Grant.Replicas)
	w.settle(t)
	require.Equal(t, "map[east:0 west:8]", w.granted())
}

func TestAdaptiveMovesWhatWaitsInAClusterThatIsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(8, subsetIn("a", "east", "5"), subsetIn("b", "west", "")).cluster("east", "west").adaptive()
	w.settle(t)
	w.taint("east", fleetv1alpha1.NoPlace)
	w.fits["east"] = 3
	w.applyRows("east")
	w.settle(t)
	require.Equal(t, "map[east:3 west:5]", w.granted())
}

// Its labels are not known, but its slice says that it has the subset.
func TestAClusterOfASelectorThatIsMissingKeepsItsShare(t *testing.T) {
	t.Parallel()
	w := newWorld(9, everywhere("a")).cluster("east", "west", "north")
	w.settle(t)
	east := w.o.slices.Clusters["east"]
	delete(w.o.slices.Clusters, "east")
	w.settle(t)
	require.Equal(t, "map[east:3 north:3 west:3]", w.granted())
	w.scale(13)
	w.settle(t)
	require.Equal(t, "map[east:3 north:5 west:5]", w.granted())
	w.o.slices.Clusters["east"] = east
	w.settle(t)
	require.Len(t, w.o.copies.Rows, 3)
}

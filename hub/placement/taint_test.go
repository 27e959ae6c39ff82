package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

var added = time.Unix(1000, 0)

func tainted(effect fleetv1alpha1.TaintEffect) fleetv1alpha1.ClusterTaint {
	return fleetv1alpha1.ClusterTaint{Key: "upgrade", Value: "v2", Effect: effect, TimeAdded: new(metav1.NewTime(added))}
}

func TestTaintsOfACluster(t *testing.T) {
	t.Parallel()
	type toleration = fleetv1alpha1.ClusterToleration
	exists, equal := fleetv1alpha1.TolerationExists, fleetv1alpha1.TolerationEqual
	evict, noPlace, noNewPlace := fleetv1alpha1.Evict, fleetv1alpha1.NoPlace, fleetv1alpha1.NoNewPlace
	for _, tt := range []struct {
		name        string
		taints      []fleetv1alpha1.TaintEffect
		tolerations []toleration
		after       time.Duration // since the taint was added
		// placed is the state with a row there, and fresh without one.
		placed, fresh allot.State
		evictsIn      time.Duration
	}{
		{name: "no taints"},
		{name: "NoNewPlace lets placed objects grow", taints: []fleetv1alpha1.TaintEffect{noNewPlace}, fresh: allot.Closed},
		{name: "NoPlace lets nothing grow", taints: []fleetv1alpha1.TaintEffect{noPlace}, placed: allot.Closed, fresh: allot.Closed},
		{name: "Evict drains the cluster", taints: []fleetv1alpha1.TaintEffect{evict}, placed: allot.Draining, fresh: allot.Closed},
		{name: "the strongest taint counts", taints: []fleetv1alpha1.TaintEffect{noNewPlace, evict, noPlace}, placed: allot.Draining, fresh: allot.Closed},
		{name: "a taint with this value is tolerated", taints: []fleetv1alpha1.TaintEffect{evict}, tolerations: []toleration{{Key: "upgrade", Value: "v2"}}},
		{
			name: "a taint with another value is not tolerated", taints: []fleetv1alpha1.TaintEffect{noPlace},
			tolerations: []toleration{{Key: "upgrade", Operator: equal, Value: "v1"}}, placed: allot.Closed, fresh: allot.Closed,
		},
		{name: "with Exists the value does not matter", taints: []fleetv1alpha1.TaintEffect{noPlace}, tolerations: []toleration{{Key: "upgrade", Operator: exists}}},
		{name: "a toleration without a key tolerates every taint", taints: []fleetv1alpha1.TaintEffect{noPlace, evict}, tolerations: []toleration{{Operator: exists}}},
		{
			name: "a toleration with an effect tolerates only that effect", taints: []fleetv1alpha1.TaintEffect{noPlace, evict},
			tolerations: []toleration{{Key: "upgrade", Operator: exists, Effect: evict}}, placed: allot.Closed, fresh: allot.Closed,
		},
		{
			name: "a taint tolerated for some time closes the cluster until then", taints: []fleetv1alpha1.TaintEffect{evict}, after: 10 * time.Second,
			tolerations: []toleration{{Key: "upgrade", Operator: exists, Effect: evict, TolerationSeconds: new(int64(60))}},
			placed:      allot.Closed, fresh: allot.Closed, evictsIn: 50 * time.Second,
		},
		{ // This is more than a time.Duration holds.
			name: "tolerationSeconds of centuries", taints: []fleetv1alpha1.TaintEffect{evict},
			tolerations: []toleration{{Key: "upgrade", Operator: exists, Effect: evict, TolerationSeconds: new(int64(10_000_000_000))}},
			placed:      allot.Closed, fresh: allot.Closed, evictsIn: timing.Seconds(10_000_000_000),
		},
		{
			name: "a taint tolerated for some time evicts afterwards", taints: []fleetv1alpha1.TaintEffect{evict}, after: time.Minute,
			tolerations: []toleration{{Key: "upgrade", Operator: exists, Effect: evict, TolerationSeconds: new(int64(60))}},
			placed:      allot.Draining, fresh: allot.Closed,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			east := member("east")
			for _, effect := range tt.taints {
				east.Spec.Taints = append(east.Spec.Taints, tainted(effect))
			}
			f := fleet(east)
			f.Tolerations, f.Now = tt.tolerations, added.Add(tt.after)
			check := func(want allot.State, why string) {
				a := f.Availability("east", "shop")
				require.Equal(t, want, a.State, why)
				require.Equal(t, want != allot.Ready, a.Reason == ReasonTainted && a.Message != "", why)
			}
			check(tt.placed, "placed")
			require.Equal(t, tt.evictsIn, f.EvictsIn())
			require.Equal(t, tt.placed != allot.Draining, len(f.Select("shop", labels.Everything())) == 1, "a selector keeps clusters with rows, except those that evict")
			delete(f.Rows, "east")
			check(tt.fresh, "not placed")
			require.Zero(t, f.EvictsIn(), "there is nothing to evict")
			require.Equal(t, tt.fresh == allot.Ready, len(f.Select("shop", labels.Everything())) == 1)
		})
	}
	t.Run("I6: an unreachable cluster stays frozen and evicts nothing", func(t *testing.T) {
		t.Parallel()
		east := member("east")
		east.Spec.Taints, east.Status.Conditions = []fleetv1alpha1.ClusterTaint{tainted(evict)}, nil
		require.Equal(t, allot.Frozen, fleet(east).Availability("east", "shop").State)
		require.Equal(t, []string{"east"}, fleet(east).Select("shop", labels.Everything()))
	})
	t.Run("a change of taints changes plans", func(t *testing.T) {
		t.Parallel()
		before, after := member("east"), member("east")
		after.Spec.Taints = []fleetv1alpha1.ClusterTaint{tainted(noPlace)}
		require.True(t, changed(before, after))
		require.False(t, changed(after, after.DeepCopy()))
	})
}

package uniteddeployment

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
)

// running returns how many replicas members have been seen to run.
func (w *world) running() int32 {
	n := int32(0)
	for _, r := range w.o.Rows {
		for _, c := range r.Status.Subsets {
			n += c.Available
		}
	}
	return n
}

// applySomeRows lets some of the members apply their rows.
func (w *world) applySomeRows(random *rand.Rand) {
	held := map[string]*fleetv1alpha1.MemberWork{}
	for name, r := range w.o.Rows {
		if random.IntN(2) == 0 {
			held[name] = r
		}
	}
	w.applyRows()
	maps.Copy(w.o.Rows, held)
}

// Taints come and go, and clusters join late and are missing from reads now and then, while members are slow to apply their rows. The last
// cluster is never tainted, so there is room for everything.
func TestTaintsAndLateClustersInAnyOrder(t *testing.T) {
	t.Parallel()
	const replicas, clusters = 12, 4
	for seed := range uint64(80) {
		random := rand.New(rand.NewPCG(seed, 7))
		var subsets []appsv1beta1.Subset
		for i := range clusters {
			subsets = append(subsets, subsetIn(fmt.Sprintf("s%d", i), fmt.Sprintf("c%d", i), ""))
		}
		if seed%2 == 0 {
			subsets = []appsv1beta1.Subset{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}
		}
		w := newWorld(replicas, subsets...)
		w.cluster("c3", nil)
		w.settle(t)
		for step := range 80 {
			name := fmt.Sprintf("c%d", random.IntN(clusters-1))
			if w.o.Clusters[name] == nil {
				w.cluster(name, nil)
			}
			switch effect := random.IntN(6); effect {
			case 0, 1, 2:
				w.o.Clusters[name].Spec.Taints = []fleetv1alpha1.ClusterTaint{{
					Key: "t", Effect: []fleetv1alpha1.TaintEffect{fleetv1alpha1.NoNewPlace, fleetv1alpha1.NoPlace, fleetv1alpha1.Evict}[effect],
				}}
			case 3:
				w.o.Clusters[name].Spec.Taints = nil
			case 4:
				mc := w.o.Clusters[name]
				delete(w.o.Clusters, name)
				p := plan(w.o)
				for _, gone := range p.Withdrawals {
					require.NotSame(t, w.o.Rows[name], gone.Row, "I13: seed %d, step %d", seed, step)
				}
				w.write(t, p)
				w.o.Clusters[name] = mc
			}
			w.write(t, plan(w.o))
			w.applySomeRows(random)
			require.GreaterOrEqual(t, w.running(), int32(replicas), "I4: seed %d, step %d", seed, step)
			require.LessOrEqual(t, w.running(), int32(replicas+allot.DefaultSurge(replicas)), "I3: seed %d, step %d", seed, step)
		}
		w.applyRows()
		w.settle(t)
		require.EqualValues(t, replicas, w.running(), "seed %d", seed)
		require.Zero(t, w.write(t, plan(w.o)), "I8: seed %d", seed)
		for name, mc := range w.o.Clusters {
			if len(mc.Spec.Taints) > 0 && mc.Spec.Taints[0].Effect == fleetv1alpha1.Evict {
				require.Zero(t, w.grants()[name], "seed %d, %s", seed, name)
			}
		}
	}
}

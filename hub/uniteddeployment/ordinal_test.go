package uniteddeployment

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// stateful returns a world whose object has apps.kruise.io StatefulSets, in clusters with these names.
func stateful(replicas int32, clusters []string, subsets ...appsv1beta1.Subset) *world {
	w := newWorld(replicas, subsets...)
	w.o.ud.Spec.Template.AdvancedStatefulSetTemplate = &appsv1beta1.AdvancedStatefulSetTemplateSpec{}
	for _, name := range clusters {
		w.cluster(name, map[string]string{"region": "eu"})
	}
	return w
}

// ordinals returns the ranges in the slices: cluster/subset to the first and the last ordinal.
func (w *world) ordinals() map[string][2]int32 {
	out := map[string][2]int32{}
	for cluster, slice := range w.slices {
		for _, s := range slice.Spec.Topology.Subsets {
			if s.Ordinals != nil && w.o.Rows[cluster] != nil {
				out[cluster+"/"+s.Name] = [2]int32{s.Ordinals.Start, ptr.Deref(s.Ordinals.End, -1)}
			}
		}
	}
	return out
}

func TestOrdinals(t *testing.T) {
	t.Parallel()
	all := appsv1beta1.Subset{Name: "eu", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}}
	t.Run("each subset has its own range in each cluster", func(t *testing.T) {
		t.Parallel()
		w := stateful(9, []string{"berlin", "paris"}, subsetIn("a", "berlin", "1"), all)
		w.settle(t)
		require.Equal(t, map[string][2]int32{
			"berlin/a": {0, 9_999}, "berlin/eu-berlin": {10_000, 19_999}, "paris/eu-paris": {20_000, 29_999},
		}, w.ordinals())
		require.Zero(t, w.write(t, plan(w.o)), "nothing is written once all ranges are assigned")
	})
	t.Run("a scale, a new cluster and a new order of subsets leave ranges as they are", func(t *testing.T) {
		t.Parallel()
		w := stateful(4, []string{"paris", "rome"}, all)
		w.settle(t)
		before := w.ordinals()
		w.cluster("berlin", map[string]string{"region": "eu"})
		w.o.ud.Spec.Topology.Subsets = []appsv1beta1.Subset{subsetIn("a", "rome", "1"), all}
		w.o.ud.Spec.Replicas = ptr.To[int32](20)
		w.settle(t)
		before["rome/a"], before["berlin/eu-berlin"] = [2]int32{20_000, 29_999}, [2]int32{30_000, 39_999}
		require.Equal(t, before, w.ordinals())
	})
	t.Run("a range is not reused while its cluster does not answer", func(t *testing.T) {
		t.Parallel()
		w := stateful(4, []string{"east", "west"}, subsetIn("a", "east", ""), subsetIn("b", "west", ""))
		w.settle(t)
		w.unreachable("east")
		w.o.ud.Spec.Topology.Subsets = []appsv1beta1.Subset{subsetIn("b", "west", ""), subsetIn("c", "west", "")}
		w.settle(t)
		require.Equal(t, map[string][2]int32{"east/a": {0, 9_999}, "west/b": {10_000, 19_999}, "west/c": {20_000, 29_999}}, w.ordinals())
	})
	t.Run("a range is free when its subset is gone from the row", func(t *testing.T) {
		t.Parallel()
		w := stateful(4, []string{"east", "west"}, subsetIn("a", "east", ""), subsetIn("b", "west", ""))
		w.settle(t)
		w.o.ud.Spec.Topology.Subsets = []appsv1beta1.Subset{subsetIn("b", "west", "")}
		w.settle(t)
		w.o.ud.Spec.Topology.Subsets = []appsv1beta1.Subset{subsetIn("b", "west", ""), subsetIn("c", "west", "")}
		w.settle(t)
		require.Equal(t, map[string][2]int32{"west/b": {10_000, 19_999}, "west/c": {0, 9_999}}, w.ordinals())
	})
	t.Run("a range is kept while another kind of template has none", func(t *testing.T) {
		t.Parallel()
		w := stateful(4, []string{"east", "west"}, subsetIn("a", "east", ""), subsetIn("b", "west", ""))
		w.settle(t)
		before, template := w.ordinals(), w.o.ud.Spec.Template
		w.o.ud.Spec.Template = appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{}}
		w.o.ud.Spec.Topology.Subsets = []appsv1beta1.Subset{subsetIn("b", "west", ""), subsetIn("a", "east", "")}
		w.settle(t)
		require.Empty(t, w.ordinals())
		w.o.ud.Spec.Template = template
		w.settle(t)
		require.Equal(t, before, w.ordinals())
	})
	t.Run("templates without ordinals get none", func(t *testing.T) {
		t.Parallel()
		w := newWorld(4, subsetIn("a", "east", ""))
		w.cluster("east", nil)
		w.settle(t)
		require.Empty(t, w.ordinals())
		require.Nil(t, w.o.Rows["east"].Spec.Grant.Subsets[0].FirstOrdinal)
	})
}

// TestOrdinalsAreNeverSharedOrChanged adds clusters and lets them stop answering or lag behind while subsets are added and removed. At no
// time do two subsets that may run pods share an ordinal, and no subset gets another range while it is in its row.
func TestOrdinalsAreNeverSharedOrChanged(t *testing.T) {
	t.Parallel()
	names := []string{"berlin", "lyon", "oslo", "paris", "rome"}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		w := stateful(12, names)
		for range 60 {
			switch r.IntN(5) {
			case 0:
				w.o.ud.Spec.Topology.Subsets = nil
				for _, name := range names {
					if r.IntN(2) == 0 {
						w.o.ud.Spec.Topology.Subsets = append(w.o.ud.Spec.Topology.Subsets, subsetIn("s-"+name, name, ""))
					}
				}
				w.o.ud.Spec.Topology.Subsets = append(w.o.ud.Spec.Topology.Subsets, subsetIn("x", names[r.IntN(len(names))], ""))
			case 1:
				w.cluster(names[r.IntN(len(names))], nil)
			case 2:
				w.unreachable(names[r.IntN(len(names))])
			case 3:
				w.o.ud.Spec.Replicas = new(r.Int32N(30))
			default:
				w.applyRows()
			}
			before := w.ranges()
			w.write(t, plan(w.o))
			owner := map[int32]string{}
			for part, first := range w.ranges() {
				require.Zero(t, first%fleetv1alpha1.OrdinalsPerSubset)
				require.Empty(t, owner[first], "seed %d: %s and %s have the same ordinals", seed, owner[first], part)
				owner[first] = part
				if previous, ok := before[part]; ok {
					require.Equal(t, previous, first, "seed %d: %s got another range", seed, part)
				}
			}
		}
	}
}

// ranges returns the first ordinals in rows, by cluster/subset.
func (w *world) ranges() map[string]int32 {
	out := map[string]int32{}
	for cluster, row := range w.o.Rows {
		for _, g := range row.Spec.Grant.Subsets {
			if g.FirstOrdinal != nil {
				out[cluster+"/"+g.Name] = *g.FirstOrdinal
			}
		}
	}
	return out
}

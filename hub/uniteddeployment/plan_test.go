package uniteddeployment

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// world is a hub with members that immediately do what they are granted, unless a test changes that.
type world struct {
	o *observed
	// slices are what the rows request, by cluster.
	slices map[string]*appsv1beta1.UnitedDeployment
}

func newWorld(replicas int32, subsets ...appsv1beta1.Subset) *world {
	ud := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "ud-uid", Generation: 1, Finalizers: []string{keys.FleetRow}},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Topology: appsv1beta1.Topology{Subsets: subsets},
		},
	}
	return &world{o: &observed{
		ud:     ud,
		Fleet:  placement.Fleet{Clusters: map[string]*fleetv1alpha1.MemberCluster{}, Rows: map[string]*fleetv1alpha1.MemberWork{}},
		folded: map[string][]byte{},
	}, slices: map[string]*appsv1beta1.UnitedDeployment{}}
}

func subsetIn(name, cluster, replicas string) appsv1beta1.Subset {
	s := appsv1beta1.Subset{Name: name, Cluster: cluster}
	if replicas != "" {
		s.Replicas = new(intstr.Parse(replicas))
	}
	return s
}

func upTo(name, cluster string, most int) appsv1beta1.Subset {
	return appsv1beta1.Subset{Name: name, Cluster: cluster, MaxReplicas: new(intstr.FromInt(most))}
}

func (w *world) cluster(name string, labels map[string]string) {
	w.o.Clusters[name] = &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       fleetv1alpha1.MemberClusterSpec{Accepted: true},
		Status: fleetv1alpha1.MemberClusterStatus{
			Phase:      fleetv1alpha1.ClusterReady,
			Hub:        &fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 1},
			Conditions: []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
}

func (w *world) unreachable(name string) {
	w.o.Clusters[name].Status.Phase = fleetv1alpha1.ClusterUnreachable
	w.o.Clusters[name].Status.Conditions[0].Status = metav1.ConditionFalse
}

// write applies a plan's writes, as row.Store would.
func (w *world) write(tb testing.TB, p planned) (writes int) {
	tb.Helper()
	for _, want := range p.Wants {
		live := w.o.Rows[want.Cluster]
		if live == nil {
			live = &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{
				Name: want.Name(), Namespace: fleetv1alpha1.Namespace(want.Cluster), UID: types.UID(want.Cluster),
				Labels: map[string]string{keys.FleetCluster: want.Cluster},
			}}
		}
		next := live.DeepCopy()
		next.Spec.Source, next.Spec.Grant, next.Spec.Patch.Raw = want.Source, want.Grant, want.Patch
		if live.Generation == 0 || string(live.Spec.Patch.Raw) != string(want.Patch) || live.Spec.Grant.Revision != want.Grant.Revision {
			next.Generation++
			writes++
			w.o.Rows[want.Cluster] = next
		}
		manifest, err := row.Merge(want.Manifest, want.Patch)
		require.NoError(tb, err)
		slice := &appsv1beta1.UnitedDeployment{}
		require.NoError(tb, json.Unmarshal(manifest, slice))
		w.slices[want.Cluster] = slice
	}
	for _, gone := range p.Withdrawals {
		delete(w.o.Rows, gone.Row.Labels[keys.FleetCluster])
		writes++
	}
	return writes
}

// applyRows lets every member that answers apply its row.
func (w *world) applyRows() {
	for name, r := range w.o.Rows {
		if c := w.o.Clusters[name]; c == nil || c.Status.Phase != fleetv1alpha1.ClusterReady {
			continue
		}
		next := r.DeepCopy()
		next.Status = fleetv1alpha1.MemberWorkStatus{ObservedGeneration: r.Generation, Phase: fleetv1alpha1.WorkHealthy, Revision: "web-1"}
		for _, g := range r.Spec.Grant.Subsets {
			updated := g.Replicas - g.Partition
			n := fleetv1alpha1.WorkCounts{
				Desired: g.Replicas, Replicas: g.Replicas, Ready: g.Replicas, Available: g.Replicas,
				Updated: updated, UpdatedReady: updated, UpdatedAvailable: updated,
			}
			next.Status.Subsets = append(next.Status.Subsets, fleetv1alpha1.SubsetCounts{Name: g.Name, Partition: g.Partition, WorkCounts: n})
		}
		w.o.Rows[name] = next
	}
}

// settle plans and serves until nothing is written, and returns the last plan.
func (w *world) settle(tb testing.TB) planned {
	tb.Helper()
	for range 100 {
		p := plan(w.o)
		if w.write(tb, p) == 0 {
			return p
		}
		w.applyRows()
	}
	require.Fail(tb, "the plan does not converge")
	return planned{}
}

func (w *world) grants() map[string]int32 {
	out := map[string]int32{}
	for name, r := range w.o.Rows {
		out[name] = r.Spec.Grant.Replicas
	}
	return out
}

func TestPlan(t *testing.T) {
	t.Parallel()
	t.Run("60% and 40% of 10 are 6 and 4, and an idle hub writes nothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(10, subsetIn("a", "east", "60%"), subsetIn("b", "west", "40%"))
		w.cluster("east", nil)
		w.cluster("west", nil)
		w.settle(t)
		require.Equal(t, map[string]int32{"east": 6, "west": 4}, w.grants())
		require.Zero(t, w.write(t, plan(w.o)))
	})
	t.Run("a selector makes one subset in each matching cluster", func(t *testing.T) {
		t.Parallel()
		w := newWorld(7, appsv1beta1.Subset{Name: "eu", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}})
		w.cluster("berlin", map[string]string{"region": "eu"})
		w.cluster("paris", map[string]string{"region": "eu"})
		w.cluster("tokyo", map[string]string{"region": "ap"})
		w.settle(t)
		require.Equal(t, map[string]int32{"berlin": 4, "paris": 3}, w.grants())
		require.Equal(t, "eu-berlin", w.slices["berlin"].Spec.Topology.Subsets[0].Name)
		require.Equal(t, int32(4), *w.slices["berlin"].Spec.Replicas)
	})
	t.Run("I6: an unreachable cluster keeps its number while the others continue", func(t *testing.T) {
		t.Parallel()
		w := newWorld(10, subsetIn("a", "east", ""), subsetIn("b", "west", ""))
		w.cluster("east", nil)
		w.cluster("west", nil)
		w.settle(t)
		w.unreachable("west")
		w.o.ud.Spec.Replicas = ptr.To[int32](20)
		w.settle(t)
		require.Equal(t, map[string]int32{"east": 15, "west": 5}, w.grants())
	})
	t.Run("I2: a maximum that was lowered is reached, though no other cluster can take the replicas", func(t *testing.T) {
		t.Parallel()
		w := newWorld(9, upTo("a", "east", 3), subsetIn("b", "west", ""))
		w.cluster("east", nil)
		w.cluster("west", nil)
		w.settle(t)
		require.Equal(t, map[string]int32{"east": 3, "west": 6}, w.grants())
		w.o.ud.Spec.Topology.Subsets[1] = upTo("b", "west", 4)
		p := w.settle(t)
		require.Equal(t, map[string]int32{"east": 3, "west": 4}, w.grants())
		require.Equal(t, 2, p.allocation.Unallocated)
		require.Empty(t, p.moves)
	})
	t.Run("I2: a cluster's limit that was lowered is reached, though no other cluster can take the replicas", func(t *testing.T) {
		t.Parallel()
		w := newWorld(6, subsetIn("a", "east", ""))
		w.cluster("east", nil)
		w.settle(t)
		w.o.Clusters["east"].Spec.Limits = &fleetv1alpha1.ClusterLimits{MaxReplicasPerObject: ptr.To[int32](2)}
		w.settle(t)
		require.Equal(t, map[string]int32{"east": 2}, w.grants())
	})
	t.Run("I5: maximums don't block the replicas of a lost cluster", func(t *testing.T) {
		t.Parallel()
		lose := map[string]func(*fleetv1alpha1.MemberCluster){
			"does not answer":         func(mc *fleetv1alpha1.MemberCluster) { mc.Status.Conditions[0].Status = metav1.ConditionFalse },
			"is not accepted":         func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Accepted = false },
			"lost its label":          func(mc *fleetv1alpha1.MemberCluster) { mc.Labels = nil },
			"leaves":                  func(mc *fleetv1alpha1.MemberCluster) { mc.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
			"disallows the namespace": func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Limits.AllowedNamespaces = []string{"other"} },
		}
		for name, change := range lose {
			w := newWorld(10, appsv1beta1.Subset{Name: "all", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"eu": "y"}}})
			for _, cluster := range []string{"east", "west"} {
				w.cluster(cluster, map[string]string{"eu": "y"})
				w.o.Clusters[cluster].Spec.Limits = &fleetv1alpha1.ClusterLimits{MaxReplicasPerObject: ptr.To[int32](5)}
			}
			w.settle(t)
			change(w.o.Clusters["west"])
			w.settle(t)
			require.Equal(t, map[string]int32{"east": 5, "west": 5}, w.grants(), "west %s", name)
		}
	})
	t.Run("a subset that moves to another cluster grows there before it shrinks here, then its row is deleted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(8, subsetIn("a", "east", "8"))
		w.cluster("east", nil)
		w.cluster("west", nil)
		w.settle(t)
		w.o.ud.Spec.Topology.Subsets[0].Cluster = "west"
		w.write(t, plan(w.o))
		require.Equal(t, map[string]int32{"east": 8, "west": 2}, w.grants(), "the default surge is a quarter")
		w.applyRows()
		p := w.settle(t)
		require.Equal(t, map[string]int32{"west": 8}, w.grants())
		require.Empty(t, p.moves)
	})
	for _, folded := range []bool{false, true} {
		t.Run(fmt.Sprintf("a subset that is emptied keeps its fields in the slice, also if its patch is too long for a row: %t", folded), func(t *testing.T) {
			t.Parallel()
			w := newWorld(4, subsetIn("a", "east", "2"), subsetIn("b", "east", "2"))
			w.o.ud.Spec.Topology.Subsets[1].Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
			w.cluster("east", nil)
			w.settle(t)
			if folded {
				manifest, err := json.Marshal(w.slices["east"])
				require.NoError(t, err)
				w.o.folded["east"], w.o.Rows["east"].Spec.Patch.Raw = manifest, nil
			}
			w.o.ud.Spec.Topology.Subsets = w.o.ud.Spec.Topology.Subsets[:1]
			w.o.ud.Spec.Topology.Subsets[0].Replicas = new(intstr.FromInt32(4))
			w.write(t, plan(w.o))
			require.Equal(t, "spot", w.slices["east"].Spec.Topology.Subsets[1].Tolerations[0].Key)
			w.applyRows()
			w.settle(t)
			require.Len(t, w.slices["east"].Spec.Topology.Subsets, 1)
		})
	}
	t.Run("partitions go to the subsets, and a selector's partition is shared", func(t *testing.T) {
		t.Parallel()
		w := newWorld(9, appsv1beta1.Subset{Name: "all", ClusterSelector: &metav1.LabelSelector{}})
		w.cluster("a", nil)
		w.cluster("b", nil)
		w.cluster("c", nil)
		w.o.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{Partitions: map[string]int32{"all": 6}}
		w.settle(t)
		for name, slice := range w.slices {
			require.Equal(t, map[string]int32{"all-" + name: 2}, slice.Spec.UpdateStrategy.ManualUpdate.Partitions)
		}
	})
	t.Run("a slice sets each partition, also 0, so that one that a user sets in a member is reverted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(4, subsetIn("a", "east", "3"), subsetIn("b", "east", "1"))
		w.cluster("east", nil)
		w.o.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{Partitions: map[string]int32{"a": 1}}
		w.settle(t)
		require.Equal(t, map[string]int32{"a": 1, "b": 0}, w.slices["east"].Spec.UpdateStrategy.ManualUpdate.Partitions)
	})
	t.Run("Deployments are granted no partition, since they can't keep pods at the old revision", func(t *testing.T) {
		t.Parallel()
		w := newWorld(3, subsetIn("a", "east", ""))
		w.cluster("east", nil)
		w.o.ud.Spec.Template.DeploymentTemplate = &appsv1beta1.DeploymentTemplateSpec{}
		w.o.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{Partitions: map[string]int32{"a": 1}}
		w.settle(t)
		require.Equal(t, map[string]int32{"a": 0}, w.slices["east"].Spec.UpdateStrategy.ManualUpdate.Partitions)
	})
	t.Run("the manifest is the same bytes in every cluster and has no numbers", func(t *testing.T) {
		t.Parallel()
		w := newWorld(5, subsetIn("a", "east", "2"), subsetIn("b", "west", "3"))
		w.o.ud.Annotations = map[string]string{"team": "shop"}
		w.cluster("east", nil)
		w.cluster("west", nil)
		p := plan(w.o)
		require.Len(t, p.Wants, 2)
		require.Equal(t, string(p.Wants[0].Manifest), string(p.Wants[1].Manifest))
		require.NotContains(t, string(p.Wants[0].Manifest), "subsets")
		require.NotContains(t, string(p.Wants[0].Manifest), `"replicas"`)
		require.Contains(t, string(p.Wants[0].Manifest), `"team":"shop"`)
	})
	t.Run("bookkeeping annotations of tools are not sent, so a change of them writes no row", func(t *testing.T) {
		t.Parallel()
		w := newWorld(5, subsetIn("a", "east", ""))
		w.o.ud.Annotations = map[string]string{"team": "shop", "apps.example/argocd.argoproj.io": "ours"}
		w.cluster("east", nil)
		before := string(plan(w.o).Wants[0].Manifest)
		for _, key := range []string{
			corev1.LastAppliedConfigAnnotation, "argocd.argoproj.io/tracking-id", "argocd.argoproj.io/sync-wave", "meta.helm.sh/release-name",
			"kustomize.toolkit.fluxcd.io/checksum", "helm.toolkit.fluxcd.io/driftDetection", "config.kubernetes.io/origin",
			"internal.config.kubernetes.io/path", "config.k8s.io/owning-inventory", "deployment.kubernetes.io/revision",
			"objectset.rio.cattle.io/applied", "pulumi.com/patchForce", keys.ConversionData, keys.FleetRowUID,
		} {
			w.o.ud.Annotations[key] = "noted"
			require.Equal(t, before, string(plan(w.o).Wants[0].Manifest), key)
		}
		w.o.ud.Annotations["team"] = "stock"
		require.NotEqual(t, before, string(plan(w.o).Wants[0].Manifest))
	})
	t.Run("an object with only bookkeeping annotations has no annotations in its slices", func(t *testing.T) {
		t.Parallel()
		w := newWorld(5, subsetIn("a", "east", ""))
		w.cluster("east", nil)
		before := string(plan(w.o).Wants[0].Manifest)
		w.o.ud.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}
		require.Equal(t, before, string(plan(w.o).Wants[0].Manifest))
	})
	t.Run("I20: a row that is already withdrawn is withdrawn again, because the hub's epoch may have been raised", func(t *testing.T) {
		t.Parallel()
		w := newWorld(2, subsetIn("a", "east", ""), subsetIn("b", "west", ""))
		w.cluster("east", nil)
		w.cluster("west", nil)
		w.settle(t)
		now := metav1.NewTime(time.Unix(0, 0))
		w.o.Rows["west"].DeletionTimestamp = &now
		p := plan(w.o)
		require.Len(t, p.Withdrawals, 1)
		require.Same(t, w.o.Rows["west"], p.Withdrawals[0].Row)
		require.Len(t, p.Wants, 1, "a row that is being deleted must be gone before it can be created again")
	})
	t.Run("I13: a cluster that is missing from the cache keeps its row", func(t *testing.T) {
		t.Parallel()
		w := newWorld(6, appsv1beta1.Subset{Name: "all", ClusterSelector: &metav1.LabelSelector{}})
		w.cluster("a", nil)
		w.cluster("b", nil)
		w.settle(t)
		delete(w.o.Clusters, "b")
		p := plan(w.o)
		require.Empty(t, p.Withdrawals)
		require.Zero(t, w.write(t, p))
		require.Equal(t, placement.ReasonUnknownCluster, p.problems[0].Reason)
	})
	t.Run("a named cluster that joins late gets the replicas reserved for it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(10, subsetIn("a", "east", ""), subsetIn("b", "north", "60%"))
		w.cluster("east", nil)
		p := w.settle(t)
		require.Equal(t, map[string]int32{"east": 4}, w.grants(), "the share of north is not given to the others")
		require.Equal(t, 6, p.allocation.Unallocated)
		require.Equal(t, "6 of 10 replicas are unallocated: 6 reserved for north, which has not joined", p.allocation.Why)
		require.Equal(t, placement.ReasonUnknownCluster, p.problems[0].Reason)
		s := statusAt(w.o, p, placement.Result{Rows: w.o.Rows}, time.Unix(1000, 0))
		require.Equal(t, "north", s.SubsetStatuses[1].Cluster)
		require.Equal(t, placement.ReasonUnknownCluster, s.SubsetStatuses[1].Reason)
		require.EqualValues(t, 6, s.UnallocatedReplicas)
		require.Zero(t, s.StaleClusters, "nothing runs there, so no cluster is stale")
		require.Equal(t, w.o.ud.Generation, s.ObservedGeneration)
		require.Contains(t, find(s.Conditions, appsv1beta1.SubsetFailure).Message, "subset b in north: there is no member cluster north")

		w.cluster("north", nil)
		w.o.Clusters["north"].Spec.Accepted = false
		require.Equal(t, placement.ReasonNotAccepted, w.settle(t).problems[0].Reason)
		require.Equal(t, map[string]int32{"east": 4}, w.grants(), "the share of north is not given to the others while it joins")
		w.o.Clusters["north"].Spec.Accepted = true
		w.o.Clusters["north"].Status = fleetv1alpha1.MemberClusterStatus{Phase: fleetv1alpha1.ClusterJoining}
		require.Equal(t, placement.ReasonNotJoined, w.settle(t).problems[0].Reason)
		require.Equal(t, map[string]int32{"east": 4}, w.grants())
		w.cluster("north", nil)
		require.Empty(t, w.settle(t).problems)
		require.Equal(t, map[string]int32{"east": 4, "north": 6}, w.grants())
	})
	t.Run("the share of a cluster without fixed replicas is left to the others until it has joined", func(t *testing.T) {
		t.Parallel()
		w := newWorld(10, subsetIn("a", "east", ""), subsetIn("b", "north", ""))
		w.cluster("east", nil)
		require.Empty(t, w.settle(t).allocation.Why)
		require.Equal(t, map[string]int32{"east": 10}, w.grants())
		w.cluster("north", nil)
		w.settle(t)
		require.Equal(t, map[string]int32{"east": 5, "north": 5}, w.grants())
	})
	for _, selected := range []bool{false, true} {
		taint := func(w *world, effect fleetv1alpha1.TaintEffect) {
			w.o.Clusters["west"].Spec.Taints = []fleetv1alpha1.ClusterTaint{{Key: "upgrade", Effect: effect}}
		}
		start := func(t *testing.T) *world {
			t.Helper()
			w := newWorld(10, subsetIn("a", "east", ""), subsetIn("b", "west", ""))
			if selected {
				w.o.ud.Spec.Topology.Subsets = []appsv1beta1.Subset{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}
			}
			w.cluster("east", nil)
			w.cluster("west", nil)
			w.settle(t)
			require.Equal(t, map[string]int32{"east": 5, "west": 5}, w.grants())
			return w
		}
		t.Run(fmt.Sprintf("I4: a taint that evicts moves replicas as they become available elsewhere, and back when it is removed; selected: %t", selected), func(t *testing.T) {
			t.Parallel()
			w := start(t)
			taint(w, fleetv1alpha1.Evict)
			w.write(t, plan(w.o))
			require.Equal(t, map[string]int32{"east": 8, "west": 5}, w.grants(), "the default surge is a quarter, and nothing is removed yet")
			for range 20 {
				w.applyRows()
				w.write(t, plan(w.o))
				available := int32(0)
				for _, r := range w.o.Rows {
					available += r.Spec.Grant.Replicas
				}
				require.GreaterOrEqual(t, available, int32(10))
			}
			require.EqualValues(t, 10, w.grants()["east"])
			require.Zero(t, w.grants()["west"])
			require.Equal(t, selected, w.o.Rows["west"] == nil, "a selector no longer matches the cluster")
			p := plan(w.o)
			require.Empty(t, p.problems, "all replicas have a place")
			require.Zero(t, w.write(t, p), "I8")
			w.o.Clusters["west"].Spec.Taints = nil
			w.settle(t)
			require.Equal(t, map[string]int32{"east": 5, "west": 5}, w.grants())
		})
		t.Run(fmt.Sprintf("NoPlace keeps replicas, and NoNewPlace lets them grow; selected: %t", selected), func(t *testing.T) {
			t.Parallel()
			w := start(t)
			taint(w, fleetv1alpha1.NoPlace)
			require.Zero(t, w.write(t, plan(w.o)))
			w.o.ud.Spec.Replicas = ptr.To[int32](20)
			require.Empty(t, w.settle(t).problems)
			require.Equal(t, map[string]int32{"east": 15, "west": 5}, w.grants())
			taint(w, fleetv1alpha1.NoNewPlace)
			w.settle(t)
			require.Equal(t, map[string]int32{"east": 10, "west": 10}, w.grants())
			w.o.ud.Spec.Replicas = ptr.To[int32](4)
			taint(w, fleetv1alpha1.NoPlace)
			w.settle(t)
			require.Equal(t, map[string]int32{"east": 2, "west": 2}, w.grants(), "a scale-in is shared")
		})
		t.Run(fmt.Sprintf("I5: taints that evict from all clusters remove nothing; selected: %t", selected), func(t *testing.T) {
			t.Parallel()
			w := start(t)
			taint(w, fleetv1alpha1.Evict)
			w.o.Clusters["east"].Spec.Taints = w.o.Clusters["west"].Spec.Taints
			p := w.settle(t)
			require.Equal(t, map[string]int32{"east": 5, "west": 5}, w.grants())
			require.NotEmpty(t, p.problems)
		})
	}
	t.Run("a name does not tolerate taints: a subset with fixed replicas waits, with a problem that names the taint", func(t *testing.T) {
		t.Parallel()
		w := newWorld(10, subsetIn("a", "east", "40%"), subsetIn("b", "west", "60%"))
		w.cluster("east", nil)
		w.cluster("west", nil)
		w.o.Clusters["west"].Spec.Taints = []fleetv1alpha1.ClusterTaint{{Key: "gpu", Value: "a100", Effect: fleetv1alpha1.NoNewPlace}}
		p := w.settle(t)
		require.Equal(t, map[string]int32{"east": 4}, w.grants())
		require.Equal(t, 6, p.allocation.Unallocated)
		require.Equal(t, placement.ReasonTainted, p.problems[0].Reason)
		require.Contains(t, p.problems[0].Message, "gpu=a100:NoNewPlace")
		w.o.Tolerations = []fleetv1alpha1.ClusterToleration{{Key: "gpu", Operator: fleetv1alpha1.TolerationExists}}
		require.Empty(t, w.settle(t).problems)
		require.Equal(t, map[string]int32{"east": 4, "west": 6}, w.grants())
	})
	t.Run("I5: naming a cluster that does not exist removes nothing from others", func(t *testing.T) {
		t.Parallel()
		w := newWorld(10, subsetIn("a", "east", ""))
		w.cluster("east", nil)
		w.settle(t)
		w.o.ud.Spec.Topology.Subsets = append(w.o.ud.Spec.Topology.Subsets, subsetIn("b", "north", "6"))
		w.settle(t)
		require.Equal(t, map[string]int32{"east": 10}, w.grants())
	})
	t.Run("removing the clusters of all subsets deletes nothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(6, subsetIn("a", "east", ""))
		w.cluster("east", nil)
		w.settle(t)
		w.o.ud.Spec.Topology.Subsets[0].Cluster = ""
		p := plan(w.o)
		require.False(t, p.Idle)
		require.Empty(t, p.Withdrawals)
		require.Contains(t, p.problems[0].Message, "name them again")
	})
	t.Run("an object without clusters is left to the local member stack, or gets a condition", func(t *testing.T) {
		t.Parallel()
		w := newWorld(6, subsetIn("a", "", ""))
		require.Equal(t, reasonNoCluster, plan(w.o).problems[0].Reason)
		w.o.localMember = true
		w.o.ud.Finalizers = nil
		require.True(t, plan(w.o).Idle)
	})
	t.Run("an object that the member stack here runs is not placed in clusters too, and is reported once", func(t *testing.T) {
		t.Parallel()
		w := newWorld(6, subsetIn("a", "east", ""))
		w.cluster("east", nil)
		w.o.localMember = true
		w.o.ud.Finalizers = nil
		w.o.ud.Status = appsv1beta1.UnitedDeploymentStatus{
			ObservedGeneration: 1, Replicas: 6, ReadyReplicas: 6, UpdatedRevision: "web-1", CurrentRevision: "web-1",
			SubsetStatuses: []appsv1beta1.SubsetStatus{{Name: "a", Replicas: 6}},
		}
		w.o.ud.Generation = 2
		p := plan(w.o)
		require.False(t, p.AddFinalizer)
		require.Empty(t, p.Wants)
		before := *w.o.ud.Status.DeepCopy()
		s, events := reported(w.o, p, placement.Result{Rows: w.o.Rows}, time.Unix(1000, 0))
		failure := find(s.Conditions, appsv1beta1.SubsetFailure)
		require.Equal(t, reasonRunsHere, failure.Reason)
		require.Contains(t, failure.Message, "remove the clusters from its subsets")
		require.Len(t, events, 1)
		w.o.ud.Status = s
		s.Conditions = nil
		require.Equal(t, before, s, "the status of the member stack is kept")
		again, events := reported(w.o, plan(w.o), placement.Result{Rows: w.o.Rows}, time.Unix(1000, 0))
		require.Equal(t, w.o.ud.Status, again)
		require.Empty(t, events)
	})
	t.Run("an object that lost the finalizer, for example by kubectl replace, gets it again and continues", func(t *testing.T) {
		t.Parallel()
		w := newWorld(6, subsetIn("a", "east", ""))
		w.cluster("east", nil)
		w.o.localMember = true
		w.settle(t)
		w.o.ud.Status = statusAt(w.o, plan(w.o), placement.Result{Rows: w.o.Rows}, time.Unix(1000, 0))
		require.NotEmpty(t, w.o.ud.Status.UpdatedRevision)
		w.o.ud.Finalizers = nil
		p := plan(w.o)
		require.True(t, p.AddFinalizer)
		require.Len(t, p.Wants, 1)
		w.o.Rows = nil
		p = plan(w.o)
		require.True(t, p.AddFinalizer, "the hub's cluster does not run it just because no member cluster does")
		require.Len(t, p.Wants, 1)
	})
	t.Run("an object with rows belongs to the hub until no row is left, then to the local member stack", func(t *testing.T) {
		t.Parallel()
		w := newWorld(6, subsetIn("a", "east", ""))
		w.cluster("east", nil)
		w.o.localMember = true
		w.settle(t)
		w.o.ud.Spec.Topology.Subsets[0].Cluster = ""
		p := plan(w.o)
		require.False(t, p.Idle || p.RemoveFinalizer)
		require.Empty(t, p.Withdrawals)
		require.Contains(t, p.problems[0].Message, "name them again")
		w.o.Rows = nil
		require.True(t, plan(w.o).RemoveFinalizer, "without the finalizer the member stack runs it")
	})
}

func TestPlanNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(w *world)
		reason string
	}{
		{"an unknown cluster", func(w *world) { delete(w.o.Clusters, "east") }, placement.ReasonUnknownCluster},
		{"a cluster that is not accepted", func(w *world) { w.o.Clusters["east"].Spec.Accepted = false }, placement.ReasonNotAccepted},
		{"a namespace that the cluster does not allow", func(w *world) {
			w.o.Clusters["east"].Spec.Limits = &fleetv1alpha1.ClusterLimits{AllowedNamespaces: []string{"other"}}
		}, fleetv1alpha1.ReasonNamespaceNotAllowed},
		{"a kind that the cluster does not allow", func(w *world) {
			w.o.Kinds = []schema.GroupKind{{Group: "apps.kruise.io", Kind: "UnitedDeployment"}}
			w.o.Clusters["east"].Spec.Limits = &fleetv1alpha1.ClusterLimits{AllowedKinds: []fleetv1alpha1.GroupKind{{Kind: "ConfigMap"}}}
		}, fleetv1alpha1.ReasonKindNotAllowed},
		{"a kind that the cluster does not serve", func(w *world) {
			w.o.Kinds = []schema.GroupKind{{Group: "apps.kruise.io", Kind: "UnitedDeployment"}}
			w.o.Clusters["east"].Status.Kinds = []fleetv1alpha1.ServedKind{{Kind: "ConfigMap"}}
		}, fleetv1alpha1.ReasonKindNotServed},
		{"two subsets with one name in one cluster", func(w *world) {
			w.o.ud.Spec.Topology.Subsets = []appsv1beta1.Subset{
				subsetIn("a-east", "east", "0"), {Name: "a", ClusterSelector: &metav1.LabelSelector{}},
			}
		}, reasonNameTaken},
		{"a selector that matches nothing", func(w *world) {
			w.o.ud.Spec.Topology.Subsets[0] = appsv1beta1.Subset{Name: "a", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}}
		}, reasonNoCluster},
		{"a name that is too long with the name of the cluster", func(w *world) {
			w.o.ud.Spec.Topology.Subsets[0] = appsv1beta1.Subset{Name: strings.Repeat("a", 60), ClusterSelector: &metav1.LabelSelector{}}
		}, reasonNameTaken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(3, subsetIn("a", "east", ""))
			w.cluster("east", nil)
			tt.change(w)
			p := plan(w.o)
			require.NotEmpty(t, p.problems)
			require.Equal(t, tt.reason, p.problems[0].Reason)
			require.NotEmpty(t, p.problems[0].Message)
			for _, want := range p.Wants {
				require.Zero(t, want.Grant.Replicas)
			}
		})
	}
}

func TestStatusWhileDeleting(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	deleting := func(t *testing.T, replicas int32) *world {
		t.Helper()
		w := newWorld(replicas, subsetIn("a", "east", "60%"), subsetIn("b", "west", "40%"))
		w.cluster("east", nil)
		w.cluster("west", nil)
		w.settle(t)
		w.o.ud.Status = statusAt(w.o, plan(w.o), placement.Result{Rows: w.o.Rows}, now)
		stamp := metav1.NewTime(now)
		w.o.ud.DeletionTimestamp = &stamp
		return w
	}
	// look stores the status and returns it with its events.
	look := func(w *world, problems ...placement.Problem) (appsv1beta1.UnitedDeploymentStatus, []event.Event) {
		s, events := reported(w.o, plan(w.o), placement.Result{Rows: w.o.Rows, Problems: problems}, now)
		w.o.ud.Status = s
		return s, events
	}
	placed := func(s appsv1beta1.UnitedDeploymentStatus) appsv1beta1.UnitedDeploymentCondition {
		return *find(s.Conditions, appsv1beta1.UnitedDeploymentPlaced)
	}
	t.Run("running pods are still counted, and one event reports the deletion", func(t *testing.T) {
		t.Parallel()
		w := deleting(t, 10)
		s, events := look(w)
		require.Equal(t, []int32{10, 10, 10}, []int32{s.Replicas, s.ReadyReplicas, s.UpdatedReplicas})
		require.Len(t, s.SubsetStatuses, 2)
		require.Equal(t, []int32{6, 4}, []int32{s.SubsetStatuses[0].AvailableReplicas, s.SubsetStatuses[1].AvailableReplicas})
		require.Equal(t, corev1.ConditionFalse, placed(s).Status)
		require.Equal(t, reasonDeleting, placed(s).Reason)
		require.Equal(t, "the object is being deleted: 2 clusters still hold it: east, west", placed(s).Message)
		require.Equal(t, []event.Event{event.Normal(eventWithdrawing, "Withdraw", "%s", placed(s).Message)}, events)
	})
	t.Run("rows that are being deleted count with their status, until they are gone", func(t *testing.T) {
		t.Parallel()
		w := deleting(t, 10)
		look(w)
		for _, r := range w.o.Rows {
			r.DeletionTimestamp, r.Status.Phase = w.o.ud.DeletionTimestamp, fleetv1alpha1.WorkDeleting
		}
		w.o.Rows["east"].Status.Subsets[0].Replicas = 2
		s, events := look(w)
		require.Equal(t, int32(6), s.Replicas)
		require.Empty(t, events)
		delete(w.o.Rows, "east")
		s, events = look(w)
		require.Equal(t, int32(4), s.Replicas)
		require.Equal(t, "the object is being deleted: 1 cluster still holds it: west", placed(s).Message)
		require.Empty(t, events, "the condition has not changed")
	})
	t.Run("an unreachable cluster is named first and once", func(t *testing.T) {
		t.Parallel()
		w := deleting(t, 10)
		w.unreachable("west")
		s, events := look(w)
		require.Equal(t, []int32{10, 6}, []int32{s.Replicas, s.ReadyReplicas})
		require.Equal(t, int32(1), s.StaleClusters)
		require.Equal(t, "the object is being deleted: 2 clusters still hold it: west (ClusterUnreachable), east", placed(s).Message)
		failure := find(s.Conditions, appsv1beta1.SubsetFailure)
		require.Equal(t, placement.ReasonUnreachable, failure.Reason)
		require.Equal(t, "west: the cluster can't be reached: its part of the object is deleted once it is back or has left", failure.Message)

		mc := w.o.Clusters["west"]
		mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{
			Type: fleetv1alpha1.ConditionSkewSupported, Status: metav1.ConditionFalse,
		})
		s, _ = look(w)
		failure = find(s.Conditions, appsv1beta1.SubsetFailure)
		require.Equal(t, placement.ReasonVersionSkew, failure.Reason)
		require.Contains(t, failure.Message, "west: the cluster runs a version of Flotilla that is too far from the hub's: its part")
		require.Equal(t, []string{eventBlocked, eventWithdrawing}, []string{events[0].Reason, events[1].Reason})
		again, events := look(w)
		require.Equal(t, s, again)
		require.Empty(t, events)
	})
	t.Run("the message of a paused withdrawal says what to do", func(t *testing.T) {
		t.Parallel()
		w := deleting(t, 10)
		s, events := look(w, placement.Problem{Cluster: "east", Reason: placement.ReasonPaused, Message: "withdrawals are paused: run this"})
		require.Equal(t, placement.ReasonPaused, find(s.Conditions, appsv1beta1.SubsetFailure).Reason)
		require.Equal(t, "east: withdrawals are paused: run this", find(s.Conditions, appsv1beta1.SubsetFailure).Message)
		require.Contains(t, placed(s).Message, "east (WithdrawalsPaused), west")
		require.Equal(t, event.Warning(eventBlocked, "Place", "WithdrawalsPaused: east: withdrawals are paused: run this"), events[0])
	})
	t.Run("I14: if the namespace is being deleted too, the message says that running objects are kept", func(t *testing.T) {
		t.Parallel()
		w := deleting(t, 10)
		w.o.namespaceTerminating = true
		s, _ := look(w)
		require.Contains(t, placed(s).Message, "the namespace is being deleted, and objects in the members are kept: 2 clusters")
	})
	t.Run("an object without replicas names its clusters too", func(t *testing.T) {
		t.Parallel()
		w := deleting(t, 0)
		w.o.ud.Generation++
		s, _ := look(w)
		require.Equal(t, int64(1), s.ObservedGeneration)
		require.Contains(t, placed(s).Message, "2 clusters still hold it")
		w.o.Rows = nil
		s, _ = look(w)
		require.Equal(t, "the object is being deleted: no cluster holds it anymore", placed(s).Message)
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	settled := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(10, subsetIn("a", "east", "60%"), subsetIn("b", "west", "40%"))
		w.cluster("east", nil)
		w.cluster("west", nil)
		w.settle(t)
		return w
	}
	report := func(w *world) appsv1beta1.UnitedDeploymentStatus {
		s := statusAt(w.o, plan(w.o), placement.Result{Rows: w.o.Rows}, now)
		return s
	}
	t.Run("sums, subsets and the revision", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		s := report(w)
		require.Equal(t, []int32{10, 10, 10, 10}, []int32{s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas})
		require.Equal(t, int64(1), s.ObservedGeneration)
		require.Equal(t, plan(w.o).revision.Revision.Name, s.UpdatedRevision)
		require.Equal(t, s.UpdatedRevision, s.CurrentRevision)
		require.Equal(t, "east", s.SubsetStatuses[0].Cluster)
		require.Equal(t, int32(6), s.SubsetStatuses[0].Replicas)
		require.Equal(t, "app=web", s.LabelSelector)
	})
	t.Run("I28: observedGeneration only waits for clusters that answer", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		w.o.ud.Generation, w.o.ud.Status.ObservedGeneration = 2, 1
		w.o.Rows["west"].Generation++
		require.Equal(t, int64(1), report(w).ObservedGeneration)
		w.unreachable("west")
		s := report(w)
		require.Equal(t, int64(2), s.ObservedGeneration)
		require.Equal(t, int32(1), s.StaleClusters)
		require.True(t, s.SubsetStatuses[1].Stale)
		require.Equal(t, []int32{10, 6}, []int32{s.Replicas, s.ReadyReplicas}, "stale pods count as existing, but not as ready")
	})
	t.Run("I28: a cluster that answers again counts as updated once it has applied this generation", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		w.o.ud.Status = report(w)
		w.o.ud.Generation++
		w.o.Rows["west"].Generation++
		away := w.o.Clusters["west"].DeepCopy()
		w.unreachable("west")
		w.o.ud.Status = report(w)
		require.Equal(t, int64(2), w.o.ud.Status.ObservedGeneration)
		require.Equal(t, int32(10), w.o.ud.Status.UpdatedReplicas, "pods of a stale cluster count as updated")
		require.Equal(t, int64(1), w.o.ud.Status.SubsetStatuses[1].ObservedGeneration, "the last generation that the cluster has applied")

		w.o.Clusters["west"] = away
		w.o.ud.Status = report(w)
		require.Equal(t, []int32{6, 6, 10}, []int32{
			w.o.ud.Status.UpdatedReplicas, w.o.ud.Status.UpdatedReadyReplicas, w.o.ud.Status.ReadyReplicas,
		}, "the counts of west are of the previous generation")
		require.Zero(t, w.o.ud.Status.SubsetStatuses[1].UpdatedReplicas)

		w.o.Rows["west"].Status.ObservedGeneration++
		w.o.ud.Status = report(w)
		require.Equal(t, []int32{10, 10}, []int32{w.o.ud.Status.UpdatedReplicas, w.o.ud.Status.UpdatedReadyReplicas})
		require.Equal(t, int64(2), w.o.ud.Status.SubsetStatuses[1].ObservedGeneration)

		w.o.Rows["west"].Generation++
		w.o.ud.Status = report(w)
		require.Equal(t, int32(10), w.o.ud.Status.UpdatedReplicas, "counts stay if a row changes within the same generation")
	})
	t.Run("I28: a row that is being deleted in a cluster that does not answer is stale like any other", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		stamp := metav1.NewTime(now)
		w.o.ud.Generation, w.o.ud.Status.ObservedGeneration = 2, 1
		w.o.ud.Spec.Topology.Subsets = []appsv1beta1.Subset{subsetIn("a", "east", "")}
		w.o.Rows["east"].Spec.Grant, w.o.Rows["east"].Status.ObservedGeneration = plan(w.o).Wants[0].Grant, w.o.Rows["east"].Generation
		w.o.Rows["west"].DeletionTimestamp = &stamp
		w.o.Rows["west"].Generation++
		require.Equal(t, int64(1), report(w).ObservedGeneration, "the generation waits for a cluster that answers")
		w.unreachable("west")
		s := report(w)
		require.Equal(t, int64(2), s.ObservedGeneration)
		require.Equal(t, int32(1), s.StaleClusters)
	})
	t.Run("I28: the status of a cluster that gets no row does not have this generation", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		w.o.ud.Generation, w.o.ud.Status.ObservedGeneration = 2, 1
		w.o.Clusters["west"].Spec.Accepted = false
		s := report(w)
		require.Equal(t, int64(2), s.SubsetStatuses[0].ObservedGeneration)
		require.Zero(t, s.SubsetStatuses[1].ObservedGeneration)
		require.True(t, s.SubsetStatuses[1].Stale)
	})
	t.Run("I28: a row that was emptied has no generation while its withdrawal is paused", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		w.o.ud.Generation, w.o.ud.Status.ObservedGeneration = 2, 1
		w.o.ud.Spec.Topology.Subsets = []appsv1beta1.Subset{subsetIn("a", "east", "")}
		for len(plan(w.o).Withdrawals) == 0 {
			require.Positive(t, w.write(t, plan(w.o)))
			require.Equal(t, int64(1), report(w).ObservedGeneration, "the row is not empty yet")
			w.applyRows()
		}
		failed := placement.Result{Rows: w.o.Rows, Err: errors.New("refused")}
		require.Equal(t, int64(1), statusAt(w.o, plan(w.o), failed, now).ObservedGeneration, "the withdrawal is not written")
		held := placement.Result{Rows: w.o.Rows, Problems: []placement.Problem{{Cluster: "west", Reason: placement.ReasonPaused, Message: "paused"}}}
		s := statusAt(w.o, plan(w.o), held, now)
		require.Equal(t, int64(2), s.ObservedGeneration)
		require.Equal(t, placement.ReasonPaused, find(s.Conditions, appsv1beta1.SubsetFailure).Reason)
	})
	t.Run("I28: a row that a plan does not write does not have this generation, though its cluster answers", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		w.o.ud.Generation, w.o.ud.Status.ObservedGeneration = 2, 1
		p := plan(w.o)
		p.Wants = p.Wants[:1]
		s := statusAt(w.o, p, placement.Result{Rows: w.o.Rows}, now)
		require.Equal(t, int64(1), s.ObservedGeneration)
	})
	t.Run("without clusters, the conditions have the reason", func(t *testing.T) {
		t.Parallel()
		for name, subset := range map[string]appsv1beta1.Subset{
			"an unknown cluster":              subsetIn("a", "nowhere", ""),
			"a selector that matches nothing": {Name: "a", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}},
			"no cluster":                      subsetIn("a", "", ""),
		} {
			w := newWorld(3, subset)
			s := report(w)
			require.Equal(t, int64(1), s.ObservedGeneration, name)
			require.Equal(t, corev1.ConditionFalse, find(s.Conditions, appsv1beta1.UnitedDeploymentPlaced).Status, name)
		}
	})
	t.Run("the generation is not observed if the only cluster does not answer or is no longer named", func(t *testing.T) {
		t.Parallel()
		w := newWorld(3, subsetIn("a", "east", ""))
		w.cluster("east", nil)
		w.unreachable("east")
		require.Zero(t, report(w).ObservedGeneration)
		w = settled(t)
		for i := range w.o.ud.Spec.Topology.Subsets {
			w.o.ud.Spec.Topology.Subsets[i].Cluster = ""
		}
		require.Zero(t, report(w).ObservedGeneration)
	})
	t.Run("I32: impossible counts are cut and reported", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		w.o.Rows["west"].Status.Subsets[0].Ready = -5
		w.o.Rows["west"].Status.Subsets[0].Replicas = 2_000_000_000
		s := report(w)
		require.LessOrEqual(t, s.Replicas, 6+placement.PlausibleFor(4).Cut(math.MaxInt32))
		require.Equal(t, int32(6), s.ReadyReplicas)
		require.Equal(t, fleetv1alpha1.ReasonImplausibleCounts, s.SubsetStatuses[1].Reason)
		require.Equal(t, fleetv1alpha1.ReasonImplausibleCounts, find(s.Conditions, appsv1beta1.SubsetFailure).Reason)
		require.Zero(t, w.write(t, plan(w.o)), "no other cluster is touched")
	})
	t.Run("a cluster with another partition than it was granted is reported", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		w.o.Rows["west"].Status.Subsets[0].Partition = 2
		s := report(w)
		require.Equal(t, reasonPartition, s.SubsetStatuses[1].Reason)
		require.Empty(t, s.SubsetStatuses[0].Reason)
		require.Equal(t, "subset b in west: the partition in the cluster is 2 instead of 0: check there what changes the slice",
			find(s.Conditions, appsv1beta1.SubsetFailure).Message)
		w.o.Rows["west"].Generation++
		require.Empty(t, report(w).SubsetStatuses[1].Reason, "the cluster may not have received the partition yet")
	})
	t.Run("a Deployment that is emptied keeps no pods at the old revision, which is not a problem", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		w.o.ud.Spec.Topology.Subsets = w.o.ud.Spec.Topology.Subsets[:1]
		w.o.ud.Spec.Topology.Subsets[0].Replicas = nil
		w.write(t, plan(w.o))
		w.applyRows()
		require.Positive(t, w.o.Rows["west"].Spec.Grant.Subsets[0].Partition)
		w.o.Rows["west"].Status.Subsets[0].Partition = 0
		require.Empty(t, report(w).SubsetStatuses[1].Reason)
	})
	t.Run("a blocked row shows its reason on its subset and on the object", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		w.o.Rows["east"].Status.Phase = fleetv1alpha1.WorkBlocked
		w.o.Rows["east"].Status.Reason = fleetv1alpha1.ReasonForeignObject
		w.o.Rows["east"].Status.Message = "shop/web is not ours"
		s := report(w)
		require.Equal(t, fleetv1alpha1.ReasonForeignObject, s.SubsetStatuses[0].Reason)
		require.Equal(t, "east: shop/web is not ours", find(s.Conditions, appsv1beta1.SubsetFailure).Message)
	})
	t.Run("the status is the same a minute later", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		w.o.ud.Status = report(w)
		s, events := reported(w.o, plan(w.o), placement.Result{Rows: w.o.Rows}, now.Add(time.Minute))
		require.Equal(t, w.o.ud.Status, s)
		require.Empty(t, events)
	})
	t.Run("an object without clusters still reports what runs", func(t *testing.T) {
		t.Parallel()
		w := settled(t)
		for i := range w.o.ud.Spec.Topology.Subsets {
			w.o.ud.Spec.Topology.Subsets[i].Cluster = ""
		}
		s := report(w)
		require.Equal(t, []int32{10, 10}, []int32{s.Replicas, s.AvailableReplicas})
		require.Equal(t, reasonNoCluster, find(s.Conditions, appsv1beta1.UnitedDeploymentPlaced).Reason)
	})
	t.Run("I26: 5,000 clusters fit into 64 KiB", func(t *testing.T) {
		t.Parallel()
		w := newWorld(20000, appsv1beta1.Subset{Name: "all", ClusterSelector: &metav1.LabelSelector{}})
		for i := range 5000 {
			w.cluster("cluster-with-a-long-name-"+strconv.Itoa(i), nil)
		}
		w.write(t, plan(w.o))
		w.applyRows()
		w.o.Rows["cluster-with-a-long-name-0"].Status.Phase = fleetv1alpha1.WorkDegraded
		s := report(w)
		require.Len(t, s.SubsetStatuses, 200)
		raw, err := json.Marshal(s)
		require.NoError(t, err)
		require.Less(t, len(raw), 64<<10)
	})
}

func TestAttack20NoMemberNamesTheRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(2, subsetIn("a", "east", ""), subsetIn("b", "west", ""))
	w.cluster("east", nil)
	w.cluster("west", nil)
	p := w.settle(t)
	for _, r := range w.o.Rows {
		r.Status.Revision = "web-<b>"
	}
	s := statusAt(w.o, p, placement.Result{Rows: w.o.Rows}, time.Unix(1000, 0))
	require.Equal(t, p.revision.Revision.Name, s.UpdatedRevision)
	require.Equal(t, p.revision.Revision.Name, s.CurrentRevision)
}

func TestAPatchHasTheFormInWhichTheApiserverStoresIt(t *testing.T) {
	t.Parallel()
	raw, err := patch([]part{{
		name: "a", grant: fleetv1alpha1.SubsetGrant{Replicas: 3, Partition: 1},
		spec: appsv1beta1.Subset{
			NodeSelectorTerm: &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a"}}}},
			Patch:            &runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"tier":"web"}}}`)},
		},
	}, {name: "b"}})
	require.NoError(t, err)
	var fields any
	require.NoError(t, json.Unmarshal(raw, &fields))
	kept, err := json.Marshal(fields) // Keys are sorted.
	require.NoError(t, err)
	require.Equal(t, string(kept), string(raw))
}

// statusAt returns the new status after the plan was applied with that result.
func statusAt(o *observed, p planned, r placement.Result, now time.Time) appsv1beta1.UnitedDeploymentStatus {
	return status(o, p, placement.Summarize(o.Fleet, p.Plan, r), now)
}

// reported returns the new status, and the events for the change.
func reported(o *observed, p planned, a placement.Result, now time.Time) (appsv1beta1.UnitedDeploymentStatus, []event.Event) {
	s := statusAt(o, p, a, now)
	return s, changed(*o.ud.Spec.Replicas, o.ud.Status, s).Events
}

func TestTextsOfAStatusSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(10, subsetIn("a", "east", "60%"), subsetIn("b", "west", "40%"))
	w.cluster("east", nil)
	w.cluster("west", nil)
	w.settle(t)
	p, now := plan(w.o), time.Unix(1000, 0)
	s, events := reported(w.o, p, placement.Result{Rows: w.o.Rows}, now)
	require.Contains(t, events, event.Normal(eventPlaced, "Place", "all replicas are placed: %d", int32(10)))
	require.Equal(t, corev1.ConditionTrue, find(s.Conditions, appsv1beta1.SubsetProvisioned).Status)
	why := placement.Problem{Cluster: "east", Reason: placement.ReasonPaused, Message: "too many"}
	s, _ = reported(w.o, p, placement.Result{Rows: w.o.Rows, Problems: []placement.Problem{why}}, now)
	require.Equal(t, "east: too many", find(s.Conditions, appsv1beta1.SubsetProvisioned).Message, "all clusters have applied their part")
	s, _ = reported(w.o, p, placement.Result{Rows: w.o.Rows, Err: errors.New("disk full")}, now)
	require.Equal(t, "disk full", find(s.Conditions, appsv1beta1.SubsetProvisioned).Message)
}

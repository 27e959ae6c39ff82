package resourcedistribution

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
)

const password = "c2VjcmV0LXBhc3N3b3Jk"

// world is a hub with some clusters, whose members do what their rows request, unless a test changes that.
type world struct{ o *observed }

func newWorld(to appsv1beta1.ResourceDistributionClusters, clusters ...string) *world {
	w := &world{&observed{
		Fleet:    placement.Fleet{Clusters: map[string]*fleetv1alpha1.MemberCluster{}, Rows: map[string]*fleetv1alpha1.MemberWork{}},
		occupied: map[string]bool{}, closed: []string{"kube-node-lease", "ships"},
		rd: &appsv1beta1.ResourceDistribution{
			ObjectMeta: metav1.ObjectMeta{Name: "registry", UID: "rd-uid", Generation: 1, Finalizers: []string{keys.FleetRow}},
			Spec: appsv1beta1.ResourceDistributionSpec{
				Resource: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"registry"},"data":{"password":"` + password + `"}}`)},
				Targets:  appsv1beta1.ResourceDistributionTargets{AllNamespaces: true, Clusters: &to},
			},
		},
	}}
	for _, name := range clusters {
		w.cluster(name)
	}
	return w
}

func all() appsv1beta1.ResourceDistributionClusters {
	return appsv1beta1.ResourceDistributionClusters{All: true}
}

func named(names ...string) appsv1beta1.ResourceDistributionClusters {
	return appsv1beta1.ResourceDistributionClusters{Names: names}
}

func labelled(tier string) appsv1beta1.ResourceDistributionClusters {
	return appsv1beta1.ResourceDistributionClusters{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}}
}

func without(to appsv1beta1.ResourceDistributionClusters, names ...string) appsv1beta1.ResourceDistributionClusters {
	to.Excluded = names
	return to
}

func (w *world) cluster(name string) *fleetv1alpha1.MemberCluster {
	w.o.Clusters[name] = &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "web"}},
		Spec:       fleetv1alpha1.MemberClusterSpec{Accepted: true},
		Status: fleetv1alpha1.MemberClusterStatus{
			Phase:      fleetv1alpha1.ClusterReady,
			Hub:        &fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 3},
			Conditions: []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
	return w.o.Clusters[name]
}

func (w *world) unreachable(name string) {
	w.o.Clusters[name].Status.Phase = fleetv1alpha1.ClusterUnreachable
	w.o.Clusters[name].Status.Conditions[0].Status = metav1.ConditionFalse
}

func (w *world) taint(name string, effect fleetv1alpha1.TaintEffect) {
	w.o.Clusters[name].Spec.Taints = []fleetv1alpha1.ClusterTaint{{Key: "upgrade", Effect: effect}}
}

// row gives a cluster the row of the object. The member has copies in that many namespaces.
func (w *world) row(cluster string, desired, succeeded int32) *fleetv1alpha1.MemberWork {
	w.o.Rows[cluster] = &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{
			Name: "row", Namespace: fleetv1alpha1.Namespace(cluster), UID: types.UID(cluster), Generation: 1,
			Labels: map[string]string{keys.FleetCluster: cluster},
		},
		Spec: fleetv1alpha1.MemberWorkSpec{Source: fleetv1alpha1.WorkSource{Kind: sourceKind, Name: w.o.rd.Name}},
		Status: fleetv1alpha1.MemberWorkStatus{
			ObservedGeneration: 1, Phase: fleetv1alpha1.WorkHealthy,
			Counts: fleetv1alpha1.WorkCounts{Desired: desired, Available: succeeded},
		},
	}
	return w.o.Rows[cluster]
}

// outcome describes a plan in a few words: the clusters that get a row, those that lose theirs, and the reasons of the problems.
func outcome(p planned) string {
	var parts []string
	for _, want := range p.Wants {
		parts = append(parts, "+"+want.Cluster)
	}
	for _, w := range p.Withdrawals {
		parts = append(parts, fmt.Sprintf("-%s(%s)", w.Row.Labels[keys.FleetCluster], w.Policy))
	}
	for _, problem := range p.problems {
		parts = append(parts, strings.TrimPrefix(problem.Cluster+":"+problem.Reason, ":"))
	}
	return strings.Join(parts, " ")
}

func TestWhichClustersGetKeepAndLoseTheirPart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		to     appsv1beta1.ResourceDistributionClusters
		change func(w *world)
		want   string
	}{
		{name: "All clusters are selected.", to: all(), want: "+east +north +west"},
		{name: "All clusters are selected, except those that are excluded.", to: without(all(), "west", "gone"), want: "+east +north"},
		{name: "Clusters are selected by name.", to: named("west", "east"), want: "+east +west"},
		{name: "Clusters are selected by labels.", to: labelled("db"), change: func(w *world) { w.o.Clusters["north"].Labels["tier"] = "db" }, want: "+north"},
		{name: "An excluded cluster is not selected by labels.", to: without(labelled("web"), "north"), want: "+east +west"},
		{name: "No cluster matches.", to: labelled("none"), want: "NoCluster"},
		{name: "An invalid selector matches nothing.", to: appsv1beta1.ResourceDistributionClusters{Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}},
		}}, want: "NoCluster"},
		{name: "A cluster that is excluded later loses its copies.", to: without(all(), "west"), change: func(w *world) {
			w.row("east", 1, 1)
			w.row("west", 1, 1)
		}, want: "+east +north -west(Delete)"},
		{name: "A cluster that does not answer loses its copies when it is back.", to: without(all(), "west"), change: func(w *world) {
			w.row("west", 1, 1)
			w.unreachable("west")
		}, want: "+east +north -west(Delete)"},
		{name: "A cluster that loses the label loses its copies.", to: labelled("web"), change: func(w *world) {
			w.row("west", 1, 1)
			w.o.Clusters["west"].Labels = nil
		}, want: "+east +north -west(Delete)"},
		{name: "I13: a cluster that is missing from the list keeps its copies.", to: all(), change: func(w *world) {
			w.row("west", 1, 1)
			delete(w.o.Clusters, "west")
		}, want: "+east +north"},
		{name: "I13: a named cluster that is missing keeps its copies.", to: named("west"), change: func(w *world) {
			w.row("west", 1, 1)
			delete(w.o.Clusters, "west")
		}, want: "west:UnknownCluster"},
		{name: "I13: an excluded cluster that is missing keeps its copies.", to: without(all(), "west"), change: func(w *world) {
			w.row("west", 1, 1)
			delete(w.o.Clusters, "west")
		}, want: "+east +north"},
		{name: "A leaving cluster keeps or loses its copies by its own policy.", to: all(), change: func(w *world) {
			w.row("west", 1, 1)
			w.o.Clusters["west"].DeletionTimestamp = new(metav1.Unix(1, 0))
		}, want: "+east +north"},
		{name: "A leaving cluster gets no copies.", to: named("west"), change: func(w *world) {
			w.o.Clusters["west"].DeletionTimestamp = new(metav1.Unix(1, 0))
		}, want: "west:ClusterLeaving"},
		{name: "A named cluster that does not exist is awaited.", to: named("east", "south"), want: "+east south:UnknownCluster"},
		{name: "A named cluster that has not joined is awaited.", to: named("east"), change: func(w *world) {
			w.o.Clusters["east"].Status.Phase = fleetv1alpha1.ClusterJoining
		}, want: "east:ClusterNotJoined"},
		{name: "A cluster that is not accepted gets no copies.", to: named("east"), change: func(w *world) { w.o.Clusters["east"].Spec.Accepted = false }, want: "east:ClusterNotAccepted"},
		{name: "A cluster that is no longer accepted keeps its copies.", to: without(all(), "west"), change: func(w *world) {
			w.row("west", 1, 1)
			w.o.Clusters["west"].Spec.Accepted = false
		}, want: "+east +north"},
		{name: "A cluster whose namespace is not prepared gets its copies later.", to: named("east"), change: func(w *world) { w.o.Clusters["east"].Status.Hub = nil }, want: ""},
		{name: "An unreachable cluster gets its copies when it is back.", to: named("east"), change: func(w *world) { w.unreachable("east") }, want: "east:ClusterUnreachable"},
		{name: "The row of an unreachable cluster is up to date when it is back.", to: named("east"), change: func(w *world) {
			w.row("east", 1, 1)
			w.unreachable("east")
		}, want: "+east east:ClusterUnreachable"},
		{name: "A cluster gets no row while one is being deleted.", to: all(), change: func(w *world) {
			row := w.row("west", 1, 1)
			row.DeletionTimestamp, row.Spec.DeletionPolicy = new(metav1.Unix(1, 0)), fleetv1alpha1.LeaveDelete
		}, want: "+east +north -west(Delete)"},

		{name: "NoPlace keeps new copies out.", to: all(), change: func(w *world) { w.taint("west", fleetv1alpha1.NoPlace) }, want: "+east +north"},
		{name: "NoNewPlace keeps new copies out.", to: labelled("web"), change: func(w *world) { w.taint("west", fleetv1alpha1.NoNewPlace) }, want: "+east +north"},
		{name: "A name does not tolerate taints.", to: named("west"), change: func(w *world) { w.taint("west", fleetv1alpha1.NoNewPlace) }, want: "west:ClusterTainted"},
		{name: "Placed copies stay, and follow the resource.", to: all(), change: func(w *world) {
			w.row("west", 1, 1)
			w.taint("west", fleetv1alpha1.NoPlace)
		}, want: "+east +north +west"},
		{name: "Evict keeps new copies out.", to: named("west"), change: func(w *world) { w.taint("west", fleetv1alpha1.Evict) }, want: "west:ClusterTainted"},
		{name: "Evict withdraws placed copies.", to: all(), change: func(w *world) {
			w.row("west", 1, 1)
			w.taint("west", fleetv1alpha1.Evict)
		}, want: "+east +north -west(Delete) west:ClusterTainted"},
		{name: "Evict waits for the pods that may need the copies.", to: all(), change: func(w *world) {
			w.row("west", 1, 1)
			w.taint("west", fleetv1alpha1.Evict)
			w.o.occupied["west"] = true
		}, want: "+east +north +west west:ClusterTainted"},
		{name: "An unreachable cluster is frozen, whatever its taints.", to: named("west"), change: func(w *world) {
			w.row("west", 1, 1)
			w.taint("west", fleetv1alpha1.Evict)
			w.unreachable("west")
		}, want: "+west west:ClusterUnreachable"},

		{name: "A cluster that does not allow the kind gets no copies, and loses placed ones.", to: all(), change: func(w *world) {
			w.o.Kinds = []schema.GroupKind{{Group: "apps.kruise.io", Kind: sourceKind}}
			w.row("west", 1, 1)
			for _, name := range []string{"west", "north"} {
				w.o.Clusters[name].Spec.Limits = &fleetv1alpha1.ClusterLimits{AllowedKinds: []fleetv1alpha1.GroupKind{{Kind: "ConfigMap"}}}
			}
		}, want: "+east -west(Delete) north:KindNotAllowed west:KindNotAllowed"},
		{name: "A cluster that does not serve the kind gets no copies, and keeps placed ones.", to: all(), change: func(w *world) {
			w.o.Kinds = []schema.GroupKind{{Group: "apps.kruise.io", Kind: sourceKind}}
			w.row("west", 1, 1)
			for _, name := range []string{"west", "north"} {
				w.o.Clusters[name].Status.Kinds = []fleetv1alpha1.ServedKind{{Kind: "ConfigMap"}}
			}
		}, want: "+east +west north:KindNotServed"},
		{name: "A cluster with allowedNamespaces gets no copies for all namespaces.", to: all(), change: limit("shop"), want: "+east +north west:NamespaceNotAllowed"},
		{name: "A cluster with allowedNamespaces gets no copies for namespaces selected by labels.", to: all(), change: func(w *world) {
			limit("shop")(w)
			w.o.rd.Spec.Targets.AllNamespaces = false
			w.o.rd.Spec.Targets.NamespaceSelector.MatchLabels = map[string]string{"a": "b"}
		}, want: "+east +north west:NamespaceNotAllowed"},
		{name: "A cluster gets no copies in a namespace that it does not allow.", to: all(), change: func(w *world) {
			limit("shop")(w)
			include(w, "shop", "bank")
		}, want: "+east +north west:NamespaceNotAllowed"},
		{name: "A cluster gets copies in namespaces that it allows.", to: all(), change: func(w *world) {
			limit("shop")(w)
			include(w, "shop")
		}, want: "+east +north +west"},
		{name: "An excluded namespace does not count.", to: all(), change: func(w *world) {
			limit("shop")(w)
			include(w, "shop", "bank")
			w.o.rd.Spec.Targets.ExcludedNamespaces.List = []appsv1beta1.ResourceDistributionNamespace{{Name: "bank"}}
		}, want: "+east +north +west"},
		{name: "A cluster that is limited later loses its copies, since new namespaces would get some too.", to: all(), change: func(w *world) {
			w.row("west", 1, 1)
			limit("shop")(w)
		}, want: "+east +north -west(Delete) west:NamespaceNotAllowed"},

		{name: "All rows of a deleted object are withdrawn.", to: all(), change: func(w *world) {
			w.o.rd.DeletionTimestamp = new(metav1.Unix(1, 0))
			w.row("east", 1, 1)
			w.row("west", 1, 1)
			w.unreachable("west")
		}, want: "-east(Delete) -west(Delete) west:ClusterUnreachable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(tt.to, "east", "north", "west")
			if tt.change != nil {
				tt.change(w)
			}
			require.Equal(t, tt.want, outcome(plan(w.o)))
		})
	}
}

// limit makes west accept only objects in these namespaces.
func limit(namespaces ...string) func(*world) {
	return func(w *world) {
		w.o.Clusters["west"].Spec.Limits = &fleetv1alpha1.ClusterLimits{AllowedNamespaces: namespaces}
	}
}

func include(w *world, namespaces ...string) {
	t := &w.o.rd.Spec.Targets
	t.AllNamespaces, t.IncludedNamespaces.List = false, nil
	for _, name := range namespaces {
		t.IncludedNamespaces.List = append(t.IncludedNamespaces.List, appsv1beta1.ResourceDistributionNamespace{Name: name})
	}
}

func TestTheFinalizerIsAddedFirstAndRemovedLast(t *testing.T) {
	t.Parallel()
	w := newWorld(all(), "east")
	w.o.rd.Finalizers = nil
	require.True(t, plan(w.o).AddFinalizer)
	w.o.rd.Finalizers, w.o.rd.DeletionTimestamp = []string{keys.FleetRow}, new(metav1.Unix(1, 0))
	require.True(t, plan(w.o).RemoveFinalizer)
	w.row("east", 1, 1)
	require.False(t, plan(w.o).RemoveFinalizer)
}

func TestAnObjectWithoutClustersIsLeftToTheMemberStack(t *testing.T) {
	t.Parallel()
	w := newWorld(all(), "east")
	w.o.rd.Spec.Targets.Clusters, w.o.rd.Finalizers, w.o.localMember = nil, nil, true
	require.True(t, plan(w.o).Idle, "the local member stack distributes it")
	w.o.localMember = false
	p := plan(w.o)
	require.False(t, p.Idle)
	require.Equal(t, "NoCluster", outcome(p))
	w.o.localMember = true
	w.row("east", 1, 1)
	require.Equal(t, "NoCluster", outcome(plan(w.o)), "placed copies stay until the object is deleted")
}

func TestASliceHasTheResourceAndTheNamespaces(t *testing.T) {
	t.Parallel()
	slice := func(change func(rd *appsv1beta1.ResourceDistribution)) (appsv1beta1.ResourceDistribution, bool) {
		w := newWorld(all(), "east")
		change(w.o.rd)
		p := plan(w.o)
		require.Len(t, p.Wants, 1)
		var out appsv1beta1.ResourceDistribution
		require.NoError(t, json.Unmarshal(p.Wants[0].Manifest, &out))
		require.Nil(t, out.Spec.Targets.Clusters, "a member has no clusters")
		require.Empty(t, p.Wants[0].Patch)
		require.Equal(t, int64(3), p.Wants[0].Grant.Epoch)
		return out, p.Wants[0].Inline
	}
	list := func(names ...string) (out []appsv1beta1.ResourceDistributionNamespace) {
		for _, name := range names {
			out = append(out, appsv1beta1.ResourceDistributionNamespace{Name: name})
		}
		return out
	}
	secret, inline := slice(func(rd *appsv1beta1.ResourceDistribution) {
		rd.Labels = map[string]string{"team": "a"}
		rd.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": password, "kept": "x"}
	})
	require.True(t, inline, "a Secret is in no shared content")
	require.Equal(t, map[string]string{"kept": "x"}, secret.Annotations)
	require.Equal(t, map[string]string{"team": "a"}, secret.Labels)
	require.Contains(t, string(secret.Spec.Resource.Raw), password)
	require.True(t, secret.Spec.Targets.AllNamespaces)
	require.Equal(t, list("kube-node-lease", "ships"), secret.Spec.Targets.ExcludedNamespaces.List)

	settings, inline := slice(func(rd *appsv1beta1.ResourceDistribution) {
		rd.Spec.Resource.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"}}`)
		rd.Spec.Targets.IncludedNamespaces.List = list("shop", "ships")
		rd.Spec.Targets.ExcludedNamespaces.List = list("bank")
	})
	require.False(t, inline)
	require.Equal(t, list("bank", "kube-node-lease"), settings.Spec.Targets.ExcludedNamespaces.List, "namespaces that are named stay")
	require.Equal(t, list("shop", "ships"), settings.Spec.Targets.IncludedNamespaces.List)

	byName, _ := slice(func(rd *appsv1beta1.ResourceDistribution) {
		rd.Spec.Targets.AllNamespaces, rd.Spec.Targets.IncludedNamespaces.List = false, list("shop")
	})
	require.Empty(t, byName.Spec.Targets.ExcludedNamespaces.List, "names need no exclusion")

	byLabel, _ := slice(func(rd *appsv1beta1.ResourceDistribution) {
		rd.Spec.Targets.AllNamespaces = false
		rd.Spec.Targets.NamespaceSelector.MatchLabels = map[string]string{"a": "b"}
	})
	require.Equal(t, map[string]string{"a": "b"}, byLabel.Spec.Targets.NamespaceSelector.MatchLabels)
	require.Equal(t, list("kube-node-lease", "ships"), byLabel.Spec.Targets.ExcludedNamespaces.List)

	_, inline = slice(func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Resource.Raw = []byte(`{}`) })
	require.True(t, inline, "a resource that can't be read may be a Secret")
}

// statusOf returns the status of a world in which nothing is written.
func statusOf(w *world) appsv1beta1.ResourceDistributionStatus {
	return statusAt(w, time.Unix(1000, 0))
}

func statusAt(w *world, now time.Time) appsv1beta1.ResourceDistributionStatus {
	p := plan(w.o)
	return status(w.o, p, placement.Summarize(w.o.Fleet, p.Plan, placement.Result{Rows: w.o.Rows}), now)
}

func reasonOf(s appsv1beta1.ResourceDistributionStatus, kind appsv1beta1.ResourceDistributionConditionType) string {
	c := find(s.Conditions, kind)
	if c == nil {
		return ""
	}
	if c.Status != metav1.ConditionTrue {
		return "-"
	}
	return c.Reason
}

func TestStatus(t *testing.T) {
	t.Parallel()
	const placementFailed, copyFailed = appsv1beta1.ResourceDistributionPlacementFailed, appsv1beta1.ResourceDistributionCopyFailed

	t.Run("numbers are sums", func(t *testing.T) {
		t.Parallel()
		w := newWorld(all(), "east", "west")
		w.row("east", 5, 5)
		w.row("west", 3, 1)
		s := statusOf(w)
		require.Equal(t, [3]int32{8, 6, 2}, [3]int32{s.Desired, s.Succeeded, s.Failed})
		require.Equal(t, [2]int32{2, 0}, [2]int32{s.SelectedClusters, s.StaleClusters})
		require.Equal(t, int64(1), s.ObservedGeneration)
		require.Equal(t, []appsv1beta1.ResourceDistributionClusterStatus{
			{Cluster: "west", Desired: 3, Succeeded: 1, Failed: 2, ObservedGeneration: 1},
			{Cluster: "east", Desired: 5, Succeeded: 5, ObservedGeneration: 1},
		}, s.Clusters, "the worst first")
		require.Equal(t, "-", reasonOf(s, placementFailed))
		require.Equal(t, "-", reasonOf(s, copyFailed))
	})
	t.Run("I32: impossible numbers are cut, and the cluster is named", func(t *testing.T) {
		t.Parallel()
		w := newWorld(all(), "east", "south", "west")
		w.row("east", 2, 2)
		w.row("south", -1, 7)
		w.row("west", math.MaxInt32, math.MaxInt32)
		s := statusOf(w)
		require.Equal(t, int32(2+mostNamespaces), s.Desired)
		require.Equal(t, s.Desired, s.Succeeded)
		require.Equal(t, fleetv1alpha1.ReasonImplausibleCounts, reasonOf(s, copyFailed))
		require.Equal(t, fleetv1alpha1.ReasonImplausibleCounts, s.Clusters[0].Reason)
		require.Contains(t, find(s.Conditions, copyFailed).Message, "south: the cluster reports implausible numbers of namespaces, which were clamped to 0 of 0")
		include(w, "a", "b")
		require.Equal(t, int32(4), statusOf(w).Desired, "there are only the named namespaces")
	})
	t.Run("I26: a status is small however many clusters there are and whatever they say", func(t *testing.T) {
		t.Parallel()
		w := newWorld(all())
		for i := range 5000 {
			name := fmt.Sprintf("cluster-with-a-long-name-%d", i)
			w.cluster(name)
			row := w.row(name, mostNamespaces, mostNamespaces)
			if i%2 == 0 {
				row.Status.Phase, row.Status.Reason, row.Status.Message = fleetv1alpha1.WorkDegraded, "ConflictOccurred", strings.Repeat("x", 512)
			}
		}
		s := statusOf(w)
		require.Len(t, s.Clusters, shown)
		require.Equal(t, int32(5000*mostNamespaces), s.Desired)
		raw, err := json.Marshal(s)
		require.NoError(t, err)
		require.Less(t, len(raw), 16<<10)
	})
	t.Run("a blocked row and a failed copy are different failures", func(t *testing.T) {
		t.Parallel()
		w := newWorld(all(), "east", "south", "west")
		fail := func(cluster string, phase fleetv1alpha1.WorkPhase, reason, message string) {
			row := w.row(cluster, 2, 1)
			row.Status.Phase, row.Status.Reason, row.Status.Message = phase, reason, message
		}
		fail("east", fleetv1alpha1.WorkBlocked, fleetv1alpha1.ReasonForeignObject, "there is one")
		fail("south", fleetv1alpha1.WorkDegraded, "CreateResourceFailed", "Forbidden: shop: no")
		w.row("west", 1, 1)
		s := statusOf(w)
		require.Equal(t, fleetv1alpha1.ReasonForeignObject, reasonOf(s, placementFailed))
		require.Equal(t, "east: there is one", find(s.Conditions, placementFailed).Message)
		require.Equal(t, "CreateResourceFailed", reasonOf(s, copyFailed))
		require.Equal(t, "south: Forbidden: shop: no", find(s.Conditions, copyFailed).Message)
		require.Equal(t, "Forbidden: shop: no", s.Clusters[1].Message)
	})
	t.Run("I28: a generation is observed when all clusters that answer have applied it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(all(), "east", "west")
		w.row("east", 1, 1)
		w.row("west", 1, 1).Status.ObservedGeneration = 0
		w.o.rd.Generation, w.o.rd.Status.ObservedGeneration = 2, 1
		w.o.rd.Status.Clusters = []appsv1beta1.ResourceDistributionClusterStatus{{Cluster: "west", ObservedGeneration: 1}}
		s := statusOf(w)
		require.Equal(t, int64(1), s.ObservedGeneration)
		require.Equal(t, int64(1), s.Clusters[slices.IndexFunc(s.Clusters, func(l line) bool { return l.Cluster == "west" })].ObservedGeneration)
		w.unreachable("west")
		s = statusOf(w)
		require.Equal(t, int64(2), s.ObservedGeneration)
		require.Equal(t, int32(1), s.StaleClusters)
		require.True(t, s.Clusters[0].Stale)
		require.Equal(t, placement.ReasonUnreachable, s.Clusters[0].Reason)
		require.Equal(t, int32(2), s.Desired, "the last reported number")
	})
	t.Run("copies that are being withdrawn do not count", func(t *testing.T) {
		t.Parallel()
		w := newWorld(without(all(), "west"), "east", "west")
		w.row("east", 1, 1)
		w.row("west", 7, 7)
		s := statusOf(w)
		require.Equal(t, int32(1), s.Desired)
		require.Equal(t, reasonWithdrawing, s.Clusters[0].Reason)
		require.Equal(t, "-", reasonOf(s, placementFailed))
	})
	t.Run("the status of a deleted object names the clusters that hold it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(all(), "east", "west")
		w.row("east", 1, 1)
		w.row("west", 1, 1)
		w.unreachable("west")
		w.o.rd.DeletionTimestamp = new(metav1.Unix(1, 0))
		s := statusOf(w)
		require.Equal(t, reasonDeleting, reasonOf(s, appsv1beta1.ResourceDistributionWithdrawing))
		require.Equal(t, "the object is being deleted: 2 clusters still hold it: west (ClusterUnreachable), east",
			find(s.Conditions, appsv1beta1.ResourceDistributionWithdrawing).Message)
	})
	t.Run("a condition keeps its time while its status is the same", func(t *testing.T) {
		t.Parallel()
		w := newWorld(all(), "east")
		w.row("east", 1, 1)
		w.o.rd.Status = statusOf(w)
		require.Equal(t, w.o.rd.Status, statusAt(w, time.Unix(2000, 0)))
	})
}

func TestI35NeitherStatusNorEventsRepeatASecret(t *testing.T) {
	t.Parallel()
	// Each has something else to report about a cluster.
	for name, change := range map[string]func(*world){
		"a blocked row":                     func(w *world) { w.row("east", 2, 1).Status.Phase = fleetv1alpha1.WorkBlocked },
		"a failed row":                      func(w *world) { w.row("east", 2, 1).Status.Phase = fleetv1alpha1.WorkDegraded },
		"impossible numbers":                func(w *world) { w.row("east", -1, 7) },
		"a cluster that does not answer":    func(w *world) { w.row("east", 1, 1); w.unreachable("east") },
		"a cluster that may not get copies": func(w *world) { w.taint("east", fleetv1alpha1.NoPlace) },
		"an object that is being deleted":   func(w *world) { w.row("east", 1, 1); w.o.rd.DeletionTimestamp = new(metav1.Unix(1, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(named("east", "south"), "east")
			change(w)
			s := statusOf(w)
			raw, err := json.Marshal(s)
			require.NoError(t, err)
			require.NotContains(t, string(raw), password)
			for _, e := range changed(1, "Secret registry", appsv1beta1.ResourceDistributionStatus{}, s).Events {
				require.NotContains(t, e.Note, password)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(all(), "east")
	before := statusOf(w)
	notes := func(before, after appsv1beta1.ResourceDistributionStatus) (out []string) {
		for _, e := range changed(1, "Secret registry", before, after).Events {
			out = append(out, fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Note))
		}
		return out
	}
	require.Empty(t, notes(appsv1beta1.ResourceDistributionStatus{}, before))
	w.row("east", 4, 4)
	done := statusOf(w)
	require.Equal(t, []string{"Normal Distributed distributed to namespaces: 4, clusters: 1, object: Secret registry"}, notes(before, done))
	require.Empty(t, notes(done, done))
	w.o.Rows["east"].Status = fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkDegraded, Reason: "ConflictOccurred", Message: "Conflict: shop: there is an object"}
	failed := statusOf(w)
	require.Equal(t, []string{"Warning CopyFailed ConflictOccurred: east: Conflict: shop: there is an object"}, notes(done, failed))
	require.Empty(t, notes(failed, failed))
	w.o.rd.DeletionTimestamp = new(metav1.Unix(1, 0))
	require.Equal(t, []string{"Normal WithdrawingCopies the object is being deleted: 1 cluster still holds it: east"}, notes(failed, statusOf(w)))
}

func TestWhatMayWait(t *testing.T) {
	t.Parallel()
	w := newWorld(all(), "east", "west")
	w.row("east", 1, 1)
	w.row("west", 1, 1)
	rest := statusOf(w)
	for name, tt := range map[string]struct {
		change func(s *appsv1beta1.ResourceDistributionStatus)
		want   bool
	}{
		"numbers":                      {func(s *appsv1beta1.ResourceDistributionStatus) { s.Desired++ }, true},
		"a message with several lines": {func(s *appsv1beta1.ResourceDistributionStatus) { s.Clusters[0].Reason = "a" }, true},
		"a new generation":             {func(s *appsv1beta1.ResourceDistributionStatus) { s.ObservedGeneration++ }, false},
		"a failure": {func(s *appsv1beta1.ResourceDistributionStatus) {
			s.Conditions[0].Status, s.Conditions[0].Reason = metav1.ConditionTrue, "a"
		}, false},
	} {
		after := *rest.DeepCopy()
		tt.change(&after)
		require.Equal(t, tt.want, changed(1, "", rest, after).Collect > 0, name)
		require.Equal(t, tt.want, changed(1, "", after, rest).Collect > 0, "the end of "+name)
	}
}

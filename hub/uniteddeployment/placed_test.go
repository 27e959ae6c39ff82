package uniteddeployment

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
)

// recorded is a queue that stores the names of what is added.
type recorded struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	names []string
}

func (r *recorded) Add(req reconcile.Request) {
	if !slices.Contains(r.names, req.Name) {
		r.names = append(r.names, req.Name)
	}
}

func TestAClusterEnqueuesOnlyTheObjectsThatItConcerns(t *testing.T) {
	t.Parallel()
	object := func(name string, subsets ...appsv1beta1.Subset) client.Object {
		ud := newWorld(1, subsets...).o.ud
		ud.Name, ud.UID = name, types.UID(name)
		return ud
	}
	selecting := func(selector metav1.LabelSelector) appsv1beta1.Subset {
		return appsv1beta1.Subset{Name: "s", ClusterSelector: &selector}
	}
	region := func(name string) appsv1beta1.Subset {
		return selecting(metav1.LabelSelector{MatchLabels: map[string]string{"region": name}})
	}
	held := func(source, kind, cluster string) client.Object {
		return &fleetv1alpha1.MemberWork{
			ObjectMeta: metav1.ObjectMeta{Name: source, Namespace: fleetv1alpha1.Namespace(cluster), Labels: map[string]string{keys.FleetCluster: cluster}},
			Spec:       fleetv1alpha1.MemberWorkSpec{Source: fleetv1alpha1.WorkSource{Kind: kind, Namespace: "shop", Name: source}},
		}
	}
	b := newFixture(t,
		object("names-east", subsetIn("a", "east", "")), object("names-both", subsetIn("a", "west", ""), subsetIn("b", "east", "")),
		object("names-west", subsetIn("a", "west", "")), object("names-none", subsetIn("a", "", "")),
		object("selects-eu", region("eu")), object("selects-us", region("us")), object("selects-all", selecting(metav1.LabelSelector{})),
		object("selects-badly", selecting(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}})),
		object("left-east", subsetIn("a", "west", "")), held("left-east", sourceKind, "east"),
		held("other-kind", "Other", "east"), held("left-west", sourceKind, "west"),
	)
	east := func(change ...func(*fleetv1alpha1.MemberCluster)) *fleetv1alpha1.MemberCluster {
		w := newWorld(1)
		w.cluster("east", map[string]string{"region": "eu"})
		for _, f := range change {
			f(w.o.Clusters["east"])
		}
		return w.o.Clusters["east"]
	}
	relabel := func(mc *fleetv1alpha1.MemberCluster) { mc.Labels = map[string]string{"region": "us"} }
	concerned := []string{"left-east", "names-both", "names-east", "selects-all", "selects-eu"}
	for _, tt := range []struct {
		name          string
		before, after *fleetv1alpha1.MemberCluster // nil before is a creation, nil after a deletion
		start         bool                         // it exists when the controller starts
		want          []string
	}{
		{name: "a cluster is created", after: east(), want: concerned},
		{name: "a cluster exists when the controller starts, which enqueues all objects", after: east(), start: true},
		{name: "a cluster is gone", before: east(), want: concerned},
		{name: "a cluster becomes unreachable", before: east(), after: east(func(mc *fleetv1alpha1.MemberCluster) {
			mc.Status.Conditions[0].Status = metav1.ConditionFalse
		}), want: concerned},
		{name: "a cluster is no longer accepted", before: east(), after: east(func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Accepted = false }), want: concerned},
		{name: "a cluster starts to leave", before: east(), after: east(func(mc *fleetv1alpha1.MemberCluster) {
			mc.DeletionTimestamp = new(metav1.Now())
		}), want: concerned},
		{name: "the limits of a cluster change", before: east(), after: east(func(mc *fleetv1alpha1.MemberCluster) {
			mc.Spec.Limits = &fleetv1alpha1.ClusterLimits{AllowedNamespaces: []string{"shop"}}
		}), want: concerned},
		{name: "the labels of a cluster match other selectors", before: east(), after: east(relabel), want: append([]string{"selects-us"}, concerned...)},
		{name: "the labels of a cluster change, but match the same selectors", before: east(relabel), after: east(relabel, func(mc *fleetv1alpha1.MemberCluster) {
			mc.Labels = map[string]string{"region": "us", "tier": "web"}
		}), want: []string{"left-east", "names-both", "names-east", "selects-all", "selects-us"}},
		{name: "a cluster reports counts and heartbeats", before: east(), after: east(func(mc *fleetv1alpha1.MemberCluster) {
			mc.ResourceVersion, mc.Status.KubernetesVersion, mc.Status.Rows = "2", "v1.36.0", &fleetv1alpha1.RowCounts{Total: 9}
			mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{Type: fleetv1alpha1.ConditionHeartbeatFresh, Status: metav1.ConditionTrue})
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := &recorded{}
			h := placement.ClusterHandler(sourceKind, b.Client.Client, Kind(b.options).Placed(b.Client.Client))
			switch {
			case tt.before == nil:
				h.Create(t.Context(), event.CreateEvent{Object: tt.after, IsInInitialList: tt.start}, q)
			case tt.after == nil:
				h.Delete(t.Context(), event.DeleteEvent{Object: tt.before}, q)
			default:
				h.Update(t.Context(), event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}, q)
			}
			require.ElementsMatch(t, tt.want, q.names)
		})
	}
}

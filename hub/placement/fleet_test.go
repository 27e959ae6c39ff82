package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/allot"
)

// member returns a ready MemberCluster.
func member(name string) *fleetv1alpha1.MemberCluster {
	return &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": "eu"}},
		Spec:       fleetv1alpha1.MemberClusterSpec{Accepted: true},
		Status: fleetv1alpha1.MemberClusterStatus{
			Phase:      fleetv1alpha1.ClusterReady,
			Hub:        &fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 7},
			Conditions: []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
}

// held returns a row of a cluster that the member has acknowledged.
func held(cluster string) *fleetv1alpha1.MemberWork {
	return &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{
			Name: "kind-web", Namespace: fleetv1alpha1.Namespace(cluster), Generation: 3, Finalizers: []string{keys.FleetRow},
			Labels: map[string]string{keys.FleetCluster: cluster, keys.FleetSourceUID: "web-uid"},
		},
		Spec: fleetv1alpha1.MemberWorkSpec{
			Source: fleetv1alpha1.WorkSource{Kind: "Kind", Namespace: "shop", Name: "web"}, DeletionPolicy: fleetv1alpha1.LeaveOrphan,
		},
		Status: fleetv1alpha1.MemberWorkStatus{ObservedGeneration: 3},
	}
}

// fleet returns a Fleet of these clusters, each with a row.
func fleet(members ...*fleetv1alpha1.MemberCluster) Fleet {
	f := Fleet{Clusters: map[string]*fleetv1alpha1.MemberCluster{}, Rows: map[string]*fleetv1alpha1.MemberWork{}}
	for _, mc := range members {
		f.Clusters[mc.Name], f.Rows[mc.Name] = mc, held(mc.Name)
	}
	return f
}

func condition(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status}
}

func TestAvailabilityOfAClusterAndWhatItsRowsDo(t *testing.T) {
	t.Parallel()
	deleted := metav1.NewTime(time.Unix(1, 0))
	for _, tt := range []struct {
		name   string
		change func(f Fleet, east *fleetv1alpha1.MemberCluster)
		// want doesn't include Message.
		want      Availability
		silent    string
		takesRows bool
	}{
		{"a ready cluster gets replicas", func(Fleet, *fleetv1alpha1.MemberCluster) {}, Availability{}, "", true},
		{"a ready cluster gets replicas up to its limit", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Spec.Limits = &fleetv1alpha1.ClusterLimits{MaxReplicasPerObject: new(int32(5))}
		}, Availability{Limit: new(5)}, "", true},
		{"a cluster that does not allow the namespace is drained", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Spec.Limits = &fleetv1alpha1.ClusterLimits{AllowedNamespaces: []string{"other"}}
		}, Availability{State: allot.Draining, Reason: fleetv1alpha1.ReasonNamespaceNotAllowed}, "", true},
		{"a cluster that does not allow the kind is drained", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Spec.Limits = &fleetv1alpha1.ClusterLimits{AllowedKinds: []fleetv1alpha1.GroupKind{{Group: "apps", Kind: "Deployment"}, {Kind: "ConfigMap"}}}
		}, Availability{State: allot.Draining, Reason: fleetv1alpha1.ReasonKindNotAllowed}, "", true},
		{"a cluster that allows all kinds of the object gets replicas", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Spec.Limits = &fleetv1alpha1.ClusterLimits{AllowedKinds: []fleetv1alpha1.GroupKind{
				{Group: "apps", Kind: "Deployment"}, {Group: "apps.kruise.io", Kind: "WorkloadSpread"},
			}}
		}, Availability{}, "", true},
		{"I13: a cluster that no longer serves a kind keeps its replicas", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Status.Kinds = []fleetv1alpha1.ServedKind{{Group: "apps", Kind: "Deployment"}}
		}, Availability{}, "", true},
		{"a cluster that does not serve a kind and has no row is awaited", func(f Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Status.Kinds = []fleetv1alpha1.ServedKind{{Group: "apps", Kind: "Deployment"}}
			delete(f.Rows, east.Name)
		}, Availability{State: allot.Awaited, Reason: fleetv1alpha1.ReasonKindNotServed}, "", true},
		{"a cluster whose list of kinds may be incomplete gets replicas", func(f Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Status.Kinds = make([]fleetv1alpha1.ServedKind, fleetv1alpha1.MaxServedKinds)
			delete(f.Rows, east.Name)
		}, Availability{}, "", true},
		{"a cluster that serves all kinds gets replicas", func(f Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Status.Kinds = []fleetv1alpha1.ServedKind{{Group: "apps", Kind: "Deployment"}, {Group: "apps.kruise.io", Kind: "WorkloadSpread"}}
			delete(f.Rows, east.Name)
		}, Availability{}, "", true},
		{"an unreachable cluster is frozen", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Status.Conditions[0].Status = metav1.ConditionFalse
		}, Availability{State: allot.Frozen, Reason: ReasonUnreachable}, ReasonUnreachable, true},
		{"a cluster with an unsupported version is frozen", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Status.Conditions = []metav1.Condition{condition(fleetv1alpha1.ConditionSkewSupported, metav1.ConditionFalse)}
		}, Availability{State: allot.Frozen, Reason: ReasonVersionSkew}, ReasonVersionSkew, true},
		{"a cluster that has not joined is frozen", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Status.Phase, east.Status.Conditions = fleetv1alpha1.ClusterJoining, nil
		}, Availability{State: allot.Frozen, Reason: ReasonNotJoined}, ReasonUnreachable, true},
		{"an unsteady cluster is frozen", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Status.Phase, east.Status.Conditions[0].Status = fleetv1alpha1.ClusterJoining, metav1.ConditionFalse
			east.Status.Conditions[0].Reason = fleetv1alpha1.ReasonUnsteady
		}, Availability{State: allot.Frozen, Reason: reasonUnsteady}, reasonUnsteady, true},
		{"an unsteady cluster without a row is awaited", func(f Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Status.Phase, east.Status.Conditions[0].Status = fleetv1alpha1.ClusterJoining, metav1.ConditionFalse
			east.Status.Conditions[0].Reason = fleetv1alpha1.ReasonUnsteady
			delete(f.Rows, east.Name)
		}, Availability{State: allot.Awaited, Reason: reasonUnsteady}, reasonUnsteady, true},
		{"a cluster that is not accepted is frozen", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Spec.Accepted = false
		}, Availability{State: allot.Frozen, Reason: ReasonNotAccepted}, ReasonNotAccepted, false},
		{"I13: a cluster that is missing while its row exists is frozen", func(f Fleet, east *fleetv1alpha1.MemberCluster) {
			delete(f.Clusters, east.Name)
		}, Availability{State: allot.Frozen, Reason: ReasonUnknownCluster}, ReasonUnknownCluster, false},
		{"a cluster that has not joined and has no row is awaited", func(f Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Status.Phase, east.Status.Conditions = fleetv1alpha1.ClusterJoining, nil
			delete(f.Rows, east.Name)
		}, Availability{State: allot.Awaited, Reason: ReasonNotJoined}, ReasonUnreachable, true},
		{"a cluster that is not accepted and has no row is awaited", func(f Fleet, east *fleetv1alpha1.MemberCluster) {
			east.Spec.Accepted = false
			delete(f.Rows, east.Name)
		}, Availability{State: allot.Awaited, Reason: ReasonNotAccepted}, ReasonNotAccepted, false},
		{"a cluster that does not exist is awaited", func(f Fleet, east *fleetv1alpha1.MemberCluster) {
			delete(f.Clusters, east.Name)
			delete(f.Rows, east.Name)
		}, Availability{State: allot.Awaited, Unusable: true, Reason: ReasonUnknownCluster}, ReasonUnknownCluster, false},
		{"a leaving cluster gets no rows", func(_ Fleet, east *fleetv1alpha1.MemberCluster) {
			east.DeletionTimestamp = &deleted
		}, Availability{Unusable: true, Reason: reasonLeaving}, reasonLeaving, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			east := member("east")
			f := fleet(east)
			f.Kinds = []schema.GroupKind{{Group: "apps", Kind: "Deployment"}, {Group: "apps.kruise.io", Kind: "WorkloadSpread"}}
			tt.change(f, east)
			got := f.Availability("east", "shop")
			require.Equal(t, tt.want.Reason != "", got.Message != "", "a reason has a message")
			got.Message = ""
			require.Equal(t, tt.want, got)
			silent, message := f.Silent("east")
			require.Equal(t, tt.silent, silent)
			require.Equal(t, silent != "", message != "")
			require.Equal(t, silent != "" && f.Rows["east"] != nil, f.Stale()["east"])
			require.Equal(t, tt.takesRows, f.TakesRows("east"))
		})
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	refused, other, lost := member("refused"), member("other"), member("lost")
	refused.Spec.Accepted = false
	other.Labels = nil
	f := fleet(member("west"), member("east"), refused, other, lost)
	delete(f.Clusters, "lost")
	require.Equal(t, []string{"east", "west"}, f.Select("shop", labels.SelectorFromSet(labels.Set{"region": "eu"})))
	require.Equal(t, []string{"lost"}, f.Missing())
	epoch, prepared := f.Epoch("east")
	require.True(t, prepared)
	require.EqualValues(t, 7, epoch)
	f.Clusters["east"].Status.Hub = nil
	_, prepared = f.Epoch("east")
	require.False(t, prepared)
}

package resourcedistribution

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/testkit"
)

// cached returns a client whose cache has these objects, and the options that it was created with.
func cached(t *testing.T, objects ...client.Object) (placement.Client, Options) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	require.NoError(t, Kind(Options{}).Index(t.Context(), testkit.Indexes{Builder: b}))
	c, o := b.Build(), Options{Options: placement.Options{Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}}
	return o.NewClient(sourceKind, c, c), o
}

func TestWhichObjectsAClusterConcerns(t *testing.T) {
	t.Parallel()
	object := func(name string, to *appsv1beta1.ResourceDistributionClusters) *appsv1beta1.ResourceDistribution {
		rd := newWorld(all()).o.rd
		rd.Name, rd.Spec.Targets.Clusters = name, to
		return rd
	}
	c, o := cached(t, object("all", new(all())), object("named", new(named("east", "west"))), object("labelled", new(labelled("web"))), object("none", nil))
	for _, tt := range []struct {
		cluster string
		labels  map[string]string
		want    []string
	}{
		{"east", nil, []string{"all", "named"}},
		{"north", nil, []string{"all"}},
		{"north", map[string]string{"tier": "web"}, []string{"all", "labelled"}},
	} {
		keys, err := Kind(o).Placed(c)(t.Context(), tt.cluster, tt.labels)
		require.NoError(t, err)
		var names []string
		for _, key := range keys {
			names = append(names, key.Name)
		}
		slices.Sort(names)
		require.Equal(t, tt.want, names)
	}
}

// queue stores what is added.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	added []string
}

func (q *queue) Add(r reconcile.Request) { q.added = append(q.added, r.Name) }

func TestTheEndOfTheLastPodsInAnEvictingClusterEnqueuesObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(all(), "east", "west")
	w.taint("east", fleetv1alpha1.Evict)
	w.taint("west", fleetv1alpha1.NoPlace)
	c, _ := cached(t, w.o.Clusters["east"], w.o.Clusters["west"], w.row("east", 1, 1), w.row("west", 1, 1))
	with := func(cluster, kind string, granted, running int32) *fleetv1alpha1.MemberWork {
		return &fleetv1alpha1.MemberWork{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: fleetv1alpha1.Namespace(cluster), Labels: map[string]string{keys.FleetCluster: cluster}},
			Spec:       fleetv1alpha1.MemberWorkSpec{Source: fleetv1alpha1.WorkSource{Kind: kind}, Grant: fleetv1alpha1.WorkGrant{Replicas: granted}},
			Status:     fleetv1alpha1.MemberWorkStatus{Counts: fleetv1alpha1.WorkCounts{Replicas: running}},
		}
	}
	const kind = "UnitedDeployment"
	for _, tt := range []struct {
		name   string
		before *fleetv1alpha1.MemberWork
		after  *fleetv1alpha1.MemberWork // nil if it is deleted
		expect []string
	}{
		{"fewer pods", with("east", kind, 3, 3), with("east", kind, 1, 3), nil},
		{"a grant of 0 while pods run", with("east", kind, 1, 1), with("east", kind, 0, 1), nil},
		{"the last pod is gone", with("east", kind, 0, 1), with("east", kind, 0, 0), []string{"registry"}},
		{"the last pod was already gone", with("east", kind, 0, 0), with("east", kind, 0, 0), nil},
		{"a cluster that evicts nothing", with("west", kind, 0, 1), with("west", kind, 0, 0), nil},
		{"a cluster that is gone", with("gone", kind, 0, 1), nil, nil},
		{"a row with pods is deleted", with("east", kind, 1, 1), nil, []string{"registry"}},
		{"a row without pods is deleted", with("east", kind, 0, 0), nil, nil},
		{"a row of a copy is deleted", with("east", sourceKind, 0, 1), nil, nil},
	} {
		q := &queue{}
		if h := emptied(c); tt.after == nil {
			h.Delete(t.Context(), event.DeleteEvent{Object: tt.before}, q)
		} else {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}, q)
		}
		require.Equal(t, tt.expect, q.added, tt.name)
	}
}

func TestAClusterThatEvictsIsOccupiedByPods(t *testing.T) {
	t.Parallel()
	w := newWorld(all(), "east", "west")
	w.taint("east", fleetv1alpha1.Evict)
	objects := []client.Object{w.o.rd, w.o.Clusters["east"], w.o.Clusters["west"]}
	for _, cluster := range []string{"east", "west"} {
		row := w.row(cluster, 1, 1)
		web := row.DeepCopy()
		web.Name, web.Spec.Source.Kind, web.Spec.Grant.Replicas = "web", "UnitedDeployment", 2
		row.Labels[keys.FleetSourceUID] = string(w.o.rd.UID)
		objects = append(objects, web, row)
	}
	c, options := cached(t, objects...)
	o, err := observe(t.Context(), c, client.ObjectKeyFromObject(w.o.rd), options)
	require.NoError(t, err)
	require.Len(t, o.Rows, 2)
	require.Equal(t, map[string]bool{"east": true}, o.occupied, "only clusters that evict are counted")
}

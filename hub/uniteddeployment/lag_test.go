package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/testkit"
)

// The watch on each kind delivers events in order, but there is no order between kinds. Whatever the caches show when a change of a cluster
// arrives, in the end each object has been planned from what they show last.
func TestNoOrderOfWatchEventsHidesAChangeFromAnObject(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLag(t)
		for i := range rapid.IntRange(5, 50).Draw(t, "steps") {
			switch at := strconv.Itoa(i); rapid.SampledFrom([]string{"object", "cluster", "cluster", "row", "deliver", "deliver", "deliver", "reconcile"}).Draw(t, at) {
			case "object":
				l.editObject()
			case "cluster":
				l.editCluster()
			case "row":
				l.editRow()
			case "deliver":
				l.deliver(rapid.IntRange(0, 2).Draw(t, "kind"))
			case "reconcile":
				l.reconcile()
			}
		}
		for kind := range l.pending {
			for len(l.pending[kind]) > 0 {
				l.deliver(kind)
			}
		}
		l.reconcile()
		for name := range l.planned {
			require.Equal(t, l.plan(name), l.planned[name], "the last plan of %s", name)
		}
	})
}

const (
	objectWatch = iota
	clusterWatch
	rowWatch
)

// change is a watch event. before is nil for an added object, and after is nil for a deleted one.
type change struct{ before, after client.Object }

// lag is a hub whose caches lag: what exists, what the watches still have to deliver, and the last plan for each object.
type lag struct {
	t *rapid.T
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	placement.Client
	options  placement.Options
	objects  []*appsv1beta1.UnitedDeployment
	clusters map[string]*fleetv1alpha1.MemberCluster
	rows     map[string]*fleetv1alpha1.MemberWork
	pending  [3][]change
	handlers [3]handler.EventHandler
	queue    map[string]bool
	planned  map[string]string
}

func newLag(t *rapid.T) *lag {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, appsv1beta1.AddToScheme, fleetv1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	b := fake.NewClientBuilder().WithScheme(scheme)
	options := placement.Options{Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	require.NoError(t, Kind(options).Index(t.Context(), testkit.Indexes{Builder: b}))
	c := b.Build()
	l := &lag{
		t: t, options: options, Client: options.NewClient(sourceKind, c, c), clusters: map[string]*fleetv1alpha1.MemberCluster{}, rows: map[string]*fleetv1alpha1.MemberWork{},
		queue: map[string]bool{}, planned: map[string]string{},
		handlers: [3]handler.EventHandler{
			&handler.EnqueueRequestForObject{}, placement.ClusterHandler(sourceKind, c, Kind(options).Placed(c)), placement.RowHandler(sourceKind),
		},
	}
	for _, name := range []string{"east", "west"} {
		w := newWorld(1)
		w.cluster(name, map[string]string{"tier": "web"})
		l.clusters[name] = w.o.Clusters[name]
		l.happens(clusterWatch, nil, l.clusters[name])
		l.deliver(clusterWatch)
	}
	for i, subset := range []appsv1beta1.Subset{subsetIn("a", "east", ""), selecting(map[string]string{"tier": "web"})} {
		ud := newWorld(4, subset).o.ud
		ud.Name = fmt.Sprintf("web-%d", i)
		ud.UID = types.UID(ud.Name)
		ud.Finalizers = nil // The fake client would keep it.
		l.objects = append(l.objects, ud)
		l.happens(objectWatch, nil, ud)
		l.deliver(objectWatch)
	}
	return l
}

func (l *lag) Add(req reconcile.Request) { l.queue[req.Name] = true }

func (l *lag) AddAfter(req reconcile.Request, _ time.Duration) { l.queue[req.Name] = true }

func (l *lag) happens(kind int, before, after client.Object) {
	l.pending[kind] = append(l.pending[kind], change{before, after})
}

// deliver shows the next change of a kind in the cache, and then to the controller.
func (l *lag) deliver(kind int) {
	if len(l.pending[kind]) == 0 {
		return
	}
	e, ctx := l.pending[kind][0], l.t.Context()
	l.pending[kind] = l.pending[kind][1:]
	if e.before != nil {
		require.NoError(l.t, l.Delete(ctx, e.before.DeepCopyObject().(client.Object)))
	}
	if e.after != nil {
		require.NoError(l.t, l.Create(ctx, e.after.DeepCopyObject().(client.Object)))
	}
	switch {
	case e.before == nil:
		l.handlers[kind].Create(ctx, event.CreateEvent{Object: e.after}, l)
	case e.after == nil:
		l.handlers[kind].Delete(ctx, event.DeleteEvent{Object: e.before}, l)
	default:
		l.handlers[kind].Update(ctx, event.UpdateEvent{ObjectOld: e.before, ObjectNew: e.after}, l)
	}
}

func (l *lag) reconcile() {
	for name := range l.queue {
		delete(l.queue, name)
		l.planned[name] = l.plan(name)
	}
}

// plan returns what is planned for an object from what the caches show.
func (l *lag) plan(name string) string {
	o, err := observe(l.t.Context(), l.Client, client.ObjectKey{Namespace: "shop", Name: name}, l.options)
	require.NoError(l.t, err)
	p := plan(o)
	var withdrawn []string
	for _, w := range p.Withdrawals {
		withdrawn = append(withdrawn, w.Row.Namespace)
	}
	out, err := json.MarshalIndent([]any{p.Wants, withdrawn, p.problems, p.moves, p.allocation, placement.Summarize(o.Fleet, p.Plan, placement.Result{}).Stale}, "", " ")
	require.NoError(l.t, err)
	return string(out)
}

func selecting(labels map[string]string) appsv1beta1.Subset {
	return appsv1beta1.Subset{Name: "s", ClusterSelector: &metav1.LabelSelector{MatchLabels: labels}}
}

func (l *lag) editObject() {
	i := rapid.IntRange(0, len(l.objects)-1).Draw(l.t, "object")
	before, after := l.objects[i], l.objects[i].DeepCopy()
	after.Generation++
	after.Spec.Topology.Subsets = rapid.SampledFrom([][]appsv1beta1.Subset{
		{subsetIn("a", "east", "")},
		{subsetIn("a", "west", ""), subsetIn("b", "east", "")},
		{selecting(nil)},
		{selecting(map[string]string{"tier": "web"})},
		{subsetIn("a", "west", ""), selecting(map[string]string{"tier": "db"})},
	}).Draw(l.t, "subsets")
	l.objects[i] = after
	l.happens(objectWatch, before, after)
}

func (l *lag) editCluster() {
	name := rapid.SampledFrom([]string{"east", "west"}).Draw(l.t, "cluster")
	before := l.clusters[name]
	if before == nil {
		w := newWorld(1)
		w.cluster(name, map[string]string{"tier": "web"})
		l.clusters[name] = w.o.Clusters[name]
		l.happens(clusterWatch, nil, l.clusters[name])
		return
	}
	after := before.DeepCopy()
	switch rapid.SampledFrom([]string{"gone", "label", "ready", "accepted", "limits", "epoch", "counts"}).Draw(l.t, "edit") {
	case "gone":
		delete(l.clusters, name)
		l.happens(clusterWatch, before, nil)
		return
	case "label":
		after.Labels = rapid.SampledFrom([]map[string]string{nil, {"tier": "web"}, {"tier": "db"}}).Draw(l.t, "labels")
	case "ready":
		after.Status.Conditions[0].Status = rapid.SampledFrom([]metav1.ConditionStatus{"True", "False"}).Draw(l.t, "ready")
	case "accepted":
		after.Spec.Accepted = !after.Spec.Accepted
	case "limits":
		after.Spec.Limits = &fleetv1alpha1.ClusterLimits{MaxReplicasPerObject: new(rapid.Int32Range(0, 3).Draw(l.t, "limit"))}
	case "epoch":
		after.Status.Hub.Epoch++
	case "counts":
		after.Status.Rows = &fleetv1alpha1.RowCounts{Total: rapid.Int32Range(1, 9).Draw(l.t, "rows")}
	}
	l.clusters[name] = after
	l.happens(clusterWatch, before, after)
}

func (l *lag) editRow() {
	ud := rapid.SampledFrom(l.objects).Draw(l.t, "of")
	cluster := rapid.SampledFrom([]string{"east", "west"}).Draw(l.t, "in")
	key := ud.Name + "/" + cluster
	if before := l.rows[key]; before != nil {
		delete(l.rows, key)
		l.happens(rowWatch, before, nil)
		return
	}
	l.rows[key] = &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{
			Name: ud.Name, Namespace: fleetv1alpha1.Namespace(cluster), Generation: 1,
			Labels: map[string]string{keys.FleetCluster: cluster, keys.FleetSourceUID: string(ud.UID)},
		},
		Spec: fleetv1alpha1.MemberWorkSpec{
			Source: fleetv1alpha1.WorkSource{Kind: sourceKind, Namespace: ud.Namespace, Name: ud.Name, UID: string(ud.UID)},
			Patch:  runtime.RawExtension{Raw: []byte(`{"spec":{"topology":{"subsets":[{"name":"a"}]}}}`)},
			Grant:  fleetv1alpha1.WorkGrant{Replicas: 2, Subsets: []fleetv1alpha1.SubsetGrant{{Name: "a", Replicas: 2, Lower: 2, Upper: 2}}},
		},
	}
	l.happens(rowWatch, nil, l.rows[key])
}

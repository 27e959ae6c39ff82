package daemonset

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// requests records what is enqueued.
type requests struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]

	names []string
}

func (q *requests) Add(r ctrl.Request) { q.names = append(q.names, r.Name) }

// fiftySets returns a cache with 50 DaemonSets: five for each of ten node roles. The first of each five updates only pods in zone a.
func fiftySets(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme)
	for i := range 50 {
		set := testkit.DaemonSet(fmt.Sprintf("set-%02d", i)).OnNodes("role", strconv.Itoa(i/5))
		if i%5 == 0 {
			set.Canary("zone", "a")
		}
		b.WithObjects(set.Obj())
	}
	return b.Build()
}

func TestANodeEventEnqueuesTheSetsThatItConcerns(t *testing.T) {
	t.Parallel()
	cache := fiftySets(t)
	names := func(list ...int) []string {
		var out []string
		for _, i := range list {
			out = append(out, fmt.Sprintf("set-%02d", i))
		}
		return out
	}
	node := func(role string, change func(*corev1.Node)) *corev1.Node {
		n := sim.Node("n1", "role", role, "zone", "b")
		if change != nil {
			change(n)
		}
		return n
	}
	tainted := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Value: "yes", Effect: effect}} }
	}
	for _, tc := range []struct {
		name          string
		before, after *corev1.Node
		want          []string
	}{
		{name: "a node joins: the sets that run on it", after: node("3", nil), want: names(15, 16, 17, 18, 19)},
		{name: "a node joins that fits no set", after: node("none", nil)},
		{name: "a node leaves: the sets that ran on it", before: node("3", nil), want: names(15, 16, 17, 18, 19)},
		{name: "a heartbeat: no set", before: node("3", nil), after: node("3", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		})},
		{name: "a label that no set selects: no set", before: node("3", nil), after: node("3", func(n *corev1.Node) { n.Labels["rack"] = "7" })},
		{name: "another role: the sets of both roles", before: node("3", nil), after: node("4", nil), want: names(15, 16, 17, 18, 19, 20, 21, 22, 23, 24)},
		{name: "a label that an update selects: the set of the update", before: node("3", nil), after: node("3", func(n *corev1.Node) { n.Labels["zone"] = "a" }), want: names(15)},
		{
			name: "a cordon: no set, as daemons keep running", before: node("3", nil),
			after: node("3", tainted(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)),
		},
		{name: "a node is not ready: no set, as pods stay", before: node("3", nil), after: node("3", tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute))},
		{
			name: "a NoSchedule taint: the sets that ran there", before: node("3", nil),
			after: node("3", tainted("db", corev1.TaintEffectNoSchedule)), want: names(15, 16, 17, 18, 19),
		},
		{
			name: "a NoExecute taint instead: the sets that ran there", before: node("3", tainted("db", corev1.TaintEffectNoSchedule)),
			after: node("3", tainted("db", corev1.TaintEffectNoExecute)), want: names(15, 16, 17, 18, 19),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, q := onNodes(cache), &requests{}
			switch {
			case tc.before == nil:
				h.Create(t.Context(), event.CreateEvent{Object: tc.after}, q)
			case tc.after == nil:
				h.Delete(t.Context(), event.DeleteEvent{Object: tc.before}, q)
			default:
				h.Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}, q)
			}
			slices.Sort(q.names)
			require.Equal(t, tc.want, q.names)
		})
	}
}

func TestTheFirstListOfNodesEnqueuesNothing(t *testing.T) {
	t.Parallel()
	q := &requests{}
	onNodes(fiftySets(t)).Create(t.Context(), event.CreateEvent{Object: sim.Node("n1", "role", "3"), IsInInitialList: true}, q)
	require.Empty(t, q.names, "the list of sets enqueues them all")
}

func TestOrphansEnqueueTheSetsThatMayAdoptThem(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().WithScheme(fiftySets(t).Scheme()).WithObjects(web().Obj(), testkit.DaemonSet("db").Obj()).Build()
	r := reconciler(c, clocktesting.NewFakePassiveClock(now))
	left := orphan("web-x", "n1")
	require.Equal(t, []ctrl.Request{{NamespacedName: key}}, r.requestsForOrphan(t.Context(), left))
	for name, change := range map[string]func(*corev1.Pod){
		"a pod that has an owner":              func(p *corev1.Pod) { p.OwnerReferences = testkit.Pod("a").OwnedBy("x").Obj().OwnerReferences },
		"a pod with other labels":              func(p *corev1.Pod) { p.Labels = nil },
		"a pod that no DaemonSet created":      func(p *corev1.Pod) { p.Spec.Affinity = nil },
		"a pod that another DaemonSet created": func(p *corev1.Pod) { p.GenerateName = "other-" },
	} {
		pod := left.DeepCopy()
		change(pod)
		require.Empty(t, r.requestsForOrphan(t.Context(), pod), name)
	}
}

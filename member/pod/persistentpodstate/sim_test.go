package persistentpodstate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/ordinal"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "db"}

const zone = corev1.LabelTopologyZone

// openTo is a podwebhook.Opening that sends the pods of all namespaces except these, which map to the reason.
type openTo map[string]string

func (o openTo) Sent(_ context.Context, namespace string) (bool, string) {
	return o[namespace] == "", o[namespace]
}
func (o openTo) Changes() <-chan event.GenericEvent { return nil }

// reconciler returns a Reconciler with these clients.
func reconciler(c client.Client, live client.Reader, clk clock.PassiveClock, events *testkit.Events) *Reconciler {
	return &Reconciler{
		Controller: controltest.New(c, live, clk, events), Namespace: "flotilla-system", Opening: openTo{}, StartOrdinal: true, notes: lru.New(remembered),
	}
}

func scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	s := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(s))
	require.NoError(tb, appsv1beta1.AddToScheme(s))
	return s
}

// simulated returns PersistentPodState in the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	about := func(changed func(before, after client.Object) bool) func(*sim.World, client.Object, client.Object) []reconcile.Request {
		return func(_ *sim.World, before, after client.Object) []reconcile.Request {
			if before != nil && after != nil && !changed(before, after) {
				return nil
			}
			return []reconcile.Request{{NamespacedName: key}}
		}
	}
	return sim.Kind{
		Scheme: scheme(tb),
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return reconciler(p.Client, p.Live, p.Clock, &testkit.Events{}), nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			if err := indexByTarget(ctx, i); err != nil {
				return err
			}
			return ownership.IndexByOwner(ctx, i, &corev1.Pod{})
		},
		For: &appsv1beta1.PersistentPodState{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&appsv1beta1.StatefulSet{}: about(workloadChanged), &corev1.Pod{}: about(podChanged), &appsv1.StatefulSet{}: about(workloadChanged),
			&corev1.Node{}: about(func(before, after client.Object) bool { return !maps.Equal(before.GetLabels(), after.GetLabels()) }),
		},
		Actors:  []sim.Actor{workload{}, sim.Kubelet{}, sim.Collector{}},
		Rules:   []sim.Rule{sim.DeletesByUID(), {Name: "wanted pods are not forgotten", Write: remembersWanted}, {Name: "others' objects are left alone", Write: ownOnly}},
		Summary: end,
	}
}

// workload acts as the controller of the StatefulSet db, with the pod webhook and the scheduler. A new pod goes where the webhook sends it.
// Otherwise it goes to the node of its ordinal, or to the next one if the set has the annotation elsewhere.
type workload struct{}

func (workload) Steps(w *sim.World) []sim.Step {
	set := set(w)
	if set == nil || set.GetDeletionTimestamp() != nil {
		return nil
	}
	wanted := replicas(set)
	var out []sim.Step
	for i := range wanted {
		name := fmt.Sprintf("db-%d", i)
		if sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: key.Namespace, Name: name}) == nil {
			out = append(out, sim.Step{Do: func(ctx context.Context) error { return w.User().Create(ctx, newPod(w, set, name, i)) }})
		}
	}
	for _, pod := range sim.All[*corev1.Pod](w) {
		if n, _ := ordinal.Number("db", pod.Name); int32(n) >= wanted && pod.DeletionTimestamp == nil {
			out = append(out, sim.Step{Do: func(ctx context.Context) error { return w.User().Delete(ctx, pod) }})
		}
	}
	return out
}

// set returns the StatefulSet of either group, or nil.
func set(w *sim.World) client.Object {
	if s := sim.Find[*appsv1beta1.StatefulSet](w, key); s != nil {
		return s
	}
	if s := sim.Find[*appsv1.StatefulSet](w, key); s != nil {
		return s
	}
	return nil
}

func replicas(set client.Object) int32 {
	switch s := set.(type) {
	case *appsv1beta1.StatefulSet:
		return ptr.Deref(s.Spec.Replicas, 1)
	case *appsv1.StatefulSet:
		return ptr.Deref(s.Spec.Replicas, 1)
	}
	return 0
}

func newPod(w *sim.World, set client.Object, name string, i int32) *corev1.Pod {
	group := appsv1beta1.GroupVersion.String()
	if _, native := set.(*appsv1.StatefulSet); native {
		group = "apps/v1"
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: name, Annotations: map[string]string{"ip": name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: group, Kind: "StatefulSet", Name: "db", UID: set.GetUID(), Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "db:1"}}},
	}
	if pps := sim.Find[*appsv1beta1.PersistentPodState](w, key); pps != nil {
		if state, known := pps.Status.PodStates[name]; known {
			facts{name: pps.Name, spec: &pps.Spec, state: state}.Change(pod)
		}
	}
	nodes := slices.DeleteFunc(sim.All[*corev1.Node](w), func(n *corev1.Node) bool {
		for label, value := range pod.Spec.NodeSelector {
			if n.Labels[label] != value {
				return true
			}
		}
		return false
	})
	if set.GetAnnotations()["elsewhere"] != "" {
		i++
	}
	pod.Spec.NodeName = nodes[int(i)%len(nodes)].Name
	return pod
}

// remembersWanted: as far as the controller can know, it never removes the state of a pod that its workload wants.
func remembersWanted(w *sim.World, c sim.Change) error {
	previous, _ := c.Before.(*appsv1beta1.PersistentPodState)
	current, _ := c.After.(*appsv1beta1.PersistentPodState)
	if previous == nil || current == nil { // It was rejected.
		return nil
	}
	s := set(w)
	if s == nil || s.GetDeletionTimestamp() != nil {
		return nil
	}
	least := replicas(s) // The cache may have an older one.
	for _, cached := range sim.Cached[*appsv1beta1.StatefulSet](w) {
		least = min(least, replicas(cached))
	}
	for _, cached := range sim.Cached[*appsv1.StatefulSet](w) {
		least = min(least, replicas(cached))
	}
	for i := range least {
		name := fmt.Sprintf("db-%d", i)
		_, before := previous.Status.PodStates[name]
		if _, after := current.Status.PodStates[name]; before && !after {
			return fmt.Errorf("%s forgets %s", c.Request, name)
		}
	}
	return nil
}

// ownOnly: only PersistentPodStates are written, and never the spec of one that a user created.
func ownOnly(_ *sim.World, c sim.Change) error {
	before, isOne := c.Before.(*appsv1beta1.PersistentPodState)
	switch {
	case c.Kind.Kind != kind:
		return fmt.Errorf("%s is of another kind", c.Request)
	case isOne && metav1.GetControllerOf(before) == nil && c.Sub != "status":
		return fmt.Errorf("%s is a user's", c.Request)
	}
	return nil
}

// end returns what matters at rest.
func end(w *sim.World) string {
	var lines []string
	for _, pod := range sim.All[*corev1.Pod](w) {
		lines = append(lines, fmt.Sprintf("%s on %s ready=%t brought back=%t", pod.Name, pod.Spec.NodeName, podpatch.Ready(pod),
			pod.Annotations[keys.InjectedPersistentPodState] != ""))
	}
	pps := sim.Find[*appsv1beta1.PersistentPodState](w, key)
	if pps == nil {
		return strings.Join(append(lines, "no PersistentPodState"), "\n")
	}
	lines = append(lines, statesOf(pps)...)
	for _, c := range pps.Status.Conditions {
		lines = append(lines, fmt.Sprintf("%s=%s: %s", c.Type, c.Status, c.Reason))
	}
	lines = append(lines, fmt.Sprintf("keys %v observed=%t", labelKeys(&pps.Spec), pps.Status.ObservedGeneration == pps.Generation))
	return strings.Join(lines, "\n")
}

func statesOf(pps *appsv1beta1.PersistentPodState) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(pps.Status.PodStates)) {
		s := pps.Status.PodStates[name]
		out = append(out, fmt.Sprintf("remembers %s on %s with %v %v", name, s.NodeName, s.NodeTopologyLabels, s.Annotations))
	}
	return out
}

// describe returns what a write changed, for golden stories.
func describe(c sim.Change) string {
	fields := func(o client.Object) []string {
		switch o := o.(type) {
		case *appsv1beta1.PersistentPodState:
			out := statesOf(o)
			for _, c := range o.Status.Conditions {
				out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
			}
			return append(out, fmt.Sprintf("keys %v", labelKeys(&o.Spec)))
		case *corev1.Pod:
			return []string{"on " + o.Spec.NodeName, fmt.Sprintf("ready %t", podpatch.Ready(o))}
		}
		return nil
	}
	return c.News(fields)
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 15 * time.Second}, stories()...)
}

func TestStoriesGolden(t *testing.T) {
	t.Parallel()
	k := simulated(t)
	k.Describe = describe
	for _, s := range stories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), k, s, sim.Schedule{})
			require.NoError(t, r.Err)
			golden.Equal(t, strings.ReplaceAll(s.Name, " ", "-"), sim.StoryText(r.Story, "db")+"# the end\n"+r.Summary+"\n")
		})
	}
}

// nodes returns nodes in three zones.
func nodes() []client.Object {
	return []client.Object{sim.Node("node-1", zone, "a"), sim.Node("node-2", zone, "b"), sim.Node("node-3", zone, "c")}
}

func advanced(n int32) *appsv1beta1.StatefulSet {
	return &appsv1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: appsv1beta1.StatefulSetSpec{Replicas: &n},
	}
}

func native(n int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: appsv1.StatefulSetSpec{Replicas: &n},
	}
}

// states starts a PersistentPodState that requires the zone.
func states(target client.Object, change ...func(*appsv1beta1.PersistentPodStateSpec)) *appsv1beta1.PersistentPodState {
	version := appsv1beta1.GroupVersion.String()
	if _, ok := target.(*appsv1.StatefulSet); ok {
		version = "apps/v1"
	}
	pps := &appsv1beta1.PersistentPodState{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Generation: 1},
		Spec: appsv1beta1.PersistentPodStateSpec{
			TargetRef:                  appsv1beta1.PersistentPodStateTarget{APIVersion: version, Kind: "StatefulSet", Name: "db"},
			RequiredPersistentTopology: &appsv1beta1.NodeTopologyTerm{Keys: []string{zone}},
		},
	}
	for _, c := range change {
		c(&pps.Spec)
	}
	return pps
}

func keepAll(s *appsv1beta1.PersistentPodStateSpec) {
	s.PersistentPodStateRetentionPolicy = appsv1beta1.WhenDeleted
}

func recordsIP(s *appsv1beta1.PersistentPodStateSpec) {
	s.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: "ip"}}
}

func generating(set *appsv1beta1.StatefulSet, required string) *appsv1beta1.StatefulSet {
	set.Annotations = map[string]string{keys.AutoGeneratePersistentPodState: "true", keys.RequiredPersistentTopology: required}
	return set
}

// recorded reports whether exactly n pods are remembered and ready.
func recorded(n int) func(*sim.World) bool {
	return func(w *sim.World) bool {
		pps := sim.Find[*appsv1beta1.PersistentPodState](w, key)
		pods := slices.DeleteFunc(sim.All[*corev1.Pod](w), func(p *corev1.Pod) bool { return !podpatch.Ready(p) || p.DeletionTimestamp != nil })
		return pps != nil && len(pps.Status.PodStates) == n && len(pods) == n
	}
}

func edit(name string, when func(*sim.World) bool, change func(*appsv1beta1.StatefulSet)) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, change)
	}}
}

func scale(n int32) func(*appsv1beta1.StatefulSet) {
	return func(s *appsv1beta1.StatefulSet) { s.Spec.Replicas = &n }
}

func elsewhere(s *appsv1beta1.StatefulSet) {
	s.Annotations = map[string]string{"elsewhere": "true"}
}

func remove[T client.Object](name string, when func(*sim.World) bool, which types.NamespacedName) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		for _, o := range sim.All[T](w) {
			if client.ObjectKeyFromObject(o) == which {
				return w.User().Delete(ctx, o)
			}
		}
		return nil
	}}
}

func pod(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: name}
}

func stories() []sim.Scenario {
	with := func(objects ...client.Object) []client.Object { return append(nodes(), objects...) }
	return []sim.Scenario{
		{Name: "a pod returns to its zone", Objects: with(advanced(3), states(advanced(3))), Edits: []sim.Edit{
			edit("new pods prefer another zone", recorded(3), elsewhere), remove[*corev1.Pod]("delete db-1", recorded(3), pod("db-1")),
		}},
		{Name: "a pod of a native StatefulSet returns to its zone", Objects: with(native(2), states(native(2))), Edits: []sim.Edit{
			remove[*corev1.Pod]("delete db-0", recorded(2), pod("db-0")),
		}},
		{Name: "scaled in and out", Objects: with(advanced(3), states(advanced(3))), Edits: []sim.Edit{
			edit("scale to 1", recorded(3), scale(1)), edit("scale to 2", recorded(1), scale(2)),
		}},
		{Name: "scaled in and kept", Objects: with(advanced(3), states(advanced(3), keepAll)), Edits: []sim.Edit{
			edit("scale to 1", recorded(3), scale(1)),
		}},
		{Name: "annotations are recorded by value", Objects: with(advanced(2), states(advanced(2), recordsIP)), Edits: []sim.Edit{
			{Name: "db-0 gets another address", When: recorded(2), Do: func(ctx context.Context, w *sim.World) error {
				return sim.Set(ctx, w, pod("db-0"), func(p *corev1.Pod) { p.Annotations["ip"] = "10.0.0.7" })
			}},
		}},
		{Name: "a node gets another label", Objects: with(advanced(2), states(advanced(2))), Edits: []sim.Edit{
			sim.LabelNode(recorded(2), "node-2", zone, "d"),
		}},
		{Name: "the workload is deleted and created again", Objects: with(advanced(2), states(advanced(2), keepAll)), Edits: []sim.Edit{
			remove[*appsv1beta1.StatefulSet]("delete the workload", recorded(2), key),
			{Name: "create it again", When: recorded(0), Do: func(ctx context.Context, w *sim.World) error { return w.User().Create(ctx, advanced(1)) }},
		}},
		{Name: "a generated one follows its annotations", Objects: with(generating(advanced(2), zone)), Edits: []sim.Edit{
			edit("another label", recorded(2), func(s *appsv1beta1.StatefulSet) {
				s.Annotations[keys.RequiredPersistentTopology] = zone + ", " + corev1.LabelHostname
			}),
			edit("no longer wanted", nil, func(s *appsv1beta1.StatefulSet) { s.Annotations[keys.AutoGeneratePersistentPodState] = "false" }),
		}},
		{Name: "a user's own one stays", Objects: with(generating(advanced(1), corev1.LabelHostname), states(advanced(1)))},
	}
}

func TestEachRuleIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule string
		do   func(context.Context, client.Client) error
	}{
		{"wanted pods are not forgotten", func(ctx context.Context, c client.Client) error {
			pps := &appsv1beta1.PersistentPodState{}
			if err := c.Get(ctx, key, pps); err != nil || len(pps.Status.PodStates) == 0 {
				return err
			}
			pps.Status.PodStates = nil
			return c.Status().Update(ctx, pps)
		}},
		{"others' objects are left alone", func(ctx context.Context, c client.Client) error {
			pps := &appsv1beta1.PersistentPodState{}
			if err := c.Get(ctx, key, pps); err != nil {
				return err
			}
			pps.Spec.PersistentPodStateRetentionPolicy = appsv1beta1.WhenDeleted
			return c.Update(ctx, pps)
		}},
		{"deletions name the UID", func(ctx context.Context, c client.Client) error {
			return client.IgnoreNotFound(c.Delete(ctx, states(advanced(1))))
		}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			k := simulated(t)
			inner := k.New
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				r, err := inner(p)
				return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					if _, err := r.Reconcile(ctx, req); err != nil {
						return reconcile.Result{}, err
					}
					return reconcile.Result{}, client.IgnoreNotFound(tc.do(ctx, p.Client))
				}), err
			}
			s := sim.Scenario{Name: "rogue", Objects: append(nodes(), advanced(1), states(advanced(1)))}
			require.ErrorContains(t, sim.Run(t.Context(), k, s, sim.Schedule{}).Err, tc.rule)
		})
	}
}

package nodepodprobe

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/member/pod/probedpod"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

const (
	// finds is an annotation of pods: the result of their probes in the simulator.
	finds = "sim/finds"
	// idle is the condition that the probes set.
	idle = "example.com/idle"
)

// simulated returns the path of a probe in the simulator: this controller, a daemon, and the controller that writes results to pods.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1alpha1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{Client: p.Client, Live: p.Live, Clock: p.Clock, Events: &testkit.Events{}, Markers: true, Liveness: true}, nil
		},
		Index:  index,
		For:    &appsv1alpha1.NodePodProbe{},
		Fields: podset.FieldNamedPorts,
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Node{}: func(_ *sim.World, before, after client.Object) []reconcile.Request {
				if before != nil && after != nil && !nodeChanged(before, after) {
					return nil
				}
				return requestsForEach(before, after, func(o client.Object) []reconcile.Request { return requestsForNodes(o.GetName()) })
			},
			&corev1.Pod{}: func(w *sim.World, before, after client.Object) []reconcile.Request {
				if before != nil && after != nil && !podChanged(before, after) {
					return nil
				}
				return requestsForEach(before, after, func(o client.Object) []reconcile.Request {
					pod := o.(*corev1.Pod)
					if !(&Reconciler{Liveness: true}).isProbed(pod, markersIn(w, pod.Namespace), probeOf(w, pod.Spec.NodeName)) {
						return nil
					}
					return requestsForNodes(pod.Spec.NodeName)
				})
			},
			&appsv1alpha1.PodProbeMarker{}: func(w *sim.World, before, after client.Object) []reconcile.Request {
				if before != nil && after != nil && !specChanged(before, after) {
					return nil
				}
				return requestsForEach(before, after, func(o client.Object) []reconcile.Request {
					m := o.(*appsv1alpha1.PodProbeMarker)
					return requestsForNodes(nodesOf(m, sim.Cached[*appsv1alpha1.NodePodProbe](w), sim.Cached[*corev1.Pod](w))...)
				})
			},
		},
		Beside: []sim.Kind{{
			New: func(p sim.Process) (reconcile.Reconciler, error) {
				return &probedpod.Reconciler{
					Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{}),
				}, nil
			},
			For: &corev1.Pod{},
			Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
				&appsv1alpha1.NodePodProbe{}: func(_ *sim.World, before, after client.Object) []reconcile.Request {
					return requests(podprobe.Changed(before, after))
				},
				&appsv1alpha1.PodProbeMarker{}: func(w *sim.World, before, after client.Object) []reconcile.Request {
					return requestsForEach(before, after, func(o client.Object) []reconcile.Request {
						return requests(probedpod.PodsOf(o.(*appsv1alpha1.PodProbeMarker), sim.Cached[*corev1.Pod](w)))
					})
				},
			},
		}},
		Actors: append(sim.Cluster(2), network{}, daemon{}),
		Rules: []sim.Rule{
			sim.DeletesByUID(),
			{Name: "a wanted probe stays", Write: checkWantedKept},
			{Name: "only the manager writes the spec, and only the daemon the status", Write: checkWriters},
			{Name: "a condition matches the result of its probe", Write: checkConditions},
		},
		Summary:  summarize,
		Describe: func(c sim.Change) string { return c.News(describe) },
	}
}

// describe returns what a story reports about an object.
func describe(o client.Object) []string {
	switch typed := o.(type) {
	case *appsv1alpha1.NodePodProbe:
		return lines(typed)
	case *corev1.Pod:
		var out []string
		if label := typed.Labels["idle"]; label != "" {
			out = append(out, "label idle="+label)
		}
		if cost := typed.Annotations[corev1.PodDeletionCost]; cost != "" {
			out = append(out, "deletion cost "+cost)
		}
		for _, t := range []corev1.PodConditionType{idle, "example.com/warm"} {
			if c := podpatch.Find(typed, t); c != nil {
				out = append(out, fmt.Sprintf("%s %s", t, c.Status))
			}
		}
		return out
	}
	return nil
}

func requestsForEach(before, after client.Object, requestsOf func(client.Object) []reconcile.Request) []reconcile.Request {
	var out []reconcile.Request
	for _, o := range []client.Object{before, after} {
		if o != nil {
			out = append(out, requestsOf(o)...)
		}
	}
	return out
}

func requests(keys []types.NamespacedName) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(keys))
	for _, key := range keys {
		out = append(out, reconcile.Request{NamespacedName: key})
	}
	return out
}

func markersIn(w *sim.World, namespace string) podprobe.Markers {
	var list []appsv1alpha1.PodProbeMarker
	for _, m := range sim.Cached[*appsv1alpha1.PodProbeMarker](w) {
		if m.Namespace == namespace {
			list = append(list, *m)
		}
	}
	return podprobe.MarkersOf(list)
}

func probeOf(w *sim.World, node string) *appsv1alpha1.NodePodProbe {
	for _, n := range sim.Cached[*appsv1alpha1.NodePodProbe](w) {
		if n.Name == node {
			return n
		}
	}
	return nil
}

// network gives initialized pods an address.
type network struct{}

func (network) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, pod := range sim.All[*corev1.Pod](w) {
		if podprobe.Due(pod) && pod.Status.PodIP == "" {
			next := pod.DeepCopy()
			next.Status.PodIP = "10.0.0." + strconv.Itoa(len(pod.Name))
			out = append(out, sim.Step{Name: "address of " + pod.Name, Do: func(ctx context.Context) error {
				return ignorable(w.User().Status().Update(ctx, next))
			}})
		}
	}
	return out
}

func ignorable(err error) error { return client.IgnoreNotFound(err) }

// daemon acts as the node daemons: a probe is Unknown at first, and then has the result that the pod specifies.
type daemon struct{}

func (daemon) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, n := range sim.All[*appsv1alpha1.NodePodProbe](w) {
		results := map[podprobe.Key]podprobe.Result{}
		for i := range n.Spec.PodProbes {
			entry := &n.Spec.PodProbes[i]
			pod := sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name})
			if pod == nil || pod.UID != entry.UID || pod.DeletionTimestamp != nil {
				continue
			}
			for j := range entry.Probes {
				name := entry.Probes[j].Name
				before := podprobe.State(podprobe.Results(n, pod.UID), name)
				r := podprobe.Result{State: appsv1alpha1.ProbeUnknown, At: w.Now()}
				if found := appsv1alpha1.ProbeState(pod.Annotations[finds]); before != nil && found != "" {
					r.State, r.Message = found, "it is "+string(found)
				}
				if before == nil || before.State != r.State {
					results[podprobe.Key{Pod: pod.UID, Name: name}] = r
				}
			}
		}
		if s, changed := podprobe.Report(n, results); changed {
			next := n.DeepCopy()
			next.Status = s
			out = append(out, sim.Step{Name: "results of " + n.Name, Do: func(ctx context.Context) error {
				return ignorable(w.User().Status().Update(ctx, next))
			}})
		}
	}
	return out
}

// wantedProbes returns the probes that should exist, as "node uid marker#probe".
func wantedProbes(w *sim.World) []string {
	var all []appsv1alpha1.PodProbeMarker
	for _, m := range sim.All[*appsv1alpha1.PodProbeMarker](w) {
		all = append(all, *m)
	}
	var out []string
	for _, pod := range sim.All[*corev1.Pod](w) {
		node := sim.Find[*corev1.Node](w, types.NamespacedName{Name: pod.Spec.NodeName})
		if !podprobe.Due(pod) || pod.Status.PodIP == "" || node == nil || nodefit.Virtual(node) {
			continue
		}
		for _, m := range podprobe.MarkersOf(all).Of(pod) {
			for i := range m.Spec.Probes {
				if inplace.Container(&pod.Spec, m.Spec.Probes[i].ContainerName) != nil {
					out = append(out, fmt.Sprintf("%s %s %s", node.Name, pod.UID, podprobe.Name(m.Name, m.Spec.Probes[i].Name)))
				}
			}
		}
	}
	return out
}

func specProbes(n *appsv1alpha1.NodePodProbe) []string {
	var out []string
	for i := range n.Spec.PodProbes {
		for j := range n.Spec.PodProbes[i].Probes {
			out = append(out, fmt.Sprintf("%s %s %s", n.Name, n.Spec.PodProbes[i].UID, n.Spec.PodProbes[i].Probes[j].Name))
		}
	}
	return out
}

// checkWantedKept: no write drops a wanted probe of a pod. The result would be dropped with it.
func checkWantedKept(w *sim.World, c sim.Change) error {
	before, ok := c.Before.(*appsv1alpha1.NodePodProbe)
	if done := c.ByController() && !c.Late && c.Err == nil; !ok || !done {
		return nil
	}
	left, _ := c.After.(*appsv1alpha1.NodePodProbe)
	should := wantedProbes(w)
	for _, probe := range specProbes(before) {
		if slices.Contains(should, probe) && (left == nil || !slices.Contains(specProbes(left), probe)) {
			return fmt.Errorf("%s drops %s", c.Request, probe)
		}
	}
	return nil
}

// checkWriters: the controllers never write results.
func checkWriters(_ *sim.World, c sim.Change) error {
	before, ok := c.Before.(*appsv1alpha1.NodePodProbe)
	after, stays := c.After.(*appsv1alpha1.NodePodProbe)
	if ok && stays && c.ByController() && !apiequality.Semantic.DeepEqual(before.Status, after.Status) {
		return fmt.Errorf("%s changes results", c.Request)
	}
	return nil
}

// checkConditions: metadata and status of a pod are written separately, and a condition is True only if a probe has succeeded.
func checkConditions(_ *sim.World, c sim.Change) error {
	before, ok := c.Before.(*corev1.Pod)
	after, stays := c.After.(*corev1.Pod)
	if !ok || !stays || !c.ByController() {
		return nil
	}
	metadata := !apiequality.Semantic.DeepEqual(before.Labels, after.Labels) || !apiequality.Semantic.DeepEqual(before.Annotations, after.Annotations)
	if metadata && c.Sub != "" {
		return fmt.Errorf("%s writes metadata with the status", c.Request)
	}
	if cond := podpatch.Find(after, idle); cond != nil && (cond.Status == corev1.ConditionTrue) != strings.Contains(cond.Message, "Succeeded") {
		return fmt.Errorf("%s says %s of %q", c.Request, cond.Status, cond.Message)
	}
	return nil
}

// summarize returns what matters at rest: the right probes run, and pods have the latest results.
func summarize(w *sim.World) string { return summary(w, false) }

// summary returns what summarize does. With unprobed, it also describes pods that are no longer probed: no result will correct a late write to
// them.
func summary(w *sim.World, unprobed bool) string {
	var out []string
	var all []string
	for _, n := range sim.All[*appsv1alpha1.NodePodProbe](w) {
		out = append(out, lines(n)...)
		all = append(all, specProbes(n)...)
		for i := range n.Status.PodProbeStatuses {
			entry := &n.Status.PodProbeStatuses[i]
			pod := sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name})
			if pod == nil || pod.UID != entry.UID {
				out = append(out, fmt.Sprintf("WRONG: %s has results of pod %s, which is gone", n.Name, entry.Name))
			}
		}
	}
	should := wantedProbes(w)
	slices.Sort(should)
	slices.Sort(all)
	if !slices.Equal(should, all) {
		out = append(out, fmt.Sprintf("WRONG: should be probed: %v", should))
	}
	for _, pod := range sim.All[*corev1.Pod](w) {
		if !unprobed && !slices.ContainsFunc(should, func(probe string) bool { return strings.Contains(probe, string(pod.UID)) }) {
			out = append(out, pod.Name+" is not probed")
			continue
		}
		line := fmt.Sprintf("%s idle=%q cost=%q", pod.Name, pod.Labels["idle"], pod.Annotations[corev1.PodDeletionCost])
		if c := podpatch.Find(pod, idle); c != nil {
			line += fmt.Sprintf(" %s %q", c.Status, c.Message)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// lines describes a NodePodProbe.
func lines(n *appsv1alpha1.NodePodProbe) []string {
	var out []string
	for i := range n.Spec.PodProbes {
		entry := &n.Spec.PodProbes[i]
		for j := range entry.Probes {
			out = append(out, fmt.Sprintf("%s probes %s: %s", n.Name, entry.Name, entry.Probes[j].Name))
			if s := podprobe.State(podprobe.Results(n, entry.UID), entry.Probes[j].Name); s != nil {
				out = append(out, fmt.Sprintf("%s finds %s: %s %s", n.Name, entry.Name, s.Name, s.State))
			}
		}
	}
	return out
}

// probedPod returns a pod for the marker of idleMarker, on node-1, or on node-2 if it is called web-1. At first, its probes have the given
// result.
func probedPod(name, found string) *corev1.Pod {
	pod := testkit.Pod(name).Label("game", "yes").Node("node-1").Obj()
	if name == "web-1" {
		pod.Spec.NodeName = "node-2"
	}
	pod.ResourceVersion, pod.Annotations = "", map[string]string{finds: found}
	return pod
}

func idleMarker(name string, change ...func(*appsv1alpha1.PodProbeMarker)) *appsv1alpha1.PodProbeMarker {
	m := &appsv1alpha1.PodProbeMarker{
		ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: name},
		Spec: appsv1alpha1.PodProbeMarkerSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"game": "yes"}},
			Probes: []appsv1alpha1.PodContainerProbe{{
				Name: "idle", ContainerName: probedPod("", "").Spec.Containers[0].Name, PodConditionType: idle,
				Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/idle.sh"}}}},
				MarkerPolicy: []appsv1alpha1.ProbeMarkerPolicy{
					{
						State: appsv1alpha1.ProbeSucceeded, Labels: map[string]string{"idle": "yes"},
						Annotations: map[string]string{corev1.PodDeletionCost: "-10"},
					},
					{State: appsv1alpha1.ProbeFailed, Labels: map[string]string{"idle": "no"}},
				},
			}},
		},
	}
	for _, c := range change {
		c(m)
	}
	return m
}

// stories are played in the simulator, and recorded.
func stories() []sim.Scenario {
	const yes, no = string(appsv1alpha1.ProbeSucceeded), string(appsv1alpha1.ProbeFailed)
	nodes := func(more ...client.Object) []client.Object {
		return append([]client.Object{sim.Node("node-1"), sim.Node("node-2")}, more...)
	}
	remove := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "delete " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreNotFound(w.User().Delete(ctx, o.DeepCopyObject().(client.Object)))
		}}
	}
	create := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "create " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return w.User().Create(ctx, o.DeepCopyObject().(client.Object))
		}}
	}
	find := func(pod, what string) sim.Edit {
		return sim.Edit{Name: pod + " is " + what, Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreNotFound(sim.Set(ctx, w, types.NamespacedName{Namespace: testkit.Namespace, Name: pod}, func(p *corev1.Pod) {
				p.Annotations[finds] = what
			}))
		}}
	}
	edit := func(name string, change func(*appsv1alpha1.PodProbeMarker)) sim.Edit {
		return sim.Edit{Name: "edit " + name, Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreNotFound(sim.Set(ctx, w, types.NamespacedName{Namespace: testkit.Namespace, Name: name}, change))
		}}
	}
	// Other edits wait until the pods have their probes' results.
	marked := func(e sim.Edit, pods ...string) sim.Edit {
		e.When = func(w *sim.World) bool {
			for _, name := range pods {
				pod := sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: testkit.Namespace, Name: name})
				if pod == nil || pod.Annotations[finds] != yes || pod.Annotations[corev1.PodDeletionCost] == "" || podpatch.Find(pod, idle) == nil || podpatch.Find(pod, idle).Status != corev1.ConditionTrue {
					return false
				}
			}
			return true
		}
		return e
	}
	second := func(m *appsv1alpha1.PodProbeMarker) {
		probe := *m.Spec.Probes[0].DeepCopy()
		probe.Name, probe.PodConditionType, probe.MarkerPolicy = "warm", "example.com/warm", nil
		m.Spec.Probes = append(m.Spec.Probes, probe)
	}
	busy := func(m *appsv1alpha1.PodProbeMarker) { // It wants the same condition and label as another one.
		m.Spec.Probes[0].MarkerPolicy = []appsv1alpha1.ProbeMarkerPolicy{{State: appsv1alpha1.ProbeSucceeded, Labels: map[string]string{"idle": "maybe"}}}
	}
	left := &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	left.Spec.PodProbes = []appsv1alpha1.PodProbe{{
		Name: "web-0", Namespace: testkit.Namespace, UID: "of-before", IP: "10.0.0.9",
		Probes: []appsv1alpha1.ContainerProbe{{Name: podprobe.Name("idle", "idle"), ContainerName: "app"}},
	}}
	return []sim.Scenario{
		{
			Name: "pods become idle and busy", Objects: nodes(idleMarker("idle"), probedPod("web-0", yes), probedPod("web-1", no), testkit.Pod("other").Obj()),
			Edits: []sim.Edit{find("web-0", no), find("web-1", yes), find("web-0", yes)},
		},
		{
			Name: "a marker comes and goes", Objects: nodes(probedPod("web-0", yes)),
			Edits: []sim.Edit{create(idleMarker("idle")), marked(remove(idleMarker("idle")), "web-0")},
		},
		{
			Name: "a probe is added and removed", Objects: nodes(idleMarker("idle"), probedPod("web-0", yes)),
			Edits: []sim.Edit{edit("idle", second), edit("idle", func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Probes = m.Spec.Probes[:1] })},
		},
		{
			Name: "pods come and go", Objects: nodes(idleMarker("idle"), probedPod("web-0", yes)),
			Edits: []sim.Edit{create(probedPod("web-1", yes)), remove(probedPod("web-0", ""))},
		},
		{
			Name: "a pod is re-created with its name", Objects: nodes(idleMarker("idle"), probedPod("web-0", yes)),
			Edits: []sim.Edit{remove(probedPod("web-0", "")), {
				Name: "again", When: func(w *sim.World) bool { return len(sim.All[*corev1.Pod](w)) == 0 }, Do: create(probedPod("web-0", no)).Do,
			}},
		},
		{
			Name: "two markers define the same probe", Objects: nodes(idleMarker("idle"), idleMarker("later", busy), probedPod("web-0", yes)),
			Edits: []sim.Edit{find("web-0", no), find("web-0", yes), marked(remove(idleMarker("idle")), "web-0")},
		},
		{
			Name: "a node is deleted", Objects: nodes(idleMarker("idle"), probedPod("web-0", yes), probedPod("web-1", yes)),
			Edits: []sim.Edit{marked(sim.RemoveNode(nil, "node-1"), "web-0", "web-1")},
		},
		{
			Name: "leftovers of an earlier manager", Objects: nodes(left, idleMarker("idle"), probedPod("web-0", yes)),
		},
		{
			Name: "a node becomes virtual", Objects: nodes(idleMarker("idle"), probedPod("web-0", yes)),
			Edits: []sim.Edit{marked(sim.LabelNode(nil, "node-1", "type", "virtual-kubelet"), "web-0")},
		},
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 30 * time.Second}, stories()...)
}

func TestEachRuleIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Name: "node-1"}
	for _, tc := range []struct {
		rule string
		do   func(context.Context, client.Client) error
	}{
		{"deletions name the UID", func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: key.Name}})
		}},
		{"a wanted probe stays", func(ctx context.Context, c client.Client) error {
			n := &appsv1alpha1.NodePodProbe{}
			if err := c.Get(ctx, key, n); err != nil || len(n.Spec.PodProbes) == 0 {
				return err
			}
			n.Spec.PodProbes = nil
			return c.Update(ctx, n)
		}},
		{"only the manager writes the spec", func(ctx context.Context, c client.Client) error {
			n := &appsv1alpha1.NodePodProbe{}
			if err := c.Get(ctx, key, n); err != nil || len(n.Spec.PodProbes) == 0 {
				return err
			}
			n.Status, _ = podprobe.Report(n, map[podprobe.Key]podprobe.Result{
				{Pod: n.Spec.PodProbes[0].UID, Name: n.Spec.PodProbes[0].Probes[0].Name}: {State: appsv1alpha1.ProbeSucceeded, Message: "rogue"},
			})
			return c.Status().Update(ctx, n)
		}},
		{"a condition matches the result of its probe", func(ctx context.Context, c client.Client) error {
			return rogue(ctx, c, func(b *podpatch.Body) { b.Metadata.Labels["idle"] = new("maybe") })
		}},
		{"a condition matches the result of its probe", func(ctx context.Context, c client.Client) error {
			return rogue(ctx, c, func(b *podpatch.Body) {
				b.Status.Conditions = []podpatch.Condition{{Type: idle, Status: corev1.ConditionTrue}}
			})
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
			s := sim.Scenario{Name: "rogue", Objects: []client.Object{
				sim.Node("node-1"), sim.Node("node-2"), idleMarker("idle"), probedPod("web-0", string(appsv1alpha1.ProbeFailed)),
			}}
			require.ErrorContains(t, sim.Run(t.Context(), k, s, sim.Schedule{}).Err, tc.rule)
		})
	}
}

// rogue writes to the pod's status.
func rogue(ctx context.Context, c client.Client, change func(*podpatch.Body)) error {
	pod := &corev1.Pod{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: testkit.Namespace, Name: "web-0"}, pod); err != nil {
		return err
	}
	b := podpatch.New(pod)
	change(&b)
	patch, err := b.Patch(pod, podpatch.Status)
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, pod, client.RawPatch(patch.Type, patch.Data))
}

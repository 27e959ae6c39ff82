package workloadspread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// nowhere is the subset whose pods are never scheduled.
const nowhere = "nowhere"

// crashes is an annotation of the CloneSet: every third admission ends without a pod, because the webhook's replica or the apiserver crashes
// between the status write and the response.
const crashes = "crashes"

// later is an annotation of WorkloadSpreads whose pods are replaced: where the new ones go depends on when a place is free again.
const later = "later"

// simulated returns WorkloadSpread in the simulator, with the rules that hold in every scenario.
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
			if err := scaletarget.IndexSpreads(ctx, i); err != nil {
				return err
			}
			return ownership.IndexByOwner(ctx, i, &corev1.Pod{})
		},
		For: &appsv1beta1.WorkloadSpread{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&appsv1beta1.CloneSet{}: about(workloadChanged), &corev1.Pod{}: about(podChanged),
			&corev1.Node{}: about(func(before, after client.Object) bool { return !maps.Equal(before.GetLabels(), after.GetLabels()) }),
		},
		Actors:  []sim.Actor{workload{}, scheduler{}, sim.Kubelet{}, sim.Collector{}},
		Rules:   []sim.Rule{sim.DeletesByUID(), {Name: "no place is promised twice", State: promisesOnce}, {Name: "only unschedulable pods are deleted", Write: deletesStuck}},
		Summary: summarize,
	}
}

// workload acts as the CloneSet controller with the pod webhook. Requests for pods that are admitted but not stored yet are ConfigMaps.
type workload struct{}

func (workload) Steps(w *sim.World) []sim.Step {
	set := sim.Find[*appsv1beta1.CloneSet](w, key)
	if set == nil || set.DeletionTimestamp != nil {
		return nil
	}
	var out []sim.Step
	for _, request := range sim.All[*corev1.ConfigMap](w) {
		out = append(out, sim.Step{Do: func(ctx context.Context) error { return storePod(ctx, w, set, request) }})
	}
	pods := activePods(w)
	wanted := int(*set.Spec.Replicas)
	if have := len(pods) + len(out); have < wanted {
		out = append(out, sim.Step{Do: func(ctx context.Context) error { return admitPod(ctx, w) }})
	} else if len(pods) > wanted {
		slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
			return costIn(a) - costIn(b)
		})
		out = append(out, sim.Step{Do: func(ctx context.Context) error { return w.User().Delete(ctx, pods[0]) }})
	}
	return out
}

func costIn(pod *corev1.Pod) int {
	n, _ := strconv.Atoi(pod.Annotations[keys.PodDeletionCost])
	return n
}

func activePods(w *sim.World) []*corev1.Pod {
	return slices.DeleteFunc(sim.All[*corev1.Pod](w), func(p *corev1.Pod) bool { return !podpatch.Active(p) })
}

// admitPod makes the webhook admit a pod.
func admitPod(ctx context.Context, w *sim.World) error {
	n := 0
	for _, c := range w.Changes() {
		if _, isRequest := c.After.(*corev1.ConfigMap); isRequest && c.Verb == sim.Create {
			n++
		}
	}
	request := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: fmt.Sprintf("web-%d", n)}, Data: map[string]string{}}
	ws := &appsv1beta1.WorkloadSpread{}
	if err := w.User().Get(ctx, key, ws); err != nil {
		return client.IgnoreNotFound(err)
	}
	total := *sim.Find[*appsv1beta1.CloneSet](w, key).Spec.Replicas
	i, changed := takePlace(ws, versionIgnored, "id-"+request.Name, total, w.Now())
	if changed {
		if err := w.User().Status().Update(ctx, ws); err != nil {
			return err
		}
	}
	if i >= 0 {
		request.Data["subset"] = ws.Spec.Subsets[i].Name
		request.Data["cost"] = costOfNew(ws, versionIgnored, i, total, "id-"+request.Name)
		request.Data["match"] = matched{Name: ws.Name, Subset: ws.Spec.Subsets[i].Name, UID: "id-" + request.Name}.String()
	}
	if !changed { // No other request knows about it.
		request.Data["uncounted"] = "true"
	}
	if n%3 == 2 && sim.Find[*appsv1beta1.CloneSet](w, key).Annotations[crashes] != "" {
		request.Data["crashed"] = "true"
	}
	return w.User().Create(ctx, request)
}

// storePod completes the request for a pod.
func storePod(ctx context.Context, w *sim.World, set *appsv1beta1.CloneSet, request *corev1.ConfigMap) error {
	if request.Data["crashed"] == "" {
		pod := newPodOf(ours, "CloneSet", "web", set.UID)
		pod.Name, pod.GenerateName = request.Name, ""
		if s := request.Data["subset"]; s != "" {
			pod.Annotations = map[string]string{keys.MatchedWorkloadSpread: request.Data["match"], keys.PodDeletionCost: request.Data["cost"]}
			if request.Data["uncounted"] != "" {
				pod.Annotations["uncounted"] = "true"
			}
			if s != nowhere {
				pod.Spec.NodeName = "node-" + s
			}
		}
		if err := w.User().Create(ctx, pod); err != nil {
			return err
		}
	}
	return w.User().Delete(ctx, request)
}

// late is an annotation of the CloneSet: pods in the subset nowhere can be scheduled after all, at any time.
const late = "late"

// scheduler can't schedule pods in the subset nowhere.
type scheduler struct{}

func (scheduler) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	set := sim.Find[*appsv1beta1.CloneSet](w, key)
	for _, pod := range activePods(w) {
		m, _ := matchedOf(pod)
		if m.Subset != nowhere || scheduled(pod) {
			continue
		}
		if len(pod.Status.Conditions) > 0 {
			if set != nil && set.Annotations[late] != "" {
				out = append(out, sim.Step{Do: func(ctx context.Context) error {
					next := pod.DeepCopy()
					next.Status.Conditions[0].Status = corev1.ConditionTrue
					return w.User().Status().Update(ctx, next)
				}})
			}
		} else {
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				next := pod.DeepCopy()
				stuckSince(w.Now())(next)
				return w.User().Status().Update(ctx, next)
			}})
		}
	}
	return out
}

// scheduled reports whether a pod has a node.
func scheduled(pod *corev1.Pod) bool {
	return len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue
}

// promisesOnce: when the webhook has admitted a pod to a subset, the subset has room for it, for all existing pods and for all admitted ones,
// except those that were admitted while the subset had no limit.
func promisesOnce(w *sim.World) error {
	all := w.Changes()
	if len(all) == 0 {
		return nil
	}
	admitted, ok := all[len(all)-1].After.(*corev1.ConfigMap)
	ws := sim.Find[*appsv1beta1.WorkloadSpread](w, key)
	if !ok || all[len(all)-1].Verb != sim.Create || ws == nil || admitted.Data["subset"] == "" {
		return nil
	}
	name := admitted.Data["subset"]
	i := slices.IndexFunc(ws.Spec.Subsets, func(s appsv1beta1.WorkloadSpreadSubset) bool { return s.Name == name })
	most := limit(&ws.Spec.Subsets[i], *sim.Find[*appsv1beta1.CloneSet](w, key).Spec.Replicas)
	n := 0
	for _, pod := range activePods(w) {
		if m, _ := matchedOf(pod); m.Subset == name && pod.Annotations["uncounted"] == "" {
			n++
		}
	}
	for _, request := range sim.All[*corev1.ConfigMap](w) {
		if request.Data["subset"] == name && request.Data["crashed"] == "" && request.Data["uncounted"] == "" {
			n++
		}
	}
	if most != unlimited && n > int(most) {
		return fmt.Errorf("%d pods of %d are in %s or admitted to it", n, most, name)
	}
	return nil
}

func deletesStuck(w *sim.World, c sim.Change) error {
	pod, ok := c.Before.(*corev1.Pod)
	if !ok || !c.ByController() || c.Verb != sim.Delete {
		return nil
	}
	if m, _ := matchedOf(pod); c.Err == nil && (m.Subset != nowhere || scheduled(pod)) {
		return fmt.Errorf("%s is in subset %s, scheduled: %t", c.Request, m.Subset, scheduled(pod))
	}
	return nil
}

// summarize returns the part of the final state that must not depend on the schedule.
func summarize(w *sim.World) string {
	var out []string
	n := map[string]int{}
	pods := activePods(w)
	for _, pod := range pods {
		m, _ := matchedOf(pod)
		n[m.Subset]++
	}
	set := sim.Find[*appsv1beta1.CloneSet](w, key)
	if ws := sim.Find[*appsv1beta1.WorkloadSpread](w, key); ws == nil || ws.Annotations[later] == "" {
		for _, name := range slices.Sorted(maps.Keys(n)) {
			out = append(out, fmt.Sprintf("%d pods in %q", n[name], name))
		}
	}
	out = append(out, fmt.Sprintf("%d pods", len(pods)))
	ws := sim.Find[*appsv1beta1.WorkloadSpread](w, key)
	if ws == nil {
		return strings.Join(append(out, "no WorkloadSpread"), "\n")
	}
	for i := range ws.Spec.Subsets {
		s := &ws.Spec.Subsets[i]
		st := statusOf(ws.Status.SubsetStatuses, s.Name)
		if st == nil {
			continue
		}
		right := int(st.Replicas) == n[s.Name] && len(st.CreatingPods) == 0
		if set == nil {
			continue
		}
		if most := limit(s, *set.Spec.Replicas); most != unlimited {
			right = right && st.MissingReplicas == max(most-st.Replicas, 0)
		}
		out = append(out, fmt.Sprintf("%s is counted: %t", s.Name, right))
		for _, c := range st.Conditions {
			out = append(out, fmt.Sprintf("%s %s: %s", s.Name, c.Type, c.Reason))
		}
	}
	for _, c := range ws.Status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s: %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(append(out, fmt.Sprintf("observed=%t", ws.Status.ObservedGeneration == ws.Generation)), "\n")
}

// describe returns what a write changed, for golden stories.
func describe(c sim.Change) string {
	fields := func(o client.Object) []string {
		switch o := o.(type) {
		case *appsv1beta1.WorkloadSpread:
			out := lines(o.Status)
			for _, c := range o.Status.Conditions {
				out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
			}
			return out
		case *corev1.Pod:
			m, _ := matchedOf(o)
			return []string{"in " + m.Subset, "cost " + o.Annotations[keys.PodDeletionCost]}
		case *corev1.ConfigMap:
			return []string{"to " + o.Data["subset"]}
		}
		return nil
	}
	return c.News(fields)
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 6 * time.Minute}, stories()...)
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
			golden.Equal(t, strings.ReplaceAll(s.Name, " ", "-"), sim.StoryText(r.Story, "web")+"# the end\n"+r.Summary+"\n")
		})
	}
}

func nodes() []client.Object {
	return []client.Object{sim.Node("node-a", zone, "a"), sim.Node("node-b", zone, "b"), sim.Node("node-c", zone, "c")}
}

// placed reports whether there are n active pods, all of them counted.
func placed(n int) func(*sim.World) bool {
	return func(w *sim.World) bool {
		ws := sim.Find[*appsv1beta1.WorkloadSpread](w, key)
		return len(activePods(w)) == n && len(sim.All[*corev1.ConfigMap](w)) == 0 && ws != nil && ws.Status.ObservedGeneration == ws.Generation
	}
}

// counted reports whether there are n active pods and the status says so for each subset.
func counted(n int) func(*sim.World) bool {
	return func(w *sim.World) bool {
		ws := sim.Find[*appsv1beta1.WorkloadSpread](w, key)
		if ws == nil || !placed(n)(w) {
			return false
		}
		in := map[string]int32{}
		for _, pod := range activePods(w) {
			m, _ := matchedOf(pod)
			in[m.Subset]++
		}
		return !slices.ContainsFunc(ws.Spec.Subsets, func(s appsv1beta1.WorkloadSpreadSubset) bool {
			st := statusOf(ws.Status.VersionedSubsetStatuses[versionIgnored], s.Name)
			return st == nil || st.Replicas != in[s.Name] || len(st.CreatingPods) > 0
		})
	}
}

func edit[T client.Object](name string, when func(*sim.World) bool, change func(T)) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error { return sim.Set(ctx, w, key, change) }}
}

func scale(name string, when func(*sim.World) bool, n int32) sim.Edit {
	return edit(name, when, func(s *appsv1beta1.CloneSet) { s.Spec.Replicas = &n })
}

func remove(name string, when func(*sim.World) bool, which func(*corev1.Pod) bool, most int) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		left := most
		for _, pod := range activePods(w) {
			if which(pod) && left > 0 {
				left--
				if err := w.User().Delete(ctx, pod); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

func stories() []sim.Scenario {
	all := func(objects ...client.Object) []client.Object { return append(nodes(), objects...) }
	three := func() *appsv1beta1.WorkloadSpread {
		return spreading(ours, "CloneSet", subset("a", 2), subset("b", 2), subset("c", unlimited))
	}
	changing := func() *appsv1beta1.WorkloadSpread {
		ws := three()
		ws.Annotations = map[string]string{later: "true"}
		return ws
	}
	fits := cloneSetOf(3)
	fits.Annotations = map[string]string{late: "true"}
	half := spreading(ours, "CloneSet", subset("a", "50%"), subset("b", unlimited))
	half.Annotations = map[string]string{later: "true"}
	crashing := cloneSetOf(7)
	crashing.Annotations = map[string]string{crashes: "true"}
	old := func(name, node string) *corev1.Pod { return stored(name, "", onNode(node)) }
	first := func(p *corev1.Pod) bool { m, _ := matchedOf(p); return m.Subset == "a" }
	return []sim.Scenario{
		{Name: "a workload is spread", Objects: all(cloneSetOf(6), three())},
		{Name: "scaled in and out", Objects: all(cloneSetOf(6), changing()), Edits: []sim.Edit{
			scale("scale to 3", placed(6), 3), scale("scale to 5", placed(3), 5),
		}},
		{Name: "a pod is replaced in its subset", Objects: all(cloneSetOf(6), changing()), Edits: []sim.Edit{
			remove("delete one of a", placed(6), first, 1),
		}},
		{Name: "percentages follow the workload", Objects: all(cloneSetOf(4), half), Edits: []sim.Edit{
			scale("scale to 8", placed(4), 8),
		}},
		{Name: "percentages hold while scaling in and out", Objects: all(cloneSetOf(9), spreading(ours, "CloneSet", subset("a", "34%"), subset("b", "33%"), subset("c", "33%"))), Edits: []sim.Edit{
			scale("scale to 3", counted(9), 3), scale("scale to 6", counted(3), 6),
		}},
		{Name: "pods that never schedule move on", Objects: all(cloneSetOf(3), with(spreading(ours, "CloneSet", subset(nowhere, 2), subset("b", unlimited)), adaptive(10)))},
		{Name: "pods are scheduled at the last moment", Objects: all(fits, with(spreading(ours, "CloneSet", subset(nowhere, 2), subset("b", unlimited)), adaptive(0), func(ws *appsv1beta1.WorkloadSpread) {
			ws.Annotations = map[string]string{later: "true"}
		}))},
		{Name: "subsets change", Objects: all(cloneSetOf(5), changing()), Edits: []sim.Edit{
			edit("a gets smaller", placed(5), func(ws *appsv1beta1.WorkloadSpread) {
				ws.Generation++
				ws.Spec.Subsets[0].MaxReplicas = new(intstr.FromInt(1))
			}),
			scale("scale to 6", placed(5), 6),
			edit("c gets a limit", placed(6), func(ws *appsv1beta1.WorkloadSpread) {
				ws.Generation++
				ws.Spec.Subsets = append(ws.Spec.Subsets[:2:2], subset("c", 3), subset("d", unlimited))
			}),
			scale("scale to 8", placed(6), 8),
		}},
		{Name: "a subset is removed and added again", Objects: all(cloneSetOf(4), changing()), Edits: []sim.Edit{
			edit("without a", placed(4), func(ws *appsv1beta1.WorkloadSpread) {
				ws.Generation++
				ws.Spec.Subsets = ws.Spec.Subsets[1:]
			}),
			edit("with a", placed(4), func(ws *appsv1beta1.WorkloadSpread) {
				ws.Generation++
				ws.Spec.Subsets = three().Spec.Subsets
			}),
			scale("scale to 7", func(w *sim.World) bool { return sim.Find[*appsv1beta1.WorkloadSpread](w, key).Generation == 3 }, 7),
		}},
		{Name: "all subsets are full", Objects: all(cloneSetOf(4), spreading(ours, "CloneSet", subset("a", 1), subset("b", 1)))},
		{Name: "older pods are adopted", Objects: all(cloneSetOf(4), three(), old("old-1", "node-a"), old("old-2", "node-a"), old("old-3", "node-a"), old("old-4", "node-b"))},
		{Name: "webhooks crash after writing the status", Objects: all(crashing, changing()), Edits: []sim.Edit{
			remove("delete two", placed(7), func(*corev1.Pod) bool { return true }, 2),
		}},
		{Name: "the workload is deleted", Objects: all(cloneSetOf(3), three()), Edits: []sim.Edit{
			{Name: "delete it", When: placed(3), Do: func(ctx context.Context, w *sim.World) error {
				return w.User().Delete(ctx, sim.Find[*appsv1beta1.CloneSet](w, key))
			}},
		}},
	}
}

var errDone = errors.New("enough")

// Each of these controllers does what one of the rules forbids.
func TestEachRuleIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule string
		do   func(context.Context, client.Client) error
	}{
		{"no place is promised twice", func(ctx context.Context, c client.Client) error {
			ws := &appsv1beta1.WorkloadSpread{}
			if err := c.Get(ctx, key, ws); err != nil {
				return err
			}
			var pods corev1.PodList
			if err := c.List(ctx, &pods); err != nil || len(pods.Items) < 6 {
				return err
			}
			ws.Status.VersionedSubsetStatuses = nil
			if err := c.Status().Update(ctx, ws); err != nil {
				return err
			}
			return errDone
		}},
		{"only unschedulable pods are deleted", func(ctx context.Context, c client.Client) error {
			var pods corev1.PodList
			if err := c.List(ctx, &pods); err != nil || len(pods.Items) == 0 {
				return err
			}
			return c.Delete(ctx, &pods.Items[0], client.Preconditions{UID: &pods.Items[0].UID})
		}},
		{"deletions name the UID", func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "web-0"}})
		}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			k := simulated(t)
			inner := k.New
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				r, err := inner(p)
				done := false
				return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					if done {
						return reconcile.Result{}, nil
					}
					if _, err := r.Reconcile(ctx, req); err != nil {
						return reconcile.Result{}, err
					}
					done = errors.Is(tc.do(ctx, p.Client), errDone)
					return reconcile.Result{}, nil
				}), err
			}
			s := sim.Scenario{
				Name: "rogue", Objects: append(nodes(), cloneSetOf(6), spreading(ours, "CloneSet", subset("a", 2), subset("b", 2), subset("c", unlimited))),
				Edits: []sim.Edit{scale("scale to 9", func(w *sim.World) bool {
					return len(activePods(w)) == 6 && sim.Find[*appsv1beta1.WorkloadSpread](w, key).Status.VersionedSubsetStatuses == nil
				}, 9)},
			}
			require.ErrorContains(t, sim.Run(t.Context(), k, s, sim.Schedule{}).Err, tc.rule)
		})
	}
}

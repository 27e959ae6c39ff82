package podunavailablebudget

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
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "web"}

// Annotations of pods in the simulator: a client wants to delete the pod, perhaps only once it is ready; the webhook has granted this, at
// that time. And of their workload: that many new pods are unwanted once they are ready.
const (
	unwanted  = "test/unwanted"
	mayGo     = "test/granted"
	restless  = "test/restless"
	onceReady = "once it is ready"
)

// simulated returns PodUnavailableBudget in the simulator, with the rules that hold in every scenario. Clients that delete pods ask for
// permission like the webhook, and delete at any later time.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	onChange := func(changed func(w *sim.World, before, after client.Object) bool) func(*sim.World, client.Object, client.Object) []reconcile.Request {
		return func(w *sim.World, before, after client.Object) []reconcile.Request {
			if before != nil && after != nil && !changed(w, before, after) {
				return nil
			}
			return []reconcile.Request{{NamespacedName: key}}
		}
	}
	return sim.Kind{
		Scheme: scheme(tb),
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{
				Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{}), Watch: func(schema.GroupVersionKind) {},
			}, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &corev1.Pod{})
		},
		For: &policyv1beta1.PodUnavailableBudget{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&appsv1beta1.CloneSet{}: onChange(func(_ *sim.World, before, after client.Object) bool { return workloadChanged(before, after) }),
			&corev1.Pod{}:           onChange(func(w *sim.World, before, after client.Object) bool { return podChanged(before, after, w.Now()) }),
		},
		Actors: []sim.Actor{workload{}, requests{}, sim.Kubelet{}},
		Rules: []sim.Rule{
			{Name: "enough pods stay available", State: checkEnoughAvailable},
			{Name: "a grant is kept while its request may arrive", State: checkGrantsKept},
			{Name: "only the status and the names of budgets are written", Write: checkWrites},
		},
		Summary: summarize,
	}
}

// workload acts as the scheduler and the controller of the CloneSet web, which reuses names of pods.
type workload struct{}

func (workload) Steps(w *sim.World) []sim.Step {
	set := sim.Find[*appsv1beta1.CloneSet](w, key)
	var out []sim.Step
	for i := range *set.Spec.Replicas {
		name := fmt.Sprintf("web-%d", i)
		if sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: key.Namespace, Name: name}) == nil {
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				w.Pass(time.Second) // An earlier pod with the same name must not be deleted in the same second, because only timestamps tell them apart.
				p := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, Labels: map[string]string{"app": "web"}},
					Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
				}
				controlBy(p, cloneSet, "web")
				p.OwnerReferences[0].UID = set.UID
				left, _ := strconv.Atoi(set.Annotations[restless])
				if left == 0 {
					return w.User().Create(ctx, p)
				}
				annotated(unwanted, onceReady)(p)
				return errors.Join(w.User().Create(ctx, p), sim.Set(ctx, w, key, func(set *appsv1beta1.CloneSet) {
					set.Annotations[restless] = strconv.Itoa(left - 1)
				}))
			}})
		}
	}
	return out
}

// requests acts as the clients that delete pods, with the webhook between them and the apiserver.
type requests struct{}

func (requests) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	b := sim.Find[*policyv1beta1.PodUnavailableBudget](w, key)
	for _, p := range sim.All[*corev1.Pod](w) {
		when, wants := p.Annotations[unwanted]
		remove := func(ctx context.Context) error { return w.User().Delete(ctx, p, client.Preconditions{UID: &p.UID}) }
		switch {
		case !wants || p.DeletionTimestamp != nil || when == onceReady && !servingIn(w, p):
		case mayCome(w, p):
			out = append(out, sim.Step{Do: remove})
		case judge(b.DeepCopy(), podwebhook.Request{Operation: podwebhook.Delete, Old: p}, w.Now()).refusal == nil:
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				at, err := grant(ctx, w, p)
				if err != nil {
					return err
				}
				if at.IsZero() { // It takes nothing as long as the pod is not available.
					return remove(ctx)
				}
				return sim.Set(ctx, w, client.ObjectKeyFromObject(p), func(p *corev1.Pod) { p.Annotations[mayGo] = at.UTC().Format(time.RFC3339) })
			}})
		}
	}
	return out
}

func servingIn(w *sim.World, p *corev1.Pod) bool {
	ok, _ := available(p, w.Now())
	return ok
}

// mayCome reports whether the deletion of a pod is granted and on its way to the apiserver. Nothing takes longer than deletionTime to arrive.
func mayCome(w *sim.World, p *corev1.Pod) bool {
	at, err := time.Parse(time.RFC3339, p.Annotations[mayGo])
	return err == nil && w.Now().Before(at.Add(deletionTime))
}

// checkGrantsKept: a grant is not dropped before the request arrives, unless it no longer takes a unit.
func checkGrantsKept(w *sim.World) error {
	b := sim.Find[*policyv1beta1.PodUnavailableBudget](w, key)
	for _, p := range sim.All[*corev1.Pod](w) {
		if _, granted := b.Status.DisruptedPods[p.Name]; !granted && servingIn(w, p) && mayCome(w, p) && b.Status.DesiredAvailable > 0 {
			return fmt.Errorf("the grant for %s is forgotten", p.Name)
		}
	}
	return nil
}

// grant takes a unit for a pod, as the guard does, and returns the time of the grant, or zero if the pod needs none.
func grant(ctx context.Context, w *sim.World, p *corev1.Pod) (time.Time, error) {
	b := sim.Find[*policyv1beta1.PodUnavailableBudget](w, key).DeepCopy()
	if v := judge(b, podwebhook.Request{Operation: podwebhook.Delete, Old: p}, w.Now()); v.took {
		return b.Status.DisruptedPods[p.Name].Time, w.User().Status().Update(ctx, b)
	}
	if !servingIn(w, p) || b.Status.DesiredAvailable == 0 {
		return time.Time{}, nil
	}
	return b.Status.DisruptedPods[p.Name].Time, nil // It already has a grant.
}

// checkEnoughAvailable: a granted deletion leaves enough pods available.
func checkEnoughAvailable(w *sim.World) error {
	changes := w.Changes()
	if len(changes) == 0 {
		return nil
	}
	last := changes[len(changes)-1]
	deleted, isPod := last.Before.(*corev1.Pod)
	if !isPod || last.ByController() || last.Verb != sim.Delete || !servingIn(w, deleted) {
		return nil
	}
	n, b := 0, sim.Find[*policyv1beta1.PodUnavailableBudget](w, key)
	for _, p := range sim.All[*corev1.Pod](w) {
		if servingIn(w, p) {
			n++
		}
	}
	if least := int(desiredAvailable(&b.Spec, *sim.Find[*appsv1beta1.CloneSet](w, key).Spec.Replicas)); n < least {
		return fmt.Errorf("%d pods are available after the deletion of %s, and %d must be", n, deleted.Name, least)
	}
	return nil
}

func checkWrites(_ *sim.World, c sim.Change) error {
	before, isPod := c.Before.(*corev1.Pod)
	after, written := c.After.(*corev1.Pod)
	switch {
	case c.After == nil: // It was rejected.
	case isPod && written:
		after = after.DeepCopy()
		after.ResourceVersion, after.Annotations = before.ResourceVersion, before.Annotations
		if !equality.Semantic.DeepEqual(before, after) {
			return fmt.Errorf("%s changes a pod", c.Request)
		}
	case c.Kind.Kind != kind || c.Sub != "status":
		return fmt.Errorf("%s", c.Request)
	}
	return nil
}

// summarize returns what matters at rest.
func summarize(w *sim.World) string {
	var lines []string
	for _, p := range sim.All[*corev1.Pod](w) {
		_, isUnwanted := p.Annotations[unwanted]
		lines = append(lines, fmt.Sprintf("%s available=%t unwanted=%t of %s", p.Name, servingIn(w, p), isUnwanted, budgetName(p)))
	}
	return strings.Join(append(lines, describeStatus(sim.Find[*policyv1beta1.PodUnavailableBudget](w, key))), "\n")
}

func describeStatus(b *policyv1beta1.PodUnavailableBudget) string {
	s := b.Status
	return fmt.Sprintf("generation %d: %d of %d available, %d must be, %d may go; deleted %v, updated %v", s.ObservedGeneration, s.CurrentAvailable, s.TotalReplicas,
		s.DesiredAvailable, s.UnavailableAllowed, slices.Sorted(maps.Keys(s.DisruptedPods)), slices.Sorted(maps.Keys(s.UnavailablePods)))
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 25 * time.Second}, stories()...)
}

func TestStoriesGolden(t *testing.T) {
	t.Parallel()
	k := simulated(t)
	k.Describe = func(c sim.Change) string {
		switch o := c.After.(type) {
		case *policyv1beta1.PodUnavailableBudget:
			return describeStatus(o)
		case *corev1.Pod:
			serves, _ := available(o, noon)
			return fmt.Sprintf("available=%t of %q", serves, budgetName(o))
		}
		return ""
	}
	for _, s := range stories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), k, s, sim.Schedule{})
			require.NoError(t, r.Err)
			golden.Equal(t, strings.ReplaceAll(s.Name, " ", "-"), sim.StoryText(r.Story, "web")+"# the end\n"+r.Summary+"\n")
		})
	}
}

// all reports whether n pods are counted as available.
func all(n int32) func(*sim.World) bool {
	return func(w *sim.World) bool {
		b := sim.Find[*policyv1beta1.PodUnavailableBudget](w, key)
		return b.Status.CurrentAvailable == n && b.Status.ObservedGeneration == b.Generation
	}
}

// edit changes an object.
func edit[T client.Object](name string, when func(*sim.World) bool, object string, change func(T)) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, types.NamespacedName{Namespace: key.Namespace, Name: object}, change)
	}}
}

func deletePods(when func(*sim.World) bool, pods ...string) []sim.Edit {
	var out []sim.Edit
	for _, p := range pods {
		out = append(out, edit("delete "+p, when, p, func(p *corev1.Pod) { annotated(unwanted, "")(p) }))
	}
	return out
}

func stories() []sim.Scenario {
	start := func(replicas, most int32) []client.Object {
		set := &appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: appsv1beta1.CloneSetSpec{Replicas: &replicas}}
		return []client.Object{sim.Node("node-1"), set, budget(0, targeting(cloneSet, "web"), func(b *policyv1beta1.PodUnavailableBudget) {
			b.Status, b.Spec.MaxUnavailable = policyv1beta1.PodUnavailableBudgetStatus{}, new(intstr.FromInt32(most))
		})}
	}
	again := func(objects []client.Object, times int) []client.Object {
		objects[1].SetAnnotations(map[string]string{restless: strconv.Itoa(times)})
		return objects
	}
	every := []string{"web-0", "web-1", "web-2", "web-3"}
	most := func(n int32) func(*policyv1beta1.PodUnavailableBudget) {
		return func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = new(intstr.FromInt32(n)) }
	}
	return []sim.Scenario{
		{Name: "all pods are deleted one at a time", Objects: start(4, 1), Edits: deletePods(all(4), every...)},
		{Name: "all pods are deleted two at a time", Objects: start(4, 2), Edits: deletePods(all(4), every...)},
		{Name: "pods are deleted repeatedly", Objects: start(3, 1), Edits: slices.Concat(deletePods(all(3), "web-0", "web-1"), deletePods(all(3), "web-0", "web-2"), deletePods(all(3), "web-0"))},
		{Name: "new pods are deleted once they are ready", Objects: again(start(4, 2), 5)},
		{Name: "more pods may become unavailable", Objects: start(4, 0), Edits: append(deletePods(all(4), every...), edit("raise", nil, "web", most(2)))},
		{Name: "fewer pods may become unavailable", Objects: start(4, 3), Edits: append(deletePods(all(4), "web-0"), append([]sim.Edit{edit("lower", all(4), "web", most(1))}, deletePods(all(4), every...)...)...)},
		{Name: "an unused grant", Objects: start(3, 1), Edits: append([]sim.Edit{
			{Name: "grant web-0", When: all(3), Do: func(ctx context.Context, w *sim.World) error {
				_, err := grant(ctx, w, sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: key.Namespace, Name: "web-0"}))
				return err
			}},
		}, deletePods(all(3), "web-1")...)},
		{Name: "a pod is marked as unavailable", Objects: start(3, 1), Edits: append([]sim.Edit{
			edit("mark web-2", all(3), "web-2", labelled(keys.UnavailablePodPrefix+"drain", "")),
		}, deletePods(all(2), "web-0", "web-2")...)},
		{Name: "scaled out", Objects: start(2, 1), Edits: append([]sim.Edit{edit("scale to 4", all(2), "web", func(s *appsv1beta1.CloneSet) {
			s.Spec.Replicas = new(int32(4))
		})}, deletePods(all(4), every...)...)},
	}
}

package launchpriority

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// stuck is an annotation of pods in the simulator: the container with that name doesn't become ready.
const stuck = "test/stuck"

// simulated returns the controller in the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, corev1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{})}, nil
		},
		For: &corev1.Pod{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.ConfigMap{}: func(*sim.World, client.Object, client.Object) []reconcile.Request { return nil }, // It is not watched.
		},
		Actors: []sim.Actor{kubelet{}, sim.Collector{}},
		Rules: []sim.Rule{
			{Name: "a key is written only when all earlier containers are ready", Write: checkOrder},
			{Name: "ConfigMaps of others stay as they are", Write: checkForeign},
		},
		Summary: summarize,
	}
}

// kubelet starts each container whose key exists, and makes it ready a moment later.
type kubelet struct{}

func (kubelet) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, p := range sim.All[*corev1.Pod](w) {
		if p.DeletionTimestamp != nil || p.Spec.NodeName == "" {
			continue
		}
		for i := range p.Spec.Containers {
			next := p.DeepCopy()
			if !advance(w, next, i) {
				continue
			}
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				w.Pass(time.Second)
				return client.IgnoreNotFound(w.User().Status().Update(ctx, next))
			}})
		}
	}
	return out
}

// advance moves a container to its next state, and reports whether there is one.
func advance(w *sim.World, p *corev1.Pod, i int) bool {
	for len(p.Status.ContainerStatuses) < len(p.Spec.Containers) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: p.Spec.Containers[len(p.Status.ContainerStatuses)].Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}},
		})
	}
	s := &p.Status.ContainerStatuses[i]
	switch {
	case s.State.Running == nil:
		if ref, held := barrierOf(&p.Spec.Containers[i]); held {
			cm := sim.Find[*corev1.ConfigMap](w, types.NamespacedName{Namespace: p.Namespace, Name: ref.Name})
			if cm == nil || cm.Data[ref.Key] == "" {
				return false
			}
		}
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		return true
	case !s.Ready && p.Annotations[stuck] != s.Name:
		s.Ready = true
		return true
	}
	return false
}

// checkOrder: no key is written before all containers of higher priorities have been ready.
func checkOrder(w *sim.World, c sim.Change) error {
	cm, ok := c.After.(*corev1.ConfigMap)
	if !ok || !c.ByController() {
		return nil
	}
	for _, p := range sim.All[*corev1.Pod](w) {
		if len(cm.OwnerReferences) == 0 || cm.OwnerReferences[0].UID != p.UID {
			continue
		}
		for _, g := range groupsOf(p) {
			if _, has := cm.Data[keyPrefix+strconv.Itoa(g.priority)]; !has && g.priority != first {
				continue
			}
			for _, before := range groupsOf(p) {
				if names := before.unready(p); before.priority > g.priority && len(names) > 0 {
					return fmt.Errorf("%s: key of priority %d while %s is not ready", c.Request, g.priority, names)
				}
			}
		}
	}
	return nil
}

// checkForeign: an object that isn't owned by a pod is not changed.
func checkForeign(_ *sim.World, c sim.Change) error {
	before, ok := c.Before.(*corev1.ConfigMap)
	if ok && c.After != nil && c.ByController() && len(before.OwnerReferences) == 0 { // Nil means that it was rejected.
		return fmt.Errorf("%s: ConfigMap %s is not ours", c.Request, before.Name)
	}
	return nil
}

func summarize(w *sim.World) string {
	var lines []string
	for _, p := range sim.All[*corev1.Pod](w) {
		words := []string{fmt.Sprintf("%s %s reached=%s completed=%s", p.Name, p.UID, p.Annotations[keys.ContainerLaunchPriorityReached],
			p.Annotations[keys.ContainerLaunchPriorityCompleted])}
		for _, s := range p.Status.ContainerStatuses {
			words = append(words, fmt.Sprintf("%s=%t", s.Name, s.Ready))
		}
		lines = append(lines, strings.Join(words, " "))
	}
	for _, cm := range sim.All[*corev1.ConfigMap](w) {
		lines = append(lines, fmt.Sprintf("%s %v of %v", cm.Name, cm.Data, cm.OwnerReferences))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func stories() []sim.Scenario {
	pod := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := started(three())
		p.Name, p.UID = name, types.UID("uid-"+name)
		for i := range p.Spec.Containers {
			if ref, held := barrierOf(&p.Spec.Containers[i]); held {
				ref.Name = name + "-barrier"
				p.Spec.Containers[i].Env[len(p.Spec.Containers[i].Env)-1].ValueFrom.ConfigMapKeyRef = &ref
			}
		}
		for _, c := range change {
			c(p)
		}
		return p
	}
	annotate := func(key, value string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Annotations[key] = value } }
	at := types.NamespacedName{Namespace: testkit.Namespace, Name: "a"}
	owned := func(uid string, data map[string]string) *corev1.ConfigMap {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: "a-barrier", UID: "cm"}, Data: data}
		if uid != "" {
			cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: types.UID(uid)}}
		}
		return cm
	}
	return []sim.Scenario{
		{Name: "two pods start in order", Objects: []client.Object{pod("a"), pod("b")}},
		{Name: "a pod of OpenKruise continues where its manager stopped", Objects: []client.Object{
			pod("a", func(p *corev1.Pod) {
				openKruisePod(p)
				for i := range p.Spec.Containers {
					p.Spec.Containers[i].Env[0].ValueFrom.ConfigMapKeyRef.Name = "a-barrier"
				}
			}), owned("uid-a", map[string]string{"p_10": "true"}),
		}},
		{Name: "a container that is stuck and then ready", Objects: []client.Object{pod("a", annotate(stuck, "proxy"))}, Edits: []sim.Edit{
			{Name: "it becomes ready", Do: func(ctx context.Context, w *sim.World) error {
				return sim.Set(ctx, w, at, func(p *corev1.Pod) { delete(p.Annotations, stuck) })
			}},
		}},
		{Name: "the ConfigMap of an earlier pod is deleted first", Objects: []client.Object{
			pod("a"), owned("uid-former", map[string]string{"p_0": "true", "p_-1": "true", "p_10": "true"}),
		}},
		{Name: "a foreign ConfigMap is left alone until it is deleted", Objects: []client.Object{pod("a"), owned("", map[string]string{"mine": "1"})}, Edits: []sim.Edit{
			{Name: "it is deleted", Do: func(ctx context.Context, w *sim.World) error { return w.User().Delete(ctx, owned("", nil)) }},
		}},
		{Name: "a pod is deleted midway", Objects: []client.Object{pod("a")}, Edits: []sim.Edit{
			{Name: "delete it", Do: func(ctx context.Context, w *sim.World) error {
				return client.IgnoreNotFound(w.User().Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}}, client.GracePeriodSeconds(0)))
			}},
		}},
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 6 * time.Minute}, stories()...)
}

// A pod costs two writes for each priority except the highest: its key, and the annotation.
func TestWritesOfAPod(t *testing.T) {
	t.Parallel()
	r := sim.Run(t.Context(), simulated(t), sim.Scenario{Name: "one", Objects: stories()[0].Objects[:1]}, sim.Schedule{})
	require.NoError(t, r.Err)
	require.Equal(t, 5, r.Writes, "a ConfigMap and its second key, which is one dry run and one patch, and two annotations")
	require.Contains(t, r.Summary, "reached=-1 completed=true app=true proxy=true log=true")
}

package daemonset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// reconciler returns a Reconciler with these clients.
func reconciler(c client.Client, clk clock.PassiveClock) *Reconciler {
	return &Reconciler{Controller: &podcontrol.Controller{
		Controller: controltest.New(c, c, clk, &testkit.Events{}), Overlaps: ownership.OverlapScanner{Adopts: adopts},
	}}
}

// simulated returns DaemonSet for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		Fields: Registration().Fields,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			r := reconciler(p.Client, p.Clock)
			r.Live, r.Draw = p.Live, p.Draw
			return r, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &corev1.Pod{}, &appsv1.ControllerRevision{})
		},
		For:  &appsv1beta1.DaemonSet{},
		Owns: []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Node{}: func(w *sim.World, old, updated client.Object) []reconcile.Request {
				before, _ := old.(*corev1.Node)
				after, _ := updated.(*corev1.Node)
				if set := cachedSet(w); set != nil && concerns(&set.Spec, before, after) {
					return []reconcile.Request{{NamespacedName: key}}
				}
				return nil
			},
		},
		Actors:   []sim.Actor{sim.Scheduler{Nodes: 1}, sim.Kubelet{Unpullable: unpullable}, sim.Collector{}, sim.PodCollector{}, hookHandler{}},
		Rules:    rules(),
		Summary:  end,
		Describe: describe,
	}
}

// rules returns the rules that hold at every write of a DaemonSet, under all faults.
func rules() []sim.Rule {
	return []sim.Rule{
		sim.DeletesByUID(),
		sim.OwnOnly(ownPod), sim.OwnOnly(owned[*appsv1.ControllerRevision]),
		{Name: "one pod for each node, two during a surge", Write: onePerNode},
		{Name: "no pod is created for a node that does not fit", Write: onlyWhereItFits},
		{Name: "only deletable pods are deleted", Write: onlyDeletable},
		sim.AtLeast[*corev1.Pod]{
			Name: "the budget over nodes holds", Good: serves, Free: misplaced,
			Least: func(w *sim.World) int { return fitting(w) - simGoal(w).MaxUnavailable },
		}.Rule(),
		sim.AtLeast[*corev1.Pod]{
			Name: "a rollout keeps ready pods until others are available", Good: keepsServing, Free: misplaced,
			Least: func(w *sim.World) int { return fitting(w) - simGoal(w).MaxUnavailable },
		}.Rule(),
		sim.AtLeast[*corev1.Pod]{
			Name: "the partition holds", Good: old, Free: deletable,
			Least: func(w *sim.World) int { return keptOld(w) },
		}.Rule(),
		sim.Once(wantedName),
		sim.WithoutLabel(keys.PodTemplateHash),
		sim.PausedHolds(func(w *sim.World) bool { return simGoal(w).Paused }),
		sim.HooksHold(func(w *sim.World) *pods.Lifecycle {
			if set := current(w); set != nil {
				return set.Spec.Lifecycle
			}
			return nil
		}, active),
	}
}

// ownPod: a pod is controlled by the set, or may be adopted.
func ownPod(w *sim.World, p *corev1.Pod) bool {
	return owned(w, p) || len(p.OwnerReferences) == 0 && current(w) != nil && adopts(current(w), p)
}

// cachedNodes returns the nodes in the controller's cache, by name.
func cachedNodes(w *sim.World) map[string]*corev1.Node {
	out := map[string]*corev1.Node{}
	for _, n := range sim.Cached[*corev1.Node](w) {
		out[n.Name] = n
	}
	return out
}

// fits reports whether, according to the controller's cache, a pod may run or stay on a node.
func fits(w *sim.World, name string) (run, stay bool) {
	set, node := cachedSet(w), cachedNodes(w)[name]
	if set == nil || node == nil {
		return false, false
	}
	return matcher(&set.Spec.Template).Match(node)
}

// fitting counts the nodes that fit.
func fitting(w *sim.World) int {
	n := 0
	for name := range cachedNodes(w) {
		if run, _ := fits(w, name); run {
			n++
		}
	}
	return n
}

func simGoal(w *sim.World) rollout.Goal {
	set := cachedSet(w)
	if set == nil {
		return rollout.Goal{}
	}
	g, err := goalOf(&set.Spec, fitting(w))
	if err != nil {
		return rollout.Goal{}
	}
	return g
}

func wantedName(w *sim.World) string {
	set := cachedSet(w)
	if set == nil {
		return ""
	}
	wanted, err := wantedRevision(set)
	if err != nil {
		return ""
	}
	return wanted.Name
}

func old(w *sim.World, p *corev1.Pod) bool {
	name := wantedName(w)
	run, _ := fits(w, nodeOf(p))
	return name != "" && run && active(w, p) && !podset.AtRevision(p, name)
}

func available(w *sim.World, p *corev1.Pod) bool {
	set := cachedSet(w)
	return set != nil && active(w, p) && podset.View(p, rulesOf(&set.Spec), w.Now()).Available
}

// serves reports whether a pod is available on a node that fits.
func serves(w *sim.World, p *corev1.Pod) bool {
	run, _ := fits(w, nodeOf(p))
	return run && available(w, p)
}

// keepsServing reports whether a pod serves, or is ready and will be replaced. minReadySeconds applies to pods that replace others.
func keepsServing(w *sim.World, p *corev1.Pod) bool {
	f := podset.View(p, podset.Rules{}, w.Now())
	return serves(w, p) || old(w, p) && f.Ready && f.Lifecycle == pods.LifecycleNormal && f.Update == rollout.UpdateNone
}

// misplaced reports whether a write is to a pod that the budget does not count, because its node no longer fits or another pod is available
// there.
func misplaced(w *sim.World, c sim.Change) bool {
	pod, ok := c.Before.(*corev1.Pod)
	if !ok {
		return true
	}
	if run, _ := fits(w, nodeOf(pod)); !run {
		return true
	}
	return slices.ContainsFunc(sim.Cached[*corev1.Pod](w), func(p *corev1.Pod) bool {
		return p.UID != pod.UID && nodeOf(p) == nodeOf(pod) && available(w, p)
	})
}

// deletable reports whether a pod may be deleted regardless of the partition: it is marked for deletion, has ended, or is a duplicate created
// by a late write.
func deletable(w *sim.World, c sim.Change) bool {
	pod, ok := c.Before.(*corev1.Pod)
	if !ok || pod.Status.Phase == corev1.PodFailed || pod.Labels[keys.SpecifiedDelete] != "" {
		return true
	}
	return countLateCreates(w) > 0 && slices.ContainsFunc(sim.Cached[*corev1.Pod](w), func(p *corev1.Pod) bool {
		return p.UID != pod.UID && nodeOf(p) == nodeOf(pod)
	})
}

// countLateCreates counts the pods created by late writes.
func countLateCreates(w *sim.World) int {
	n := 0
	for _, change := range w.Changes() {
		if change.Late && change.Verb == sim.Create {
			n++
		}
	}
	return n
}

// keptOld returns how many old pods the partition keeps, at most as many as there are.
func keptOld(w *sim.World) int { return simGoal(w).Partition }

// byNode returns the pods of each node, terminating ones included.
func byNode(w *sim.World) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, p := range sim.All[*corev1.Pod](w) {
		if node := nodeOf(p); owned(w, p) && node != "" {
			out[node] = append(out[node], p)
		}
	}
	return out
}

// onePerNode: the controller creates no second pod for a node, except within the surge, to replace the first one. No controller can prevent
// second pods caused by late writes, or by orphans that its cache has not shown.
func onePerNode(w *sim.World, c sim.Change) error {
	made, ok := c.After.(*corev1.Pod)
	if !ok || c.Verb != sim.Create || c.Late {
		return nil
	}
	late, doubles, all := countLateCreates(w), 0, byNode(w)
	for node, list := range all {
		if run, _ := fits(w, node); !run {
			continue // Its pods are deleted, or may stay.
		}
		if len(list) > 2 && node == nodeOf(made) && late == 0 {
			return fmt.Errorf("%s is the third pod on %s", c.Request, node)
		}
		if len(slices.DeleteFunc(list, func(p *corev1.Pod) bool { return !active(w, p) })) > 1 {
			doubles++
		}
	}
	if len(byNode(w)[nodeOf(made)]) > 1 && doubles > simGoal(w).MaxSurge+late {
		return fmt.Errorf("%s: %d nodes have two pods", c.Request, doubles)
	}
	return nil
}

func onlyWhereItFits(w *sim.World, c sim.Change) error {
	made, ok := c.After.(*corev1.Pod)
	if !ok || c.Verb != sim.Create || c.Late {
		return nil
	}
	if run, _ := fits(w, nodeOf(made)); !run {
		return fmt.Errorf("%s for %s", c.Request, nodeOf(made))
	}
	return nil
}

// onlyDeletable: a pod is deleted, or prepared for deletion, only if it is marked for deletion, has ended, may not stay on its node, is not
// the only one there, or is old and selected by the update.
func onlyDeletable(w *sim.World, c sim.Change) error {
	pod, ok := c.Before.(*corev1.Pod)
	set := cachedSet(w)
	if !ok || c.Late || c.After == nil || set == nil || !active(w, pod) || lifecycle.Of(pod) == pods.LifecyclePreparingDelete {
		return nil
	}
	if after, ok := c.After.(*corev1.Pod); c.Verb != sim.Delete && (!ok || lifecycle.Of(after) != pods.LifecyclePreparingDelete) {
		return nil
	}
	if node := pod.Spec.NodeName; node != "" && cachedNodes(w)[node] == nil {
		return fmt.Errorf("%s: whether there is %s is not known", c, node)
	}
	_, named := pod.Labels[keys.SpecifiedDelete]
	run, stay := fits(w, nodeOf(pod))
	if named || !stay {
		return nil
	}
	if slices.ContainsFunc(sim.Cached[*corev1.Pod](w), func(p *corev1.Pod) bool {
		return p.UID != pod.UID && nodeOf(p) == nodeOf(pod)
	}) {
		return nil
	}
	g := simGoal(w)
	if run && old(w, pod) && g.Mode != rollout.OnDelete && !g.Paused && selects(&set.Spec, cachedNodes(w)[nodeOf(pod)]) {
		return nil
	}
	return errors.New(cmp.Or(c.String(), "a deletion"))
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 15 * time.Second}, stories()...)
}

package uniteddeployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "web"}

// Labels of the simulated nodes: each subset has one node, which runs a limited number of pods.
const (
	subsetLabel = "subset"
	podsLabel   = "pods"
)

// simulated returns UnitedDeployment for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		Fields: Registration(nil).Fields,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{
				Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{}),
			}, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &appsv1beta1.CloneSet{}, &appsv1.Deployment{}, &appsv1.StatefulSet{},
				&appsv1beta1.StatefulSet{}, &appsv1.ControllerRevision{}, &corev1.Pod{})
		},
		For: &appsv1beta1.UnitedDeployment{},
		Owns: []client.Object{
			&appsv1beta1.CloneSet{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1beta1.StatefulSet{}, &appsv1.ControllerRevision{},
		},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Pod{}: func(_ *sim.World, old, updated client.Object) []reconcile.Request {
				if old != nil && updated != nil && !placementChanged(old, updated) {
					return nil
				}
				return []reconcile.Request{{NamespacedName: key}}
			},
		},
		Actors:  []sim.Actor{cloneSetController{}, scheduler{}, sim.Kubelet{}, sim.Collector{}},
		Rules:   []sim.Rule{sim.DeletesByUID(), {Name: "pods with a node stay", Write: keepsPlaced}, {Name: "no pod is removed before another runs", Write: keepsReady}},
		Summary: end,
	}
}

// cloneSetController is the controller of the subsets' CloneSets. It deletes pods without a node first, and updates pods by deleting old ones.
type cloneSetController struct{}

func (cloneSetController) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, set := range sim.All[*appsv1beta1.CloneSet](w) {
		if set.DeletionTimestamp != nil {
			continue
		}
		pods, want := podsIn(w, set.Labels[keys.SubsetName]), int(*set.Spec.Replicas)
		slices.SortFunc(pods, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(len(a.Spec.NodeName), len(b.Spec.NodeName)), strings.Compare(b.Name, a.Name))
		})
		ready, updated, updatedReady := 0, 0, 0
		var old []*corev1.Pod
		for _, pod := range pods {
			if podpatch.Ready(pod) {
				ready++
			}
			switch at := updatedIn(set, pod); {
			case !at:
				old = append(old, pod)
			case podpatch.Ready(pod):
				updatedReady++
				updated++
			default:
				updated++
			}
		}
		status := appsv1beta1.CloneSetStatus{
			ObservedGeneration: set.Generation, Replicas: int32(len(pods)), ReadyReplicas: int32(ready), AvailableReplicas: int32(ready),
			UpdatedReplicas: int32(updated), UpdatedReadyReplicas: int32(updatedReady), UpdatedAvailableReplicas: int32(updatedReady),
		}
		switch current := set.Status; {
		case len(pods) < want:
			out = append(out, sim.Step{Do: func(ctx context.Context) error { return w.User().Create(ctx, newPod(w, set)) }})
		case len(pods) > want:
			out = append(out, sim.Step{Do: func(ctx context.Context) error { return w.User().Delete(ctx, pods[0]) }})
		case len(old) > 0 && mayUpdate(set, want-ready):
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				if stopped(w, set.Labels[keys.SubsetName]) {
					return fmt.Errorf("pod %s begins while maxUnavailable of its subset is 0", old[0].Name)
				}
				return w.User().Delete(ctx, old[0])
			}})
		case !apiequality.Semantic.DeepEqual(current, status):
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				next := set.DeepCopy()
				next.Status = status
				return w.User().Status().Update(ctx, next)
			}})
		}
	}
	return out
}

// updatedIn reports whether a pod has the CloneSet's template.
func updatedIn(set *appsv1beta1.CloneSet, pod *corev1.Pod) bool {
	return pod.Labels[keys.SubsetRevision] == set.Spec.Template.Labels[keys.SubsetRevision]
}

// mayUpdate reports whether a CloneSet may update a pod while that many are unavailable.
func mayUpdate(set *appsv1beta1.CloneSet, unavailable int) bool {
	r := set.Spec.UpdateStrategy.RollingUpdate
	most, err := rollout.ResolveUnavailable(cmp.Or(r.MaxUnavailable, new(intstr.FromString(workloadspec.CloneSetMaxUnavailable))), 0, int(*set.Spec.Replicas))
	return err == nil && !r.Paused && unavailable < most
}

// stopped reports whether the controller has acknowledged that a subset's update is to stop.
func stopped(w *sim.World, subset string) bool {
	ud := sim.Find[*appsv1beta1.UnitedDeployment](w, key)
	n, ok := maxUnavailable(ud, subset)
	return ok && n == 0 && ud.Status.ObservedGeneration == ud.Generation
}

// podsIn returns the pods of a subset that are not being deleted.
func podsIn(w *sim.World, subset string) []*corev1.Pod {
	return slices.DeleteFunc(sim.All[*corev1.Pod](w), func(p *corev1.Pod) bool {
		return p.Labels[keys.SubsetName] != subset || p.DeletionTimestamp != nil
	})
}

func newPod(w *sim.World, set *appsv1beta1.CloneSet) *corev1.Pod {
	taken := map[string]bool{}
	for _, p := range sim.All[*corev1.Pod](w) {
		taken[p.Name] = true
	}
	name := ""
	for i := 0; name == "" || taken[name]; i++ {
		name = fmt.Sprintf("web-%s-%d", set.Labels[keys.SubsetName], i)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: name, Labels: set.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, cloneSets().GroupVersionKind)},
		},
		Spec: corev1.PodSpec{Containers: set.Spec.Template.Spec.Containers},
	}
}

// scheduler binds pods to the node of their subset while the node has room, and tells other pods that there is no node.
type scheduler struct{}

func (scheduler) Steps(w *sim.World) []sim.Step {
	used := map[string]int{}
	for _, pod := range sim.All[*corev1.Pod](w) {
		if pod.Spec.NodeName != "" {
			used[pod.Spec.NodeName]++
		}
	}
	var out []sim.Step
	for _, pod := range sim.All[*corev1.Pod](w) {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		_, waiting := rejected(pod)
		switch name := nodeFor(w, pod, used); {
		case name != "":
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				return w.User().SubResource("binding").Create(ctx, pod.DeepCopy(), &corev1.Binding{Target: corev1.ObjectReference{Name: name}})
			}})
		case !waiting:
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				next := pod.DeepCopy()
				next.Status.Phase = corev1.PodPending
				next.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
					LastTransitionTime: metav1.NewTime(w.Now().Truncate(time.Second)),
				}}
				return w.User().Status().Update(ctx, next)
			}})
		}
	}
	return out
}

func nodeFor(w *sim.World, pod *corev1.Pod, used map[string]int) string {
	for _, n := range sim.All[*corev1.Node](w) {
		most, _ := strconv.Atoi(n.Labels[podsLabel])
		if n.Labels[subsetLabel] == pod.Labels[keys.SubsetName] && used[n.Name] < most {
			return n.Name
		}
	}
	return ""
}

// keepsPlaced: unless the object itself is scaled in, no subset gets fewer replicas than it has pods with a node. A late write of a replaced
// process was right when it was sent.
func keepsPlaced(w *sim.World, c sim.Change) error {
	before, _ := c.Before.(*appsv1beta1.CloneSet)
	after, _ := c.After.(*appsv1beta1.CloneSet)
	ud := sim.Find[*appsv1beta1.UnitedDeployment](w, key)
	if before == nil || after == nil || c.Late || ud == nil || reserving(ud) || ud.Annotations["scaled-in"] != "" || *after.Spec.Replicas >= *before.Spec.Replicas {
		return nil
	}
	placed := 0
	for _, pod := range podsIn(w, after.Labels[keys.SubsetName]) {
		if pod.Spec.NodeName != "" {
			placed++
		}
	}
	if int(*after.Spec.Replicas) < placed {
		return fmt.Errorf("%s leaves %d replicas to %d pods with a node", c.Request, *after.Spec.Replicas, placed)
	}
	return nil
}

// keepsReady: with reserveUnschedulablePods, taking a replica from a subset never leaves fewer ready pods than there are replicas.
func keepsReady(w *sim.World, c sim.Change) error {
	old, _ := c.Before.(*appsv1beta1.CloneSet)
	updated, _ := c.After.(*appsv1beta1.CloneSet)
	ud := sim.Find[*appsv1beta1.UnitedDeployment](w, key)
	if old == nil || updated == nil || c.Late || ud == nil || !reserving(ud) || *updated.Spec.Replicas >= *old.Spec.Replicas {
		return nil
	}
	before, after := 0, 0
	for _, set := range sim.All[*appsv1beta1.CloneSet](w) {
		ready := len(slices.DeleteFunc(podsIn(w, set.Labels[keys.SubsetName]), func(p *corev1.Pod) bool { return !podpatch.Ready(p) }))
		before += ready
		if set.Name == updated.Name {
			ready = min(ready, int(*updated.Spec.Replicas))
		}
		after += ready
	}
	if after < min(before, int(*ud.Spec.Replicas)) {
		return fmt.Errorf("%s leaves %d of %d ready pods to %d replicas", c.Request, after, before, *ud.Spec.Replicas)
	}
	return nil
}

// end returns the state that matters at rest.
func end(w *sim.World) string {
	var lines []string
	for _, set := range sim.All[*appsv1beta1.CloneSet](w) {
		placed := 0
		marked := 0
		pods := podsIn(w, set.Labels[keys.SubsetName])
		for _, pod := range pods {
			if pod.Spec.NodeName != "" {
				placed++
			}
			if reserved(pod) {
				marked++
			}
		}
		line := fmt.Sprintf("subset %s: %d replicas, %d pods, %d with a node", set.Labels[keys.SubsetName], *set.Spec.Replicas, len(pods), placed)
		if marked > 0 {
			line += fmt.Sprintf(", %d reserved", marked)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	ud := sim.Find[*appsv1beta1.UnitedDeployment](w, key)
	for _, s := range ud.Status.SubsetStatuses {
		lines = append(lines, fmt.Sprintf("status of %s: %d replicas, %d ready, %s", s.Name, s.Replicas, s.ReadyReplicas, schedulable(&ud.Status, s.Name)))
		if s.ReservedPods > 0 {
			lines[len(lines)-1] += fmt.Sprintf(", %d reserved", s.ReservedPods)
		}
	}
	if reserving(ud) {
		lines = append(lines, fmt.Sprintf("status: %d replicas, %d ready, %d reserved", ud.Status.Replicas, ud.Status.ReadyReplicas, ud.Status.ReservedPods))
	}
	return strings.Join(append(lines, fmt.Sprintf("observed=%t", ud.Status.ObservedGeneration == ud.Generation)), "\n")
}

func schedulable(s *appsv1beta1.UnitedDeploymentStatus, subset string) string {
	if c := storedCondition(s, subset); c != nil {
		return fmt.Sprintf("Schedulable=%s (%s)", c.Status, c.Reason)
	}
	return "never closed"
}

// describe returns what a write has changed, for golden stories.
func describe(c sim.Change) string {
	summary := func(o client.Object) (out []string) {
		switch o := o.(type) {
		case *appsv1beta1.UnitedDeployment:
			for _, s := range o.Status.SubsetStatuses {
				out = append(out, s.Name+" "+schedulable(&o.Status, s.Name))
				if o.Spec.UpdateStrategy.ManualUpdate.MaxUnavailable != nil {
					out = append(out, fmt.Sprintf("%s %d of %d updated", s.Name, s.UpdatedAvailableReplicas, s.Replicas))
				}
				if reserving(o) {
					out = append(out, fmt.Sprintf("%s %d reserved", s.Name, s.ReservedPods))
				}
			}
		case *appsv1beta1.CloneSet:
			out = append(out, fmt.Sprintf("%d replicas", *o.Spec.Replicas))
			if limited(o) {
				out = append(out, limits(o))
			}
		case *corev1.Pod:
			out = append(out, "on "+cmp.Or(o.Spec.NodeName, "no node"))
			if label := o.Labels[keys.SubsetReserved]; label != "" {
				out = append(out, "reserved="+label)
			}
		}
		return out
	}
	return c.News(summary)
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60}, allStories()...)
}

func TestStoriesGolden(t *testing.T) {
	t.Parallel()
	k := simulated(t)
	k.Describe = describe
	for _, s := range allStories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), k, s, sim.Schedule{})
			require.NoError(t, r.Err)
			golden.Equal(t, strings.ReplaceAll(s.Name, " ", "-"), sim.StoryText(r.Story, "web")+"# the end\n"+r.Summary+"\n")
		})
	}
}

func allStories() []sim.Scenario {
	return slices.Concat(adaptiveStories(), reservingStories(), limitedStories())
}

// world returns the initial objects: an object with 5 replicas, and nodes for 2 pods of subset a and b pods of subset b.
func world(b string) []client.Object {
	ud := withAdaptive(web("a", "b"))
	ud.Spec.Replicas = new(int32(5))
	ud.UID, ud.ResourceVersion, ud.Generation = "", "", 1
	return []client.Object{ud, sim.Node("node-a", subsetLabel, "a", podsLabel, "2"), sim.Node("node-b", subsetLabel, "b", podsLabel, b)}
}

func scaled(when func(*sim.World) bool, n int32) sim.Edit {
	return sim.Edit{Name: fmt.Sprintf("scale to %d", n), When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(ud *appsv1beta1.UnitedDeployment) {
			if n < *ud.Spec.Replicas {
				ud.Annotations = map[string]string{"scaled-in": "true"}
			}
			ud.Spec.Replicas = &n
		})
	}}
}

// placed is reached when 2 pods of subset a and 3 of b have a node, no other pods are left, and a's condition has that status.
func placed(status corev1.ConditionStatus) func(*sim.World) bool {
	return func(w *sim.World) bool {
		ud := sim.Find[*appsv1beta1.UnitedDeployment](w, key)
		c := storedCondition(&ud.Status, "a")
		for subset, n := range map[string]int{"a": 2, "b": 3} {
			pods := podsIn(w, subset)
			if len(pods) != n || slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" }) {
				return false
			}
		}
		return c != nil && c.Status == status
	}
}

// waiting is reached when n pods of subset a wait for a node.
func waiting(n int) func(*sim.World) bool {
	return func(w *sim.World) bool {
		return len(slices.DeleteFunc(podsIn(w, "a"), func(p *corev1.Pod) bool { _, waits := rejected(p); return !waits })) == n
	}
}

// allClosed is reached when both subsets are closed, and 2 pods of b wait.
func allClosed(w *sim.World) bool {
	ud := sim.Find[*appsv1beta1.UnitedDeployment](w, key)
	a, b := storedCondition(&ud.Status, "a"), storedCondition(&ud.Status, "b")
	return a != nil && b != nil && a.Status == corev1.ConditionFalse && b.Status == corev1.ConditionFalse && len(podsIn(w, "b")) == 3
}

func adaptiveStories() []sim.Scenario {
	return []sim.Scenario{
		{Name: "pods that never schedule move on", Objects: world("9")},
		{Name: "pods that schedule in time stay", Objects: world("9"), Edits: []sim.Edit{
			sim.LabelNode(waiting(3), "node-a", podsLabel, "9"),
		}},
		{Name: "a scale out while a subset is closed", Objects: world("9"), Edits: []sim.Edit{
			scaled(placed(corev1.ConditionFalse), 8),
		}},
		{Name: "a subset that has room again gets new pods and no old ones", Objects: world("9"), Edits: []sim.Edit{
			sim.LabelNode(placed(corev1.ConditionFalse), "node-a", podsLabel, "9"), scaled(placed(corev1.ConditionTrue), 8),
		}},
		{Name: "a scale in removes from the last", Objects: world("9"), Edits: []sim.Edit{
			scaled(placed(corev1.ConditionFalse), 4),
		}},
		{Name: "no subset has room for a while", Objects: world("1"), Edits: []sim.Edit{
			sim.LabelNode(allClosed, "node-b", podsLabel, "9"),
		}},
	}
}

// reservingWorld is world with reserveUnschedulablePods.
func reservingWorld(b string) []client.Object {
	objects := world(b)
	reserve(objects[0].(*appsv1beta1.UnitedDeployment))
	return objects
}

// replaced is reached when 3 reserved pods of subset a wait, and 3 pods of b are ready in their place.
func replaced(w *sim.World) bool {
	return waiting(3)(w) && len(slices.DeleteFunc(podsIn(w, "b"), func(p *corev1.Pod) bool { return !podpatch.Ready(p) })) == 3
}

// deletes returns an edit that deletes pods of subset a, as a rollout or a user may. Their workload creates them again.
func deletes(when func(*sim.World) bool, what string, which func(*corev1.Pod) bool) sim.Edit {
	return sim.Edit{Name: "delete " + what, When: when, Do: func(ctx context.Context, w *sim.World) error {
		for _, pod := range podsIn(w, "a") {
			if which(pod) {
				if err := client.IgnoreNotFound(w.User().Delete(ctx, pod)); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// scalesWorkload changes the replicas of subset a's workload, which users should not do.
func scalesWorkload(when func(*sim.World) bool, n int32) sim.Edit {
	return sim.Edit{Name: fmt.Sprintf("scale the workload of a to %d", n), When: when, Do: func(ctx context.Context, w *sim.World) error {
		for _, set := range sim.All[*appsv1beta1.CloneSet](w) {
			if set.Labels[keys.SubsetName] == "a" {
				return sim.Set(ctx, w, client.ObjectKeyFromObject(set), func(set *appsv1beta1.CloneSet) { set.Spec.Replicas = &n })
			}
		}
		return nil
	}}
}

func reservingStories() []sim.Scenario {
	return []sim.Scenario{
		{Name: "reserved pods wait and others run", Objects: reservingWorld("9")},
		{Name: "reserved pods get a node and the others go", Objects: reservingWorld("9"), Edits: []sim.Edit{
			sim.LabelNode(replaced, "node-a", podsLabel, "9"),
		}},
		{Name: "one reserved pod gets a node", Objects: reservingWorld("9"), Edits: []sim.Edit{
			sim.LabelNode(replaced, "node-a", podsLabel, "3"),
		}},
		{Name: "a scale out while pods are reserved", Objects: reservingWorld("9"), Edits: []sim.Edit{scaled(replaced, 8)}},
		{Name: "a scale in while pods are reserved", Objects: reservingWorld("9"), Edits: []sim.Edit{scaled(replaced, 4)}},
		{Name: "a scale in below what runs while pods are reserved", Objects: reservingWorld("9"), Edits: []sim.Edit{scaled(replaced, 1)}},
		{Name: "reserved pods are replaced", Objects: reservingWorld("9"), Edits: []sim.Edit{deletes(replaced, "reserved pods", reserved)}},
		{Name: "reserved pods are replaced and get a node", Objects: reservingWorld("9"), Edits: []sim.Edit{
			deletes(replaced, "reserved pods", reserved), sim.LabelNode(replaced, "node-a", podsLabel, "9"),
		}},
		{Name: "pods that run are replaced by reserved ones", Objects: reservingWorld("9"), Edits: []sim.Edit{
			deletes(replaced, "pods that run", func(p *corev1.Pod) bool { return !reserved(p) }),
		}},
		{Name: "pods are no longer reserved", Objects: reservingWorld("9"), Edits: []sim.Edit{
			{Name: "reserve no pods", When: replaced, Do: func(ctx context.Context, w *sim.World) error {
				return sim.Set(ctx, w, key, func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Topology.ScheduleStrategy.Adaptive = nil })
			}},
		}},
		{Name: "a user scales the workload of reserved pods", Objects: reservingWorld("9"), Edits: []sim.Edit{scalesWorkload(replaced, 9)}},
		{Name: "no subset has room for reserved pods", Objects: reservingWorld("1"), Edits: []sim.Edit{
			sim.LabelNode(allClosed, "node-b", podsLabel, "9"),
		}},
		{Name: "a scale out while no subset has room", Objects: reservingWorld("1"), Edits: []sim.Edit{scaled(allClosed, 7)}},
	}
}

// limitedStories are updates of 3 pods in each of two subsets, of which a has a maxUnavailable.
func limitedStories() []sim.Scenario {
	objects := func() []client.Object {
		ud := web("a", "b")
		ud.Spec.Replicas = new(int32(6))
		ud.UID, ud.ResourceVersion, ud.Generation = "", "", 1
		return []client.Object{ud, sim.Node("node-a", subsetLabel, "a", podsLabel, "9"), sim.Node("node-b", subsetLabel, "b", podsLabel, "9")}
	}
	edit := func(name string, when func(*sim.World) bool, change func(*appsv1beta1.UnitedDeployment)) sim.Edit {
		return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error { return sim.Set(ctx, w, key, change) }}
	}
	to := func(n int32) func(*appsv1beta1.UnitedDeployment) {
		return func(ud *appsv1beta1.UnitedDeployment) { limit(ud, n) }
	}
	// updated is reached when n pods of a are ready with the template of their CloneSet.
	updated := func(n int) func(*sim.World) bool {
		return func(w *sim.World) bool {
			for _, set := range sim.All[*appsv1beta1.CloneSet](w) {
				if set.Labels[keys.SubsetName] == "a" {
					return n == len(slices.DeleteFunc(podsIn(w, "a"), func(p *corev1.Pod) bool { return !podpatch.Ready(p) || !updatedIn(set, p) }))
				}
			}
			return false
		}
	}
	return []sim.Scenario{
		{Name: "the update of a subset waits and goes on and stops", Objects: objects(), Edits: []sim.Edit{
			edit("a new template, and 0 pods of a may be unavailable", updated(3), func(ud *appsv1beta1.UnitedDeployment) {
				ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
				limit(ud, 0)
			}),
			edit("1 pod of a may be unavailable", nil, to(1)),
			edit("0 pods of a may be unavailable", updated(1), to(0)),
			edit("2 pods of a may be unavailable", nil, to(2)),
			edit("the template decides", nil, to(-1)),
		}},
		{Name: "a stopped subset is scaled", Objects: objects(), Edits: []sim.Edit{
			edit("a new template, and 0 pods of a may be unavailable", updated(3), func(ud *appsv1beta1.UnitedDeployment) {
				ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
				limit(ud, 0)
			}),
			{Name: "scale to 8", Do: func(ctx context.Context, w *sim.World) error {
				return sim.Set(ctx, w, key, func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = new(int32(8)) })
			}},
		}},
	}
}

func TestEachRuleIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule string
		do   func(context.Context, client.Client, *appsv1beta1.CloneSet) error
	}{
		{"pods with a node stay", func(ctx context.Context, c client.Client, set *appsv1beta1.CloneSet) error {
			set.Spec.Replicas = new(int32(1))
			return c.Update(ctx, set)
		}},
		{"deletions name the UID", func(ctx context.Context, c client.Client, set *appsv1beta1.CloneSet) error { return c.Delete(ctx, set) }},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			k := simulated(t)
			inner := k.New
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				r, err := inner(p)
				return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					result, err := r.Reconcile(ctx, req)
					var list appsv1beta1.CloneSetList
					if err := errors.Join(err, p.Client.List(ctx, &list)); err != nil {
						return result, err
					}
					for i := range list.Items {
						if list.Items[i].Status.ReadyReplicas == 2 {
							return result, client.IgnoreNotFound(tc.do(ctx, p.Client, &list.Items[i]))
						}
					}
					return result, nil
				}), err
			}
			require.ErrorContains(t, sim.Run(t.Context(), k, sim.Scenario{Name: "rogue", Objects: world("9")}, sim.Schedule{}).Err, tc.rule)
		})
	}
}

package daemonset

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "web"}

// web begins a DaemonSet.
func web() *testkit.DaemonSetBuilder { return testkit.DaemonSet("web") }

// four returns the nodes of a story: two of tier a, which an update may select, and two of tier b, the last of which has a taint
// PreferNoSchedule.
func four() []client.Object {
	last := sim.Node("n4", "tier", "b", "role", "work")
	last.Spec.Taints = []corev1.Taint{{Key: "kept", Value: "db", Effect: corev1.TaintEffectPreferNoSchedule}}
	return []client.Object{
		sim.Node("n1", "tier", "a", "role", "work"), sim.Node("n2", "tier", "a", "role", "work"),
		sim.Node("n3", "tier", "b", "role", "work"), last,
		sim.Node("virtual", "type", "virtual-kubelet", "role", "work"),
	}
}

// current returns the set as it is; nil if there is none.
func current(w *sim.World) *appsv1beta1.DaemonSet { return sim.Find[*appsv1beta1.DaemonSet](w, key) }

// live returns the set's active pods.
func live(w *sim.World) []*corev1.Pod {
	return slices.DeleteFunc(sim.All[*corev1.Pod](w), func(p *corev1.Pod) bool { return !active(w, p) })
}

func active(w *sim.World, p *corev1.Pod) bool {
	return owned(w, p) && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed
}

// edit changes the spec at rest, or when it is due.
func edit(name string, when func(*sim.World) bool, change func(*appsv1beta1.DaemonSetSpec)) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(set *appsv1beta1.DaemonSet) { change(&set.Spec) })
	}}
}

func paused(value bool) func(*appsv1beta1.DaemonSetSpec) {
	return func(s *appsv1beta1.DaemonSetSpec) { s.UpdateStrategy.RollingUpdate.Paused = value }
}

func partition(n int32) func(*appsv1beta1.DaemonSetSpec) {
	return func(s *appsv1beta1.DaemonSetSpec) {
		s.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(n))
	}
}

// someUpdated reports, for sim.Edit.When, whether n pods should run app:2.
func someUpdated(n int) func(*sim.World) bool {
	return func(w *sim.World) bool {
		have := 0
		for _, p := range live(w) {
			if p.Spec.Containers[0].Image == "app:2" {
				have++
			}
		}
		return have >= n
	}
}

// allAvailable reports, for sim.Edit.When, whether n pods of an image are available and there are no others.
func allAvailable(n int, image string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		have := 0
		for _, p := range sim.All[*corev1.Pod](w) {
			switch {
			case !owned(w, p):
			case !active(w, p) || !podset.View(p, rulesOf(&current(w).Spec), w.Now()).Available || p.Spec.Containers[0].Image != image:
				return false
			default:
				have++
			}
		}
		return have == n
	}
}

// labelForDeletion is a user labelling the pod of a node for deletion.
func labelForDeletion(node string) sim.Edit {
	return onPod("label a pod for deletion", node, func(p *corev1.Pod) { p.Labels[keys.SpecifiedDelete] = "true" })
}

// onPod changes the pod of a node as a user would.
func onPod(name, node string, change func(*corev1.Pod)) sim.Edit {
	return sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error {
		for _, p := range live(w) {
			if nodeOf(p) == node {
				p = p.DeepCopy()
				change(p)
				return w.User().Update(ctx, p)
			}
		}
		return nil
	}}
}

// foreign returns a pod without a controller that the selector matches, but that no DaemonSet has created.
func foreign() *corev1.Pod {
	p := testkit.Pod("unowned").Obj()
	p.Spec.NodeName = "virtual"
	return p
}

// held returns a set with a hook on the label hold=yes, which its pods are created with.
func held() *testkit.DaemonSetBuilder {
	return web().Spec(func(s *appsv1beta1.DaemonSetSpec) {
		s.Lifecycle = &pods.Lifecycle{PreDelete: &pods.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, MarkPodNotReady: true}}
		s.Template.Labels["hold"] = "yes"
	})
}

// hookHandler removes the label from pods in PreparingDelete.
type hookHandler struct{}

// Steps implements sim.Actor.
func (hookHandler) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, p := range live(w) {
		if p.Labels["hold"] == "" || lifecycle.Of(p) != pods.LifecyclePreparingDelete {
			continue
		}
		out = append(out, sim.Step{Name: "hook handler lets go of " + p.Name, Do: func(ctx context.Context) error {
			p = p.DeepCopy()
			delete(p.Labels, "hold")
			return w.User().Update(ctx, p)
		}})
	}
	return out
}

// blueGreen configures a release in which no pod becomes available before the promotion.
func blueGreen(s *appsv1beta1.DaemonSetSpec, minReady int32, unavailable, surge string) {
	s.MinReadySeconds = minReady
	s.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.Parse(unavailable))
	s.UpdateStrategy.RollingUpdate.MaxSurge = new(intstr.Parse(surge))
}

// unpullable reports whether an image can't be pulled.
func unpullable(image string) bool { return strings.HasSuffix(image, ":bad") }

func noSchedule() corev1.Taint {
	return corev1.Taint{Key: "full", Effect: corev1.TaintEffectNoSchedule}
}

func noExecute() corev1.Taint {
	return corev1.Taint{Key: "broken", Effect: corev1.TaintEffectNoExecute}
}

func story(name string, set *testkit.DaemonSetBuilder, edits ...sim.Edit) sim.Scenario {
	return sim.Scenario{Name: name, Objects: append(four(), set.Obj(), foreign()), Edits: edits}
}

// stories returns stories that are played in the simulator and written to golden files.
func stories() []sim.Scenario {
	return []sim.Scenario{
		story("nodes come and go", web().OnNodes("role", "work"),
			sim.AddNode(nil, "n5", "role", "work"), sim.AddNode(nil, "n6"), sim.CordonNode(nil, "n1"),
			sim.RemoveNode(nil, "n2"), sim.LabelNode(nil, "n6", "role", "work"), sim.LabelNode(nil, "n3", "role", ""),
			sim.AddNode(nil, "n2", "role", "work")),
		story("taints", web(),
			sim.TaintNode(nil, "n1", noSchedule()), sim.TaintNode(nil, "n2", noExecute()),
			edit("a new image", nil, image("app:2")), sim.TaintNode(nil, "n1"), sim.TaintNode(nil, "n2")),
		story("re-created two at a time", web().Budget("0", "2", "0"), edit("a new image", nil, image("app:2"))),
		story("in place with partition", web().InPlace().Budget("50%", "2", "0"),
			edit("a new image", nil, image("app:2")), edit("partition 0", updatedToPartition, partition(0))),
		story("canary", web().InPlace().Canary("tier", "a").Budget("0", "2", "0"),
			edit("a new image", nil, image("app:2")), sim.LabelNode(nil, "n3", "tier", "a"),
			edit("everywhere", nil, func(s *appsv1beta1.DaemonSetSpec) { s.UpdateStrategy.RollingUpdate.Selector = nil })),
		story("surge", web().Budget("0", "0", "2"), edit("a new image", nil, image("app:2"))),
		story("a surge that is rolled back", web().Budget("0", "0", "1"),
			edit("an image that can't be pulled", nil, image("app:bad")), edit("back", nil, image("app:1"))),
		story("a surge while nodes change", web().Budget("0", "0", "2"),
			edit("a new image", nil, image("app:2")), sim.TaintNode(someUpdated(1), "n4", noSchedule()),
			sim.RemoveNode(someUpdated(2), "n3"), sim.TaintNode(nil, "n4")),
		story("pods to delete with a surge", web().Budget("0", "0", "1"), labelForDeletion("n3"), labelForDeletion("n2"), edit("a new image", nil, image("app:2"))),
		story("rollback midway", web().InPlace().Budget("0", "2", "0"),
			edit("a new image", nil, image("app:2")), edit("back", someUpdated(1), image("app:1"))),
		story("stalled image", web().InPlace().Budget("0", "1", "0"),
			edit("an image that can't be pulled", nil, image("app:bad")), edit("back", nil, image("app:1"))),
		story("paused", web().InPlace().Budget("0", "1", "0"),
			edit("a new image", nil, image("app:2")), edit("pause", someUpdated(1), paused(true)),
			sim.AddNode(nil, "n5"), edit("resume", nil, paused(false))),
		story("hooks", held().Budget("0", "2", "0"),
			edit("a new image", nil, image("app:2")), sim.TaintNode(nil, "n2", noExecute()),
			labelForDeletion("n3")),
		story("pods end", web(), sim.EndPods("n2", nil), sim.EndPods("n2", nil), sim.EndPods("n3", nil)),
		story("on delete", web().OnDelete(),
			edit("a new image", allAvailable(4, "app:1"), image("app:2")), deletePod("n3", secondRevisionCreated), sim.AddNode(nil, "n5")),
		story("partitioned scaling", web().Budget("3", "1", "0").Spec(func(s *appsv1beta1.DaemonSetSpec) {
			s.ScaleStrategy = &appsv1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
		}), edit("partition 1", nil, partition(1)), edit("partition 0", nil, partition(0))),
		story("a burst of one", web().InPlace().Budget("0", "100%", "0").Spec(func(s *appsv1beta1.DaemonSetSpec) {
			s.BurstReplicas = new(intstr.FromInt32(1))
		}), edit("a new image", nil, image("app:2"))),
		story("minReadySeconds", web().Budget("0", "0", "1").Spec(func(s *appsv1beta1.DaemonSetSpec) { s.MinReadySeconds = 3 }),
			edit("a new image", nil, image("app:2"))),
		story("minReadySeconds is raised with the image", web().Budget("0", "1", "0"),
			edit("a new image", nil, func(s *appsv1beta1.DaemonSetSpec) { image("app:2")(s); s.MinReadySeconds = 3 })),
		story("blue-green", web(),
			edit("a new image", nil, func(s *appsv1beta1.DaemonSetSpec) { image("app:2")(s); blueGreen(s, 1<<31-2, "0", "50%") }),
			edit("all", nil, func(s *appsv1beta1.DaemonSetSpec) { blueGreen(s, 1<<31-2, "0", "100%") }),
			edit("promoted", nil, func(s *appsv1beta1.DaemonSetSpec) { blueGreen(s, 0, "1", "0") })),
		adoptionStory(),
	}
}

func updatedToPartition(w *sim.World) bool {
	return someUpdated(2)(w) && !slices.ContainsFunc(live(w), func(p *corev1.Pod) bool {
		return !podset.View(p, podset.Rules{}, w.Now()).Available
	})
}

// secondRevisionCreated reports, for sim.Edit.When, whether the controller has created a second revision.
func secondRevisionCreated(w *sim.World) bool {
	return len(sim.All[*appsv1.ControllerRevision](w)) == 2
}

// deletePod deletes the pod of a node, as well as a second one created by a late write.
func deletePod(node string, when func(*sim.World) bool) sim.Edit {
	return sim.Edit{Name: "delete the pod of " + node, When: when, Do: func(ctx context.Context, w *sim.World) error {
		for _, p := range live(w) {
			if nodeOf(p) != node {
				continue
			}
			if err := w.User().Delete(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}}
}

// adoptionStory is about a set with the name of an earlier one that has left its pods.
func adoptionStory() sim.Scenario {
	s := story("pods are adopted", web().Budget("0", "1", "0"), edit("a new image", nil, image("app:2")))
	for _, node := range []string{"n1", "n3"} {
		s.Objects = append(s.Objects, orphan("web-of"+node, node))
	}
	return s
}

// orphan returns a pod that another DaemonSet named web has left.
func orphan(name, node string) *corev1.Pod {
	pod := testkit.Pod(name).Obj()
	pod.GenerateName = "web-"
	pod.UID, pod.Spec.NodeName = "", node
	podset.Pin(&pod.Spec, node)
	return pod
}

// end returns the final state of a story: the status, and the pod of each node. How many pods have ended varies.
func end(w *sim.World) string {
	var lines []string
	for _, p := range sim.All[*corev1.Pod](w) {
		if p.Status.Phase == corev1.PodFailed {
			continue
		}
		f := podset.View(p, podset.Rules{}, w.Now())
		lines = append(lines, fmt.Sprintf("%s: pod of %s: %s available=%t %s edit=%d",
			nodeOf(p), ownerName(p), p.Spec.Containers[0].Image, f.Available, f.Lifecycle, f.Update))
	}
	slices.Sort(lines)
	if set := current(w); set != nil {
		st := set.Status
		conditions := make([]string, 0, len(st.Conditions))
		for _, c := range st.Conditions { // Their times vary.
			conditions = append(conditions, fmt.Sprintf("%s=%s: %s", c.Type, c.Status, c.Reason))
		}
		lines = append(lines, counts(set)[0], fmt.Sprintf("observed=%t conditions=%v", st.ObservedGeneration == set.Generation, conditions))
	}
	return strings.Join(lines, "\n")
}

func ownerName(o client.Object) string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.Kind
	}
	return "none"
}

// counts returns the lines of a story about a set.
func counts(s *appsv1beta1.DaemonSet) []string {
	st := &s.Status
	out := []string{fmt.Sprintf("desired %d, current %d, ready %d, up-to-date %d, available %d, misscheduled %d",
		st.DesiredNumberScheduled, st.CurrentNumberScheduled, st.NumberReady, st.UpdatedNumberScheduled, st.NumberAvailable, st.NumberMisscheduled)}
	for _, c := range st.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	return out
}

func owned[T client.Object](w *sim.World, o T) bool {
	set := current(w)
	if set == nil {
		set = cachedSet(w)
	}
	return set != nil && ownership.ControlledBy(o, set, Kind())
}

// cachedSet returns the DaemonSet in the controller's cache.
func cachedSet(w *sim.World) *appsv1beta1.DaemonSet {
	for _, s := range sim.Cached[*appsv1beta1.DaemonSet](w) {
		if s.Name == key.Name {
			return s
		}
	}
	return nil
}

package cloneset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
)

// A story is what users do to a CloneSet, one act after the other. The same stories are played in the simulator, with faults, and on a real
// apiserver with simulated nodes. They must reach the same state each time.
type story struct {
	name string
	set  *testkit.CloneSetBuilder
	acts []act
}

// act is one change that a user makes.
type act struct {
	name string
	// when reports whether the time has come; nil means at rest.
	when func(scene) bool
	// change returns a changed copy of an object; nil if there is nothing to change.
	change func(scene) client.Object
}

// scene is a snapshot of the namespace. Nothing in it may be changed.
type scene struct {
	set  *appsv1beta1.CloneSet // nil if there is none
	pods []*corev1.Pod         // sorted by name
	pvcs []*corev1.PersistentVolumeClaim
	now  time.Time
}

// own returns the set's active pods.
func (s scene) own() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(s.pods), func(p *corev1.Pod) bool { return s.set == nil || !activeIn(s.set, p) })
}

func activeIn(set *appsv1beta1.CloneSet, p *corev1.Pod) bool {
	return ownership.ControlledBy(p, set, Kind()) && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed
}

func availableIn(set *appsv1beta1.CloneSet, p *corev1.Pod, now time.Time) bool {
	return activeIn(set, p) && podset.View(p, rulesOf(&set.Spec), now).Available
}

// edit changes the spec at rest, or when it is due.
func edit(name string, when func(scene) bool, change func(*appsv1beta1.CloneSetSpec)) act {
	return act{name: name, when: when, change: func(s scene) client.Object {
		if s.set == nil {
			return nil
		}
		set := s.set.DeepCopy()
		change(&set.Spec)
		return set
	}}
}

func image(name string) func(*appsv1beta1.CloneSetSpec) {
	return func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = name }
}

func scale(n int32) func(*appsv1beta1.CloneSetSpec) {
	return func(s *appsv1beta1.CloneSetSpec) { s.Replicas = &n }
}

func paused(value bool) func(*appsv1beta1.CloneSetSpec) {
	return func(s *appsv1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.Paused = value }
}

// someUpdated reports, for act.when, whether n pods should run app:2.
func someUpdated(n int) func(scene) bool {
	return func(s scene) bool {
		have := 0
		for _, p := range s.own() {
			if p.Spec.Containers[0].Image == "app:2" {
				have++
			}
		}
		return have >= n
	}
}

// allAvailable reports, for act.when, whether n pods of an image are available and there are no others.
func allAvailable(n int, image string) func(scene) bool {
	return func(s scene) bool {
		have := 0
		for _, p := range s.pods {
			switch {
			case s.set == nil || !ownership.ControlledBy(p, s.set, Kind()):
			case !availableIn(s.set, p, s.now) || p.Spec.Containers[0].Image != image:
				return false
			default:
				have++
			}
		}
		return have == n
	}
}

// withCost reports, for act.when, whether n pods have a deletion cost.
func withCost(n int) func(scene) bool {
	return func(s scene) bool {
		return len(slices.DeleteFunc(s.own(), func(p *corev1.Pod) bool { return costOf(p) == "" })) == n
	}
}

func costOf(p *corev1.Pod) string { return p.Annotations[corev1.PodDeletionCost] }

// onPod changes the n-th of the set's pods; from the end, if n is below 0.
func onPod(name string, when func(scene) bool, n int, change func(*corev1.Pod)) act {
	return act{name: name, when: when, change: func(s scene) client.Object {
		own := s.own()
		i := n
		if n < 0 {
			i += len(own)
		}
		if i < 0 || i >= len(own) {
			return nil
		}
		p := own[i].DeepCopy()
		change(p)
		return p
	}}
}

// labelForDeletion labels the first pod for deletion.
func labelForDeletion() act {
	return onPod("label a pod for deletion", nil, 0, func(p *corev1.Pod) { p.Labels[keys.SpecifiedDelete] = "true" })
}

// addToPodsToDelete adds the first pod to podsToDelete and sets replicas to n.
func addToPodsToDelete(n int32) act {
	return act{name: "add a pod to podsToDelete", change: func(s scene) client.Object {
		own := s.own()
		if len(own) == 0 {
			return nil
		}
		set := s.set.DeepCopy()
		set.Spec.Replicas, set.Spec.ScaleStrategy.PodsToDelete = &n, []string{own[0].Name}
		return set
	}}
}

// cost gives the n-th pod from the end a deletion cost.
func cost(n int, when func(scene) bool) act {
	return onPod("a pod gets a deletion cost", when, -n, func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[corev1.PodDeletionCost] = "100"
	})
}

// foreign returns a pod that the selector matches but that has no controller.
func foreign() *corev1.Pod {
	p := testkit.Pod("unowned").Obj()
	p.Spec.NodeName = "node-of-its-own" // No act on a node deletes it, because overlaps are scanned only twice a minute.
	return p
}

// held returns a set with hooks on the label hold=yes, which its pods are created with.
func held(n int32) *testkit.CloneSetBuilder {
	hook := func() *pods.LifecycleHook {
		return &pods.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}}
	}
	return web(n).Policy(appsv1beta1.PodInPlaceIfPossible).Spec(func(s *appsv1beta1.CloneSetSpec) {
		s.Lifecycle = &pods.Lifecycle{InPlaceUpdate: hook(), PreDelete: hook()}
		s.Lifecycle.InPlaceUpdate.MarkPodNotReady = true
		s.Template.Labels["hold"] = "yes"
	})
}

// blueGreen returns what kruise-rollouts does to a CloneSet for a blue-green release in two steps: no pod becomes available before the
// promotion, and the surge is the size of the step.
func blueGreen() []act {
	rolling := func(s *appsv1beta1.CloneSetSpec, minReady int32, unavailable, surge, partition *intstr.IntOrString) {
		r := s.UpdateStrategy.RollingUpdate
		s.MinReadySeconds, r.MaxUnavailable, r.MaxSurge, r.Partition = minReady, unavailable, surge, partition
	}
	const never = 2147483646
	return []act{
		edit("a new image", nil, func(s *appsv1beta1.CloneSetSpec) {
			image("app:2")(s)
			rolling(s, never, new(intstr.FromInt32(0)), new(intstr.FromInt32(1)), new(intstr.FromString("100%")))
		}),
		edit("half", nil, func(s *appsv1beta1.CloneSetSpec) {
			rolling(s, never, new(intstr.FromInt32(0)), new(intstr.FromString("50%")), nil)
		}),
		edit("all", nil, func(s *appsv1beta1.CloneSetSpec) {
			rolling(s, never, new(intstr.FromInt32(0)), new(intstr.FromString("100%")), nil)
		}),
		edit("promoted", nil, func(s *appsv1beta1.CloneSetSpec) {
			rolling(s, 0, new(intstr.FromString("20%")), nil, nil)
		}),
	}
}

// unpullable reports whether an image can't be pulled.
func unpullable(image string) bool { return strings.HasSuffix(image, ":bad") }

// stories returns stories that are played in the simulator and in the cluster, and written to golden files.
func stories() []story {
	inPlace := func(n int32) *testkit.CloneSetBuilder { return web(n).Policy(appsv1beta1.PodInPlaceIfPossible) }
	first := []pods.UpdatePriorityWeightTerm{{
		Weight: 100, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "first"}},
	}}
	return []story{
		{"scale out and in", web(3), []act{
			edit("scale to 6", nil, scale(6)), edit("scale to 2", nil, scale(2)),
		}},
		{"scale-in order", web(5), []act{
			cost(1, allAvailable(5, "app:1")), cost(2, allAvailable(5, "app:1")), edit("scale to 2", withCost(2), scale(2)),
		}},
		{"scale-in with hooks", held(4), []act{
			edit("scale to 2", nil, scale(2)), labelForDeletion(), edit("scale to 3", nil, scale(3)),
		}},
		{"in place with partition", inPlace(5).Rolling("3", "2", "0"), []act{
			edit("a new image", nil, image("app:2")),
			edit("partition 0", nil, func(s *appsv1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.Partition = nil }),
		}},
		{"surge with re-create", web(4).Rolling("0", "1", "2"), []act{
			edit("a new image", nil, image("app:2")),
		}},
		{"blue-green", web(5), blueGreen()},
		{"pods to delete", inPlace(4).Rolling("0", "1", "0"), []act{
			labelForDeletion(), addToPodsToDelete(3), edit("a new image", nil, image("app:2")), labelForDeletion(),
		}},
		{"rollback midway", inPlace(5).Rolling("0", "2", "0"), []act{
			edit("a new image", nil, image("app:2")), edit("back", someUpdated(2), image("app:1")),
		}},
		{"rollback midway with hooks", held(3).Rolling("0", "1", "0"), []act{
			edit("a new image", nil, image("app:2")), edit("back", someUpdated(1), image("app:1")),
		}},
		{"paused", inPlace(4).Rolling("0", "2", "0"), []act{
			edit("a new image", nil, image("app:2")),
			edit("pause", someUpdated(1), paused(true)), edit("scale to 5", nil, scale(5)), edit("resume", nil, paused(false)),
		}},
		{"paused surge", web(3).Rolling("0", "1", "1").Paused(), []act{
			edit("a new image", nil, image("app:2")), edit("resume", nil, paused(false)),
		}},
		{"stalled image", inPlace(4).Rolling("0", "1", "0"), []act{
			edit("an image that can't be pulled", nil, image("app:bad")), edit("back", nil, image("app:1")),
		}},
		{"minReadySeconds", inPlace(4).Rolling("0", "1", "0").Spec(func(s *appsv1beta1.CloneSetSpec) { s.MinReadySeconds = 3 }), []act{
			edit("a new image", nil, image("app:2")), edit("scale to 5", nil, scale(5)), edit("scale to 2", nil, scale(2)),
		}},
		{"updates by priority", inPlace(4).Rolling("2", "1", "0").Spec(func(s *appsv1beta1.CloneSetSpec) {
			s.UpdateStrategy.RollingUpdate.PriorityStrategy = &pods.UpdatePriorityStrategy{WeightPriority: first}
		}), []act{
			onPod("one pod goes first", nil, -1, func(p *corev1.Pod) { p.Labels["tier"] = "first" }),
			edit("a new image", nil, image("app:2")),
		}},
	}
}

// end returns the final state of a story: the status, the pods without their names, and the PVCs. How many pods have ended varies, and they
// and their PVCs may stay. With reuse, spare PVCs without a pod may also stay.
func (s scene) end(spare int) string {
	var lines []string
	ids := map[string]bool{}
	for _, pod := range s.pods {
		ids[instanceID(pod)] = true
		if pod.Status.Phase == corev1.PodFailed {
			continue
		}
		f := podset.View(pod, podset.Rules{}, s.now)
		lines = append(lines, fmt.Sprintf("pod of %s: %s available=%t %s edit=%d cost=%s",
			ownerName(pod), pod.Spec.Containers[0].Image, f.Available, f.Lifecycle, f.Update, cmp.Or(costOf(pod), "0")))
	}
	for _, c := range s.pvcs {
		owner := ownerName(c)
		if owner != "Pod" && !ids[instanceID(c)] && spare > 0 {
			spare--
		} else if owner != "Pod" {
			lines = append(lines, "PVC of "+owner)
		}
	}
	slices.Sort(lines)
	if s.set != nil {
		st := s.set.Status
		conditions := make([]string, 0, len(st.Conditions))
		for _, c := range st.Conditions { // Their times vary.
			conditions = append(conditions, fmt.Sprintf("%s=%s: %s", c.Type, c.Status, c.Reason))
		}
		lines = append(lines, fmt.Sprintf("%d pods, %d ready, %d available; updated: %d, %d ready, %d available, %d expected",
			st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpdatedReplicas, st.UpdatedReadyReplicas,
			st.UpdatedAvailableReplicas, st.ExpectedUpdatedReplicas),
			fmt.Sprintf("observed=%t done=%t podsToDelete=%v conditions=%v", st.ObservedGeneration == s.set.Generation,
				st.CurrentRevision == st.UpdateRevision, s.set.Spec.ScaleStrategy.PodsToDelete, conditions))
	}
	return strings.Join(lines, "\n")
}

// ownerName names the owner of an object; a pod only by its kind, because its name is random.
func ownerName(o client.Object) string {
	for _, ref := range o.GetOwnerReferences() {
		return ref.Kind
	}
	return "none"
}

package statefulset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// rules returns the rules that hold at every write of a StatefulSet, under all faults.
func rules() []sim.Rule {
	return []sim.Rule{
		sim.DeletesByUID(),
		sim.OwnOnly(ownOrOrphan[*corev1.Pod]), sim.OwnOnly(ownOrOrphan[*appsv1.ControllerRevision]),
		sim.OwnOnly(func(_ *sim.World, c *corev1.PersistentVolumeClaim) bool { return podOfPVC(setMeta(), c.Name) != "" }),
		sim.AtLeast[*corev1.Pod]{
			Name: "the budget over slots holds", Good: available,
			Least: func(w *sim.World) int { g := goal(w); return len(g.Slots) - g.MaxUnavailable },
		}.Rule(),
		sim.AtLeast[*corev1.Pod]{
			Name: "a rollout keeps ready pods until others are available", Good: keepsServing,
			Least: func(w *sim.World) int { g := goal(w); return len(g.Slots) - g.MaxUnavailable },
		}.Rule(),
		sim.Once(wantedName),
		sim.WithoutLabel(keys.PodTemplateHash),
		sim.PausedHolds(func(w *sim.World) bool { return goal(w).Paused }),
		sim.HooksHold(func(w *sim.World) *pods.Lifecycle {
			if set := live(w); set != nil {
				return set.Spec.Lifecycle
			}
			return nil
		}, active),
		{Name: "no pod is created in a reserved ordinal, or with PVCs of another", Write: inItsSlot},
		{Name: "pods are created in order", Write: createdInOrder},
		{Name: "pods are deleted in order", Write: removedInOrder},
		{Name: "the partition holds", Write: partitionHolds},
		{Name: "only deletable pods are deleted", Write: onlyDeletable},
		{Name: "the controller deletes no PVC, and sets owners by the policy", Write: policyHolds},
		{Name: "no pod is updated before its PVCs are resized", Write: growsFirst},
		{Name: "no more PVCs are resized at a time than pods may be unavailable", Write: growsWithinBudget},
	}
}

func setMeta() metav1.Object { return &metav1.ObjectMeta{Name: key.Name} }

// cachedSet returns the set in the controller's cache; nil if there is none.
func cachedSet(w *sim.World) *appsv1beta1.StatefulSet {
	all := sim.Cached[*appsv1beta1.StatefulSet](w)
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

func goal(w *sim.World) rollout.Goal {
	set := cachedSet(w)
	if set == nil {
		return rollout.Goal{}
	}
	g, _ := goalOf(observed{set: set, gates: on()})
	return g
}

// slot returns the slot of a pod, according to the controller's cache.
func slot(w *sim.World, pod string) (rollout.Slot, bool) {
	g := goal(w)
	i := slices.IndexFunc(g.Slots, func(s rollout.Slot) bool {
		return podName(&appsv1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}, s.Key) == pod
	})
	if i < 0 {
		return rollout.Slot{}, false
	}
	return g.Slots[i], true
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
	for _, r := range sim.All[*appsv1.ControllerRevision](w) {
		if revision.Equal(r, wanted) {
			return r.Name // an adopted one
		}
	}
	return wanted.Name
}

// ownOrOrphan reports whether an object belongs to the set, or may be adopted.
func ownOrOrphan[T client.Object](w *sim.World, o T) bool {
	set := cmp.Or(live(w), cachedSet(w))
	return set != nil && (ownership.ControlledBy(o, set, Kind()) || metav1.GetControllerOf(o) == nil && (ordinalIn(set, o.GetName()) != "" || o.GetLabels()["app"] == set.Name))
}

func active(w *sim.World, p *corev1.Pod) bool {
	set := cmp.Or(live(w), cachedSet(w))
	return set != nil && ownership.ControlledBy(p, set, Kind()) && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed
}

// available reports whether a pod in a wanted slot is available.
func available(w *sim.World, p *corev1.Pod) bool {
	set := cachedSet(w)
	_, wanted := slot(w, p.Name)
	return set != nil && wanted && active(w, p) && podset.View(p, rulesOf(&set.Spec), w.Now()).Available
}

func old(w *sim.World, p *corev1.Pod) bool {
	name := wantedName(w)
	return name != "" && !podset.AtRevision(p, name)
}

// keepsServing reports whether a pod in a wanted slot is available, or is ready and will be replaced. minReadySeconds applies to pods that
// replace others.
func keepsServing(w *sim.World, p *corev1.Pod) bool {
	_, wanted := slot(w, p.Name)
	f := podset.View(p, podset.Rules{}, w.Now())
	return available(w, p) || wanted && active(w, p) && old(w, p) && f.Ready && f.Lifecycle == pods.LifecycleNormal && f.Update == rollout.UpdateNone
}

// created returns the pod that a write of the controller creates, removed the pod that it deletes.
func created(c sim.Change) (*corev1.Pod, bool) {
	p, ok := c.After.(*corev1.Pod)
	return p, ok && c.Verb == sim.Create && !c.Late
}

func removed(c sim.Change) (*corev1.Pod, bool) {
	p, ok := c.Before.(*corev1.Pod)
	return p, ok && c.Verb == sim.Delete && !c.Late && c.Err == nil
}

func inItsSlot(w *sim.World, c sim.Change) error {
	p, ok := created(c)
	if !ok {
		return nil
	}
	if _, wanted := slot(w, p.Name); !wanted {
		return fmt.Errorf("%s, and its ordinal is not wanted", c.Request)
	}
	if p.Labels[keys.PodIndex] != ordinalIn(setMeta(), p.Name) || p.Spec.Hostname != p.Name {
		return fmt.Errorf("%s has the identity of another", c.Request)
	}
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != pvcNames(p.Name)(v.Name) {
			return fmt.Errorf("%s mounts %s", c.Request, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return nil
}

func inOrder(w *sim.World) bool { return goal(w).Ordered }

// createdInOrder: pods are created one by one, each once all pods before it are available according to the controller's cache.
func createdInOrder(w *sim.World, c sim.Change) error {
	p, ok := created(c)
	if !ok || !inOrder(w) {
		return nil
	}
	serves := map[string]bool{}
	for _, o := range sim.Cached[*corev1.Pod](w) {
		serves[o.Name] = available(w, o)
	}
	for _, s := range goal(w).Slots {
		name := key.Name + "-" + s.Key
		if name == p.Name {
			return nil
		}
		if !serves[name] {
			return fmt.Errorf("%s, and %s is not available", c.Request, name)
		}
	}
	return nil
}

// removedInOrder: of the pods above replicas, the one with the highest ordinal is deleted first, and none while another one is terminating.
// While two others are not available, a pod that is not available is kept, unless it was prepared for deletion.
func removedInOrder(w *sim.World, c sim.Change) error {
	p, ok := removed(c)
	if !ok || !inOrder(w) || p.Labels[keys.SpecifiedDelete] != "" {
		return nil
	}
	if _, wanted := slot(w, p.Name); wanted || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	number := func(p *corev1.Pod) int { return mustInt(strconv.Atoi(ordinalIn(setMeta(), p.Name))) }
	waits := func(p *corev1.Pod) bool { return !podset.View(p, rulesOf(&cachedSet(w).Spec), w.Now()).Available }
	for _, o := range sim.Cached[*corev1.Pod](w) {
		_, wanted := slot(w, o.Name)
		switch {
		case wanted || !ownership.ControlledBy(o, cachedSet(w), Kind()):
		case number(o) > number(p):
			return fmt.Errorf("%s, and %s is there", c.Request, o.Name)
		case o.Name != p.Name && waits(o) && waits(p) && lifecycle.Of(p) != pods.LifecyclePreparingDelete:
			return fmt.Errorf("%s, and neither it nor %s is available", c.Request, o.Name)
		}
	}
	return nil
}

func mustInt(n int, err error) int {
	if err != nil {
		return -1
	}
	return n
}

// partitionHolds: an old pod in a slot within the partition is neither updated nor deleted for an update. With unordered updates, the
// partition is a number of pods.
func partitionHolds(w *sim.World, c sim.Change) error {
	before, _, edit := sim.Edited(c)
	if !edit {
		p, ok := removed(c)
		if !ok || deletable(w, p) {
			return nil
		}
		before = p
	}
	at, wanted := slot(w, before.Name)
	if c.Late || !wanted || !old(w, before) {
		return nil
	}
	if at.Old {
		return fmt.Errorf("%s is in a slot within the partition", c.Request)
	}
	left := 0
	for _, p := range sim.Cached[*corev1.Pod](w) {
		live := sim.Find[*corev1.Pod](w, client.ObjectKeyFromObject(p))
		if _, wanted := slot(w, p.Name); wanted && p.Name != before.Name && old(w, p) && (live == nil || old(w, live)) {
			left++
		}
	}
	if n := goal(w).Partition; left < n {
		return fmt.Errorf("%s leaves %d old pods, and the partition is %d", c.Request, left, n)
	}
	return nil
}

// deletable reports whether a pod may be deleted regardless of its revision. That is so if it is marked for deletion and updates are not
// paused or its deletion has begun, if it has ended, if it is not wanted, or if it does not run and has lost a PVC.
func deletable(w *sim.World, p *corev1.Pod) bool {
	_, named := p.Labels[keys.SpecifiedDelete]
	_, wanted := slot(w, p.Name)
	named = named && (!goal(w).Paused || lifecycle.Of(p) == pods.LifecyclePreparingDelete)
	if named || !wanted || p.Status.Phase == corev1.PodFailed {
		return true
	}
	return p.Status.Phase != corev1.PodRunning && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		c := sim.Find[*corev1.PersistentVolumeClaim](w, client.ObjectKey{Namespace: p.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		return c == nil || c.DeletionTimestamp != nil
	})
}

// onlyDeletable: a pod is deleted only if it is deletable, or for an update that is not paused.
func onlyDeletable(w *sim.World, c sim.Change) error {
	p, ok := removed(c)
	if !ok || deletable(w, p) || old(w, p) && !goal(w).Paused && goal(w).Mode != rollout.OnDelete {
		return nil
	}
	return errors.New(c.String())
}

// policyHolds: a PVC gets the set as an owner if it is to be deleted with the set, and a pod if it is to be deleted with that pod, which is
// not wanted.
func policyHolds(w *sim.World, c sim.Change) error {
	if c.Kind.Kind != "PersistentVolumeClaim" || c.After == nil { // refused
		return nil
	}
	if c.Verb == sim.Delete {
		return errors.New(c.String())
	}
	set, pvc := cachedSet(w), c.After.(*corev1.PersistentVolumeClaim)
	if set == nil || c.Late {
		return nil
	}
	withSet, withPod := retention(set, on())
	for _, ref := range pvc.OwnerReferences {
		if c.Before != nil && slices.ContainsFunc(c.Before.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == ref.UID }) {
			continue
		}
		_, wanted := slot(w, podOfPVC(set, pvc.Name))
		switch {
		case ref.UID == set.UID && withSet && (wanted || !withPod):
		case ref.Kind == "Pod" && ref.Name == podOfPVC(set, pvc.Name) && withPod && !wanted:
		default:
			return fmt.Errorf("%s gives it to %s %s", c.Request, ref.Kind, ref.Name)
		}
	}
	return nil
}

// growsFirst: if PVCs are resized, a pod is updated only after its PVCs, according to the controller's cache.
func growsFirst(w *sim.World, c sim.Change) error {
	before, _, edit := sim.Edited(c)
	if p, ok := removed(c); ok && !deletable(w, p) {
		before, edit = p, true
	}
	if o := cachedWithPVCs(w); edit && !c.Late && o.set != nil && o.resizes() && o.worst(before.Name) != pvcFits {
		return fmt.Errorf("%s, and its PVC is %d", c.Request, o.worst(before.Name))
	}
	return nil
}

func cachedWithPVCs(w *sim.World) observed {
	o := observed{set: cachedSet(w), gates: on(), pvcs: map[string]*corev1.PersistentVolumeClaim{}}
	for _, c := range sim.Cached[*corev1.PersistentVolumeClaim](w) {
		o.pvcs[c.Name] = c
	}
	return o
}

// worst returns the worst state of a pod's PVCs.
func (o *observed) worst(pod string) pvcState {
	worst := pvcFits
	for name, t := range o.pvcsOf(pod) {
		if c := o.pvcs[name]; c != nil {
			worst = max(worst, compare(c, t))
		}
	}
	return worst
}

func growsWithinBudget(w *sim.World, c sim.Change) error {
	pvc, ok := c.After.(*corev1.PersistentVolumeClaim)
	o := cachedWithPVCs(w)
	if !ok || c.Late || c.Verb != sim.Patch || o.set == nil || !larger(pvc.Spec.Resources.Requests, c.Before.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests) {
		return nil
	}
	n, own := 0, podOfPVC(o.set, pvc.Name)
	for _, p := range sim.Cached[*corev1.Pod](w) {
		if available(w, p) && p.Name != own && o.worst(p.Name) == pvcResizing {
			n++
		}
	}
	if n >= goal(w).MaxUnavailable {
		return fmt.Errorf("%s, and %d others are resizing", c.Request, n)
	}
	return nil
}

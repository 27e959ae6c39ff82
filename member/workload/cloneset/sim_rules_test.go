package cloneset

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// rules returns the rules that hold at every write of a CloneSet, under all faults.
func rules() []sim.Rule {
	return []sim.Rule{
		sim.DeletesByUID(),
		sim.OwnOnly(owned[*corev1.Pod]), sim.OwnOnly(ownPVC), sim.OwnOnly(owned[*appsv1.ControllerRevision]),
		sim.AtMost("never more pods than replicas and surge", active, func(w *sim.World) int {
			g := simGoal(w)
			if g.Paused {
				g.MaxSurge = 0 // #1153: a surge is part of an update.
			}
			return g.Replicas + g.MaxSurge
		}),
		sim.AtLeast[*corev1.Pod]{
			Name: "the budget holds", Good: available, Free: surplus,
			Least: func(w *sim.World) int { return simGoal(w).Replicas - simGoal(w).MaxUnavailable },
		}.Rule(),
		sim.AtLeast[*corev1.Pod]{
			Name: "enough pods are ready", Good: ready,
			Least: func(w *sim.World) int { return simGoal(w).Replicas - simGoal(w).MaxUnavailable },
		}.Rule(),
		sim.AtLeast[*corev1.Pod]{
			Name: "a rollout keeps ready pods until others are available", Good: keepsServing, Free: scaledIn,
			Least: func(w *sim.World) int { return simGoal(w).Replicas - simGoal(w).MaxUnavailable },
		}.Rule(),
		sim.AtLeast[*corev1.Pod]{
			Name: "the partition holds", Good: old, Verbs: []sim.Verb{sim.Patch},
			Least: func(w *sim.World) int { return simGoal(w).Partition },
		}.Rule(),
		sim.Once(wantedName),
		sim.PausedHolds(func(w *sim.World) bool { return simGoal(w).Paused }),
		{Name: "only deletable pods are deleted", Write: onlyDeletable},
		sim.HooksHold(func(w *sim.World) *pods.Lifecycle {
			if set := sim.Find[*appsv1beta1.CloneSet](w, key); set != nil {
				return set.Spec.Lifecycle
			}
			return nil
		}, active),
		{Name: "pods of lower deletion cost are deleted first", Write: lowestCostFirst},
		{Name: "pods of the priority are updated first", Write: priorityFirst},
		{Name: "pods keep their PVCs", State: pvcsLive},
		{Name: "PVCs of lost pods are kept", Write: onlyItsOwnPVCs},
	}
}

// cachedSet returns the CloneSet in the controller's cache.
func cachedSet(w *sim.World) *appsv1beta1.CloneSet {
	for _, s := range sim.Cached[*appsv1beta1.CloneSet](w) {
		if s.Name == key.Name {
			return s
		}
	}
	return nil
}

func simGoal(w *sim.World) rollout.Goal {
	set := cachedSet(w)
	if set == nil {
		return rollout.Goal{}
	}
	g, err := goalOf(&set.Spec)
	if err != nil {
		return rollout.Goal{}
	}
	return g
}

func owned[T client.Object](w *sim.World, o T) bool {
	set := cmp.Or(sim.Find[*appsv1beta1.CloneSet](w, key), cachedSet(w))
	return set != nil && ownership.ControlledBy(o, set, Kind())
}

// ownPVC: a PVC belongs to the set, or was transferred to one of its pods, which may be gone.
func ownPVC(w *sim.World, c *corev1.PersistentVolumeClaim) bool {
	return owned(w, c) || slices.ContainsFunc(w.Changes(), func(change sim.Change) bool {
		p, ok := change.After.(*corev1.Pod)
		return ok && owned(w, p) && len(c.OwnerReferences) > 0 && c.OwnerReferences[0].UID == p.UID
	})
}

func active(w *sim.World, p *corev1.Pod) bool {
	return owned(w, p) && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed
}

func available(w *sim.World, p *corev1.Pod) bool {
	set := cachedSet(w)
	return set != nil && active(w, p) && podset.View(p, rulesOf(&set.Spec), w.Now()).Available
}

// ready reports whether a pod serves. A pod in PreparingDelete does not, ready or not.
func ready(w *sim.World, p *corev1.Pod) bool {
	f := podset.View(p, podset.Rules{}, w.Now())
	return active(w, p) && f.Ready && f.Lifecycle == pods.LifecycleNormal
}

// keepsServing reports whether a pod is available, or is ready and will be replaced. minReadySeconds applies to pods that replace others.
func keepsServing(w *sim.World, p *corev1.Pod) bool {
	return available(w, p) || old(w, p) && ready(w, p)
}

// scaledIn reports whether a pod is deleted by a scale-in: there are more pods than a surge allows.
func scaledIn(w *sim.World, c sim.Change) bool {
	pod, ok := c.Before.(*corev1.Pod)
	g := simGoal(w)
	return ok && c.Verb == sim.Delete && known(w, pod) > g.Replicas+g.MaxSurge
}

// surplus reports whether a pod is deleted only by a scale-in, without a surge. A long minReadySeconds does not delay that (#1478), so
// readiness counts instead of availability.
func surplus(w *sim.World, c sim.Change) bool {
	pod, ok := c.Before.(*corev1.Pod)
	set, g := cachedSet(w), simGoal(w)
	return ok && c.Verb == sim.Delete && set.Spec.MinReadySeconds > 0 && g.MaxSurge == 0 && known(w, pod) > g.Replicas
}

func old(w *sim.World, p *corev1.Pod) bool {
	name := wantedName(w)
	return name != "" && active(w, p) && !podset.AtRevision(p, name)
}

// wantedName returns the update revision according to the controller's cache.
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

// onlyDeletable: a pod is deleted, or prepared for deletion, only if it is marked for deletion, does not run and has lost a PVC, is old while
// pods are re-created, or exceeds replicas, according to the controller's cache and its own writes. A pod in PreparingDelete may always be
// deleted.
func onlyDeletable(w *sim.World, c sim.Change) error {
	pod, ok := c.Before.(*corev1.Pod)
	set := cachedSet(w)
	if !ok || c.Late || c.After == nil || set == nil || !active(w, pod) || lifecycle.Of(pod) == pods.LifecyclePreparingDelete {
		return nil
	}
	if after, ok := c.After.(*corev1.Pod); c.Verb != sim.Delete && (!ok || lifecycle.Of(after) != pods.LifecyclePreparingDelete) {
		return nil
	}
	g := simGoal(w)
	_, named := pod.Labels[keys.SpecifiedDelete]
	if named || slices.Contains(set.Spec.ScaleStrategy.PodsToDelete, pod.Name) || g.Mode == rollout.ReCreate && !g.Paused && old(w, pod) {
		return nil
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil || pod.Status.Phase == corev1.PodRunning {
			continue
		}
		name := client.ObjectKey{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
		if pvc := sim.Find[*corev1.PersistentVolumeClaim](w, name); pvc == nil || pvc.DeletionTimestamp != nil {
			return nil
		}
	}
	if n := known(w, pod); n <= g.Replicas {
		return fmt.Errorf("%s, with %d pods of %d", c.Request, n, g.Replicas)
	}
	return nil
}

// known counts the pods in the controller's cache that the controller has not deleted, pod included.
func known(w *sim.World, pod *corev1.Pod) int {
	gone := map[types.UID]bool{}
	for _, change := range w.Changes() {
		if change.ByController() && change.Verb == sim.Delete && change.Err == nil && change.Before.GetUID() != pod.UID {
			gone[change.Before.GetUID()] = true
		}
		if after, ok := change.After.(*corev1.Pod); ok && change.ByController() && lifecycle.Of(after) == pods.LifecyclePreparingDelete && after.UID != pod.UID {
			gone[after.UID] = true
		}
	}
	n := 0
	for _, p := range sim.Cached[*corev1.Pod](w) {
		if active(w, p) && !gone[p.UID] {
			n++
		}
	}
	return n
}

// lowestCostFirst: no ready pod is deleted while there is one with a lower deletion cost.
func lowestCostFirst(w *sim.World, c sim.Change) error {
	pod, ok := c.Before.(*corev1.Pod)
	if !ok || c.Verb != sim.Delete || c.Late || c.After == nil || !available(w, pod) {
		return nil
	}
	price := func(p *corev1.Pod) int {
		n, err := strconv.Atoi(cmp.Or(costOf(p), "0"))
		if err != nil {
			return 0
		}
		return n
	}
	for _, p := range sim.Cached[*corev1.Pod](w) {
		live := sim.Find[*corev1.Pod](w, client.ObjectKeyFromObject(p))
		if live != nil && live.UID != pod.UID && available(w, p) && available(w, live) && max(price(p), price(live)) < price(pod) {
			return fmt.Errorf("%s, and %s has a lower cost", c.Request, p.Name)
		}
	}
	return nil
}

// priorityFirst: while a pod with the priority is old and ready, no other pod is made unready for its update.
func priorityFirst(w *sim.World, c sim.Change) error {
	before, ok := c.Before.(*corev1.Pod)
	after, _ := c.After.(*corev1.Pod)
	if !ok || after == nil || c.Verb != sim.Patch || c.Late || before.Labels["tier"] != "" || !available(w, before) ||
		lifecycle.Of(before) == lifecycle.Of(after) {
		return nil
	}
	if i := slices.IndexFunc(sim.Cached[*corev1.Pod](w), func(p *corev1.Pod) bool {
		live := sim.Find[*corev1.Pod](w, client.ObjectKeyFromObject(p))
		return p.Labels["tier"] == "first" && old(w, p) && available(w, p) && live != nil && available(w, live)
	}); i >= 0 {
		return fmt.Errorf("%s, and a pod of the priority has not been updated", c.Request)
	}
	return nil
}

// pvcsLive: the PVCs that an active pod on a node mounts exist and are not terminating, unless a user deleted them. A late deletion may hit a
// PVC that the next leader lets another pod reuse.
func pvcsLive(w *sim.World) error {
	for _, pod := range sim.All[*corev1.Pod](w) {
		if !active(w, pod) || pod.Spec.NodeName == "" {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			name := client.ObjectKey{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
			c := sim.Find[*corev1.PersistentVolumeClaim](w, name)
			if (c == nil || c.DeletionTimestamp != nil) && lateWrites(w, sim.Delete, name.Name) == 0 && !deletedByUser(w, name.Name) {
				return fmt.Errorf("pod %s mounts %s, which is gone or terminating", pod.Name, name.Name)
			}
		}
	}
	return nil
}

func deletedByUser(w *sim.World, pvc string) bool {
	return slices.ContainsFunc(w.Changes(), func(c sim.Change) bool {
		return c.By == "user" && c.Verb == sim.Delete && c.Kind.Kind == "PersistentVolumeClaim" && c.Key.Name == pvc
	})
}

// lateWrites counts the late writes of a verb to a PVC; an empty name matches any PVC.
func lateWrites(w *sim.World, verb sim.Verb, name string) int {
	n := 0
	for _, c := range w.Changes() {
		if c.Late && c.Verb == verb && c.Kind.Kind == "PersistentVolumeClaim" && (name == "" || c.Key.Name == name) {
			n++
		}
	}
	return n
}

// onlyItsOwnPVCs: with reuse, the set deletes only PVCs of pods that it deletes itself.
func onlyItsOwnPVCs(w *sim.World, c sim.Change) error {
	pvc, ok := c.Before.(*corev1.PersistentVolumeClaim)
	set := cachedSet(w)
	if !ok || c.Verb != sim.Delete || set == nil || !set.Spec.ScaleStrategy.EnablePVCReuse {
		return nil
	}
	for _, pod := range sim.Cached[*corev1.Pod](w) {
		if active(w, pod) && instanceID(pod) == instanceID(pvc) {
			return nil // the cache still shows the pod; if it stays, another rule fails
		}
	}
	for _, change := range w.Changes() {
		if pod, ok := change.Before.(*corev1.Pod); ok && change.ByController() && change.Verb == sim.Delete && instanceID(pod) == instanceID(pvc) {
			return nil
		}
	}
	return fmt.Errorf("%s, and its pod was lost", c.Request)
}

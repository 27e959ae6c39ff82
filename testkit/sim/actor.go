package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Cluster returns the actors of an ordinary cluster with that many nodes.
func Cluster(nodes int) []Actor {
	return []Actor{Scheduler{Nodes: nodes}, Kubelet{}, Collector{}}
}

// Scheduler binds each pod to one of Nodes nodes: node-1, node-2 and so on. A pod with affinity to one node goes to that node, which must
// exist and have no taint that the pod doesn't tolerate. A pod waits for the PVCs that it mounts.
type Scheduler struct{ Nodes int }

// Steps implements Actor.
func (s Scheduler) Steps(w *World) []Step {
	var out []Step
	for _, pod := range All[*corev1.Pod](w) {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && hasPVCs(w, pod) && isTaken(w, pod) {
			out = append(out, Step{"", func(context.Context) error { return s.bind(w, pod) }})
		}
	}
	return out
}

func hasPVCs(w *World, pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		c := Find[*corev1.PersistentVolumeClaim](w, types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		return c == nil || c.DeletionTimestamp != nil
	})
}

// bind chooses the node with the fewest pods.
func (s Scheduler) bind(w *World, pod *corev1.Pod) error {
	if node := podset.Pinned(pod); node != "" {
		bound := pod.DeepCopy()
		bound.Spec.NodeName = node
		return w.updateObject("scheduler", "binding", bound)
	}
	busy := map[string]int{}
	for _, p := range All[*corev1.Pod](w) {
		busy[p.Spec.NodeName]++
	}
	best := ""
	for i := range s.Nodes {
		if name := fmt.Sprintf("node-%d", i+1); best == "" || busy[name] < busy[best] {
			best = name
		}
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = best
	return w.updateObject("scheduler", "binding", bound)
}

// updateObject writes an object as a client without a cache.
func (w *World) updateObject(by, sub string, o client.Object) error {
	kind, err := w.as(by).GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	o.SetResourceVersion("")
	_, err = w.apply(by, Request{Verb: Update, Sub: sub, Kind: kind, Key: client.ObjectKeyFromObject(o), Object: o}, false)
	return err
}

// deleteObject deletes an object, with a grace period.
func (w *World) deleteObject(by string, o client.Object, grace *int64) error {
	kind, err := w.as(by).GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	_, err = w.apply(by, Request{
		Verb: Delete, Kind: kind, Key: client.ObjectKeyFromObject(o), Grace: grace,
		Preconditions: &metav1.Preconditions{UID: new(o.GetUID())},
	}, false)
	return err
}

// Kubelet runs the pods that have a node. It starts all containers at once, and restarts those whose image has changed. A pod is ready when
// all containers run and all readiness gates are open. Terminating pods are removed. A pod with restartPolicy Never or OnFailure finishes
// after it has run.
type Kubelet struct {
	// Ends returns the phase in which a running pod with restartPolicy Never or OnFailure finishes, or "" while it keeps running. Nil means that
	// all succeed. Instead of failing, a pod with OnFailure restarts, at most twice.
	Ends func(w *World, pod *corev1.Pod) corev1.PodPhase
	// Unpullable reports whether an image can't be pulled. Nil means that all can.
	Unpullable func(image string) bool
}

// Steps implements Actor.
func (k Kubelet) Steps(w *World) []Step {
	var out []Step
	for _, pod := range All[*corev1.Pod](w) {
		switch {
		case pod.Spec.NodeName == "" || w.settled[pod.UID] == pod.ResourceVersion:
		case pod.DeletionTimestamp == nil && podpatch.Ended(pod):
		case pod.DeletionTimestamp != nil:
			if grace := pod.DeletionGracePeriodSeconds; grace == nil || *grace > 0 {
				out = append(out, Step{"", func(context.Context) error { return w.deleteObject("kubelet", pod, new(int64(0))) }})
			}
		default:
			next := k.run(w, pod)
			if !apiequality.Semantic.DeepEqual(next.Status, pod.Status) || k.end(w, next) {
				out = append(out, Step{"", func(context.Context) error { return w.updateObject("kubelet", "status", next) }})
			} else if restartsAlways(pod) {
				w.settled[pod.UID] = pod.ResourceVersion
			}
		}
	}
	return out
}

// restartsAlways reports whether the containers of a pod are always restarted.
func restartsAlways(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == "" || pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
}

// end finishes a running pod, and reports whether it did.
func (k Kubelet) end(w *World, pod *corev1.Pod) bool {
	if restartsAlways(pod) {
		return false
	}
	phase := corev1.PodSucceeded
	if k.Ends != nil {
		phase = k.Ends(w, pod)
	}
	const most = 2
	statuses := pod.Status.ContainerStatuses
	switch {
	case phase == "":
		return false
	case phase == corev1.PodFailed && pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure:
		if statuses[0].RestartCount == most {
			return false
		}
		statuses[0].RestartCount++
		return true
	}
	pod.Status.Phase = phase
	for i := range statuses {
		statuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		statuses[i].Ready, statuses[i].Started = false, new(false)
	}
	setCondition(w.Now(), pod, corev1.ContainersReady, false)
	setCondition(w.Now(), pod, corev1.PodReady, false)
	return true
}

// run returns the pod after its kubelet's next action.
func (k Kubelet) run(w *World, current *corev1.Pod) *corev1.Pod {
	pod := current.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ObservedGeneration = pod.Generation
	allReady := true
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		st := k.container(current, &pod.Spec.Containers[i])
		allReady = allReady && st.Ready
		statuses = append(statuses, st)
	}
	pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = statuses, nil
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue // It finished before the others started.
		}
		st := k.container(current, c)
		allReady = allReady && st.Ready
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, st)
	}
	setCondition(w.Now(), pod, corev1.PodInitialized, true)
	setCondition(w.Now(), pod, corev1.ContainersReady, allReady)
	ready := allReady
	for _, gate := range pod.Spec.ReadinessGates {
		ready = ready && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
	}
	setCondition(w.Now(), pod, corev1.PodReady, ready)
	return pod
}

// container returns the status of a container after its next change. A container whose image differs from the spec first stops, and then
// starts.
func (k Kubelet) container(pod *corev1.Pod, c *corev1.Container) corev1.ContainerStatus {
	st := corev1.ContainerStatus{Name: c.Name}
	known := false
	if status := inplace.Status(pod, c.Name); status != nil {
		st, known = *status, true
	}
	switch {
	case known && st.Image != c.Image && st.State.Running != nil:
		st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		st.Ready, st.Started = false, new(false)
	case k.Unpullable != nil && k.Unpullable(c.Image) && st.State.Running == nil:
		st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
		st.Image, st.ImageID = c.Image, ""
	case st.State.Running == nil:
		if known {
			st.RestartCount++
		}
		st.Image, st.ImageID = c.Image, "sha256:"+c.Image
		st.ContainerID = fmt.Sprintf("containerd://%s-%s-%d", pod.UID, c.Name, st.RestartCount)
		st.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		st.Ready, st.Started = true, new(true)
		st.Resources = c.Resources.DeepCopy()
	default:
		st.Resources = c.Resources.DeepCopy()
	}
	return st
}

// NodeDaemon stops the containers whose restart an in-place update requests. The Kubelet starts them again.
type NodeDaemon struct{}

// Steps implements Actor.
func (NodeDaemon) Steps(w *World) []Step {
	var out []Step
	for _, pod := range All[*corev1.Pod](w) {
		if pod.DeletionTimestamp != nil {
			continue
		}
		for _, batch := range inplace.RestartRequests(pod) {
			done, next := true, pod.DeepCopy()
			for _, ask := range batch {
				st := inplace.Status(next, ask.Container.Name)
				if st == nil || !ask.Always {
					continue
				}
				done = done && st.Ready
				if st.ContainerID == ask.Before && st.State.Running != nil {
					st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
					st.Ready, st.Started, done = false, new(false), false
				}
			}
			if !apiequality.Semantic.DeepEqual(next.Status, pod.Status) {
				out = append(out, Step{"", func(context.Context) error { return w.updateObject("node daemon", "status", next) }})
			}
			if !done {
				break
			}
		}
	}
	return out
}

// setCondition sets a condition of a pod, with the time of the change.
func setCondition(now time.Time, pod *corev1.Pod, t corev1.PodConditionType, holds bool) {
	status := corev1.ConditionFalse
	if holds {
		status = corev1.ConditionTrue
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == t {
			if c.Status != status {
				*c = corev1.PodCondition{Type: t, Status: status, LastTransitionTime: metav1.NewTime(now)}
			}
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions,
		corev1.PodCondition{Type: t, Status: status, LastTransitionTime: metav1.NewTime(now)})
}

// Collector is the garbage collector and the PVC protection controller. It deletes objects whose owners are gone, and deletes dependents
// first if their owner is deleted in the foreground. It removes a terminating PVC when no pod mounts it.
type Collector struct{}

// Steps implements Actor.
func (Collector) Steps(w *World) []Step {
	uids := map[types.UID]client.Object{}
	dependents := map[types.UID]int{}
	w.each(func(_ schema.GroupVersionKind, o client.Object) {
		uids[o.GetUID()] = o
		for _, ref := range o.GetOwnerReferences() {
			dependents[ref.UID]++
		}
	})
	var out []Step
	w.each(func(kind schema.GroupVersionKind, o client.Object) {
		switch {
		case o.GetDeletionTimestamp() == nil && orphaned(o, uids):
			out = append(out, Step{"", func(context.Context) error { return w.deleteObject("collector", o, nil) }})
		case o.GetDeletionTimestamp() == nil:
		case slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents) && dependents[o.GetUID()] == 0:
			out = append(out, w.unfinalize(o, metav1.FinalizerDeleteDependents))
		case kind.Kind == "PersistentVolumeClaim" && slices.Contains(o.GetFinalizers(), pvcProtection) && !mounted(w, o):
			out = append(out, w.unfinalize(o, pvcProtection))
		}
	})
	return out
}

func (w *World) each(do func(schema.GroupVersionKind, client.Object)) {
	for _, kind := range w.store.gvks() {
		for _, o := range w.store.all(kind) {
			do(kind, o)
		}
	}
}

// orphaned reports whether an object has owners, and all of them are gone or being deleted in the foreground.
func orphaned(o client.Object, uids map[types.UID]client.Object) bool {
	refs := o.GetOwnerReferences()
	for _, ref := range refs {
		owner := uids[ref.UID]
		if owner != nil && (owner.GetDeletionTimestamp() == nil || !slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents)) {
			return false
		}
	}
	return len(refs) > 0
}

func (w *World) unfinalize(o client.Object, finalizer string) Step {
	return Step{"", func(context.Context) error {
		next := copyOf(o)
		next.SetFinalizers(slices.DeleteFunc(next.GetFinalizers(), func(f string) bool { return f == finalizer }))
		return w.updateObject("collector", "", next)
	}}
}

func mounted(w *World, pvc client.Object) bool {
	return slices.ContainsFunc(All[*corev1.Pod](w), func(pod *corev1.Pod) bool {
		return pod.Namespace == pvc.GetNamespace() && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == pvc.GetName()
		})
	})
}

// LoseNode is an edit that removes a node and the pods on it.
func LoseNode(name string, when func(*World) bool) Edit {
	return Edit{Name: "lose " + name, When: when, Do: func(_ context.Context, w *World) error {
		for _, pod := range All[*corev1.Pod](w) {
			if pod.Spec.NodeName == name {
				if err := w.deleteObject("node lifecycle", pod, new(int64(0))); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// EndPods is an edit: the pods on a node fail and stay, as after an eviction.
func EndPods(node string, when func(*World) bool) Edit {
	return Edit{Name: "end pods on " + node, When: when, Do: func(_ context.Context, w *World) error {
		for _, pod := range All[*corev1.Pod](w) {
			if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
				pod = pod.DeepCopy()
				pod.Status.Phase = corev1.PodFailed
				setCondition(w.Now(), pod, corev1.PodReady, false)
				setCondition(w.Now(), pod, corev1.ContainersReady, false)
				if err := w.updateObject("kubelet", "status", pod); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

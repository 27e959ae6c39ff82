package podset

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// Rules are the spec's rules for pod availability and lifecycle hooks. The zero value has none.
type Rules struct {
	// MinReady is how long a pod has to be ready to count as available. With 0, every ready pod in lifecycle state Normal is available at once.
	// Otherwise a pod whose Ready condition has no time is never available, as in the ReplicaSet controller of Kubernetes 1.36.
	MinReady time.Duration
	// Grace is how long a pod that was marked unready for an update keeps its old containers, so that traffic drains.
	Grace time.Duration
	// Hooks are the lifecycle hooks of the workload.
	Hooks lifecycle.Hooks
	// KeepNamed keeps pods with the label that requests their deletion, unless the deletion has begun. It is for kinds whose pause covers such
	// deletions along with updates.
	KeepNamed bool
}

// Facts are what a pod's fields say at a point in time.
type Facts struct {
	// Name is the pod's name.
	Name string
	// Active: the pod is not being deleted and has not ended. Terminating: it is being deleted.
	Active, Terminating bool
	// Ready: the pod is running, its Ready condition is True and no in-place update keeps it out of service. ReadySince is when it became Ready;
	// zero if it isn't Ready or the condition has no time.
	Ready      bool
	ReadySince time.Time
	// Available: the pod has been Ready for long enough, its lifecycle is Normal and no container is about to be replaced because of a change by
	// another writer.
	Available bool
	// Lifecycle is the lifecycle state in the pod's label.
	Lifecycle pods.LifecycleState
	// ToDelete: the pod has the label that requests its deletion, or its prepared deletion can't be cancelled. Kept: it has the label but
	// Rules.KeepNamed keeps it.
	ToDelete, Kept bool
	// PreparingDelete: the lifecycle hook has been asked to let the pod be deleted.
	PreparingDelete bool
	// UpdateHooked and DeleteHooked: a hook holds the in-place update or the deletion.
	UpdateHooked, DeleteHooked bool

	// Update is the progress of an in-place update. While it is UpdateInProgress, WaitingFor is what the containers wait for, since WaitingSince.
	// ForDaemon: they wait for the daemon on their node.
	Update       rollout.UpdateState
	WaitingFor   string
	WaitingSince time.Time
	ForDaemon    bool
	// Gated: the pod has the readiness gate for in-place updates.
	Gated bool

	// ChangesAt is when one of these facts changes just by time passing; zero means never.
	ChangesAt time.Time
	// Rank is the pod's rank, without Order and Domains, which can't be read from the pod.
	Rank rollout.Rank
}

// View reads a pod.
func View(pod *corev1.Pod, r Rules, now time.Time) Facts {
	f := Facts{
		Name:         pod.Name,
		Terminating:  pod.DeletionTimestamp != nil,
		Lifecycle:    lifecycle.Of(pod),
		Gated:        inplace.Gated(pod),
		UpdateHooked: r.Hooks.HoldsUpdate(pod),
		DeleteHooked: r.Hooks.HoldsDelete(pod),
	}
	f.Active = podpatch.Active(pod)
	_, named := pod.Labels[keys.SpecifiedDelete]
	preparing, final := r.Hooks.PreparingDelete(pod)
	f.Kept = named && f.Active && r.KeepNamed && !preparing
	f.PreparingDelete, f.ToDelete = preparing, named && !f.Kept || final

	ready, gate := podCondition(pod, corev1.PodReady), podCondition(pod, keys.InPlaceUpdateReady)
	if pod.Status.Phase == corev1.PodRunning && hasStatus(ready, corev1.ConditionTrue) && !hasStatus(gate, corev1.ConditionFalse) {
		f.Ready, f.ReadySince = true, ready.LastTransitionTime.Time
	}
	if f.Ready && f.Lifecycle == pods.LifecycleNormal {
		at := f.ReadySince.Add(r.MinReady)
		f.Available = r.MinReady <= 0 || !f.ReadySince.IsZero() && !now.Before(at)
		if !f.Available && !f.ReadySince.IsZero() {
			f.ChangesAt = at
		}
	}
	if f.Available {
		// Another writer, such as a SidecarSet, has changed a container that the kubelet is about to replace.
		if outdated, until := inplace.OutdatedByOthers(pod, now); outdated {
			f.Available = false
			f.changeAt(until)
		}
	}
	f.update(pod, r, now)
	f.Rank = rollout.Rank{
		Assigned:   pod.Spec.NodeName != "",
		Phase:      pod.Status.Phase,
		Cost:       cost(pod),
		Node:       pod.Spec.NodeName,
		ReadySince: f.ReadySince,
		Restarts:   restarts(pod),
		Created:    pod.CreationTimestamp.Time,
	}
	return f
}

// Pod returns the facts for rollout. The caller adds other reasons to delete the pod than its label, how it can be updated in place (NotInPlace,
// NoRestart), and the parts of Rank that can't be read from the pod.
func (f Facts) Pod(old bool) rollout.Pod {
	return rollout.Pod{
		Key:             f.Name,
		Old:             old,
		Ready:           f.Ready,
		Available:       f.Available,
		Inactive:        !f.Active,
		Ended:           !f.Active && !f.Terminating,
		ToDelete:        f.ToDelete,
		PreparingDelete: f.PreparingDelete,
		UpdateHooked:    f.UpdateHooked,
		DeleteHooked:    f.DeleteHooked,
		Update:          f.Update,
		Gated:           f.Gated,
		ChangesAt:       f.ChangesAt,
		Rank:            f.Rank,
	}
}

// AtRevision reports whether the pod is at a revision, comparing the hash at the end of the revision's name: labels that hold only the hash are
// equal to labels with the full name.
func AtRevision(pod *corev1.Pod, name string) bool {
	return revision.Same(pod.Labels[keys.ControllerRevisionHash], name)
}

// update sets the progress of an in-place update. A scheduled pod that only our own gate or lifecycle state keeps from being available is
// UpdateHeld, or UpdateAwaitingHook if a lifecycle hook has to answer first.
func (f *Facts) update(pod *corev1.Pod, r Rules, now time.Time) {
	if inplace.Closed(pod) {
		f.updating(pod, r, now)
		return
	}
	unopened := lifecycle.NeverReady(pod) ||
		inplace.Gated(pod) && !hasStatus(podCondition(pod, keys.InPlaceUpdateReady), corev1.ConditionTrue)
	scheduled := pod.Spec.NodeName != "" || hasStatus(podCondition(pod, corev1.PodScheduled), corev1.ConditionTrue)
	switch {
	case f.Lifecycle == pods.LifecyclePreparingDelete:
	case f.Lifecycle == pods.LifecyclePreparingUpdate:
		f.Update = rollout.UpdatePreparing
	case scheduled && (unopened || r.Hooks.InService(pod) != f.Lifecycle):
		f.Update = rollout.UpdateHeld
	case scheduled && f.Lifecycle != pods.LifecycleNormal:
		f.Update = rollout.UpdateAwaitingHook
	}
}

// updating sets the update progress of a pod that is out of service for an update.
func (f *Facts) updating(pod *corev1.Pod, r Rules, now time.Time) {
	if !inplace.Recorded(pod) {
		f.Update = rollout.UpdateNotReady
		if at := inplace.Drained(pod, r.Grace); now.Before(at) {
			f.Update = rollout.UpdateDraining
			f.changeAt(at)
		}
		return
	}
	switch o := inplace.Progress(pod, now); {
	case o.Done:
		f.Update = rollout.UpdateCompleted
	case o.Next:
		f.Update = rollout.UpdateNextBatch
	default:
		f.Update, f.WaitingFor, f.WaitingSince = rollout.UpdateInProgress, o.Why, o.Since
		f.ForDaemon = o.Daemon
		f.changeAt(o.ChangesAt)
	}
}

// changeAt records when a fact changes just by time passing; a zero time means never.
func (f *Facts) changeAt(at time.Time) {
	if f.ChangesAt.IsZero() || !at.IsZero() && at.Before(f.ChangesAt) {
		f.ChangesAt = at
	}
}

// cost returns the pod's deletion cost; 0 if it has none or an invalid one. As in the ReplicaSet controller of Kubernetes 1.36, a plus sign or
// leading zeros are invalid.
func cost(pod *corev1.Pod) int32 {
	s := pod.Annotations[keys.PodDeletionCost]
	if s != "0" && (s == "" || s[0] == '+' || s[0] == '0') {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func restarts(pod *corev1.Pod) int32 {
	var n int32
	for i := range pod.Status.ContainerStatuses {
		n = max(n, pod.Status.ContainerStatuses[i].RestartCount)
	}
	return n
}

func podCondition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func hasStatus(c *corev1.PodCondition, s corev1.ConditionStatus) bool {
	return c != nil && c.Status == s
}

package podview

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// Facts is a pod at one moment.
type Facts struct {
	// Name is the pod's name.
	Name string
	// Active: the pod is neither being deleted nor has it ended. Terminating: it is being deleted.
	Active, Terminating bool
	// Ready: the pod runs, its Ready condition is True and no update in place keeps it out of service. ReadySince is when
	// it became so; zero if it is not Ready or the condition does not say.
	Ready      bool
	ReadySince time.Time
	// Available: the pod has been Ready for long enough and its lifecycle is Normal.
	Available bool
	// Lifecycle is the state that the pod's label says.
	Lifecycle pods.LifecycleState
	// Named: the pod carries the label that asks for its deletion.
	Named bool

	// Edit is how far an update in place is, and Waits, while it is EditUpdating, what the containers wait for.
	Edit  rollout.EditState
	Waits string
	// Gated: the pod has the readiness gate for updates in place.
	Gated bool

	// ChangesAt is when time alone will change one of these facts; zero if never.
	ChangesAt time.Time
	// Rank is the pod's place in the order of pods, without Order and Domains, which the pod does not know.
	Rank rollout.Rank
}

// View reads a pod. With minReady 0 every ready pod of normal lifecycle is available at once; with more, one whose Ready
// condition has no time never is, as in kube 1.36 ReplicaSet.
func View(pod *corev1.Pod, minReady time.Duration, now time.Time) Facts {
	f := Facts{
		Name:        pod.Name,
		Terminating: pod.DeletionTimestamp != nil,
		Lifecycle:   lifecycle.Of(pod),
		Gated:       inplace.Gated(pod),
	}
	f.Active = !f.Terminating && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	_, f.Named = pod.Labels[keys.SpecifiedDelete]

	ready, gate := condition(pod, corev1.PodReady), condition(pod, keys.InPlaceUpdateReady)
	if pod.Status.Phase == corev1.PodRunning && is(ready, corev1.ConditionTrue) && !is(gate, corev1.ConditionFalse) {
		f.Ready, f.ReadySince = true, ready.LastTransitionTime.Time
	}
	if f.Ready && f.Lifecycle == pods.LifecycleNormal {
		at := f.ReadySince.Add(minReady)
		f.Available = minReady <= 0 || !f.ReadySince.IsZero() && !now.Before(at)
		if !f.Available && !f.ReadySince.IsZero() {
			f.ChangesAt = at
		}
	}
	var changes time.Time
	f.Edit, f.Waits, changes = edit(pod, now)
	if f.ChangesAt.IsZero() || !changes.IsZero() && changes.Before(f.ChangesAt) {
		f.ChangesAt = changes
	}
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

// Pod is what is planned with. The caller adds whether other sources than the pod's label name it for deletion, how an
// old pod can come to the new revision (NoEdit, Quiet), and the parts of Rank that the pod does not know.
func (f Facts) Pod(old bool) rollout.Pod {
	return rollout.Pod{
		Key:       f.Name,
		Old:       old,
		Ready:     f.Ready,
		Available: f.Available,
		Leaving:   !f.Active,
		Doomed:    f.Named,
		Edit:      f.Edit,
		Gated:     f.Gated,
		ChangesAt: f.ChangesAt,
		Rank:      f.Rank,
	}
}

// At tells whether the pod is at a revision, by the hash at the end of the revision's name: labels that hold the hash
// alone are equal to those with the full name.
func At(pod *corev1.Pod, revision string) bool {
	label := pod.Labels[keys.ControllerRevisionHash]
	return label != "" && hash(label) == hash(revision)
}

func hash(revision string) string { return revision[strings.LastIndex(revision, "-")+1:] }

// edit tells how far an update in place is. Whatever else keeps a scheduled pod from being available by our keys alone
// (its gate was never opened, its lifecycle is not Normal) is EditHeld: somebody has to release it.
func edit(pod *corev1.Pod, now time.Time) (s rollout.EditState, waits string, changes time.Time) {
	if inplace.Closed(pod) {
		if !inplace.Recorded(pod) {
			return rollout.EditMarked, "", time.Time{}
		}
		o := inplace.Progress(pod, now)
		if o.Done {
			return rollout.EditDone, "", time.Time{}
		}
		return rollout.EditUpdating, o.Why, o.ChangesAt
	}
	unopened := inplace.Gated(pod) && !is(condition(pod, keys.InPlaceUpdateReady), corev1.ConditionTrue)
	scheduled := pod.Spec.NodeName != "" || is(condition(pod, corev1.PodScheduled), corev1.ConditionTrue)
	if scheduled && (unopened || lifecycle.Of(pod) != pods.LifecycleNormal) {
		return rollout.EditHeld, "", time.Time{}
	}
	return rollout.EditNone, "", time.Time{}
}

// cost is the pod's deletion cost; 0 if it has none or one that is no plain int32, as in kube 1.36 ReplicaSet: a plus
// sign or leading zeros are no part of a number.
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

func condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func is(c *corev1.PodCondition, s corev1.ConditionStatus) bool { return c != nil && c.Status == s }

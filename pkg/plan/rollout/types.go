package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxCreates is the maximum number of creates in one decision. The rest follows in later decisions, once these pods are observed.
const MaxCreates = 1000

// Goal is the desired state, with all numbers of pods resolved. The zero Goal wants no pods.
type Goal struct {
	// Replicas is the number of pods; below 0 counts as 0. With Slots it is at least the number of slots. If it is higher, the additional slots
	// count as wanted but empty, and come after all listed ones.
	Replicas int
	// Partition is how many of the pods keep the old revision, limited to 0..Replicas. It has no effect with OnDelete. With Slots it is a number of
	// slots: first those with Slot.Old, then those whose pods would be updated last, then (unless CreateUpdated is set) empty ones.
	Partition int
	// Slots are the ordinals or nodes that each want one pod, in order and with unique keys. Nil means that pods have no slots. A pod in any other
	// slot is surplus.
	Slots []Slot
	// CreateUpdated, with Slots, creates pods at the new revision in every slot: the partition then protects existing pods, not slots.
	CreateUpdated bool
	// Ordered creates one pod at a time, in the first empty slot, and deletes one surplus pod at a time, lowest Rank.Order first. A create waits
	// until the pods in all slots before it are available, a delete until those in all slots are, and both until no pod is terminating. An
	// unavailable surplus pod waits while another surplus pod is unavailable too.
	Ordered bool
	// KeepEnded, with Slots, lets a pod that has ended keep its slot: the pod is neither deleted nor replaced, and its slot counts as available. It
	// is for kinds whose pods run to completion. A pod with ToDelete is replaced nevertheless.
	KeepEnded bool
	// MaxUnavailable is how many of the Replicas may be made unavailable.
	MaxUnavailable int
	// MaxSurge is how many pods may exist above Replicas while pods are being replaced.
	MaxSurge int
	// Mode is how old pods are updated.
	Mode Mode
	// Paused stops updates: no pod is updated in place or re-created, and surge pods that the update still needs stay. Scaling and deletions
	// requested by users continue, and in-place updates that are already written to pods are completed.
	Paused bool
	// Rollback updates pods back to the old revision if the partition has grown. Without it, only newly created pods get the old revision.
	Rollback bool
	// ScaleMaxUnavailable limits the pods created now plus the pods that are unavailable. Nil means no limit.
	ScaleMaxUnavailable *int
	// ExcludePreparingDelete leaves out pods that wait for their deletion, so that they are replaced before they are gone.
	ExcludePreparingDelete bool
	// Foreign means that other objects own the pods. An unavailable pod wasn't made so by the update and may stay unavailable, so it doesn't use
	// MaxUnavailable and is updated at once. Only updated pods that are not available, and pods whose update has begun, count. It requires
	// InPlaceOnly and no Slots.
	Foreign bool
	// PreparingUpdateAsUpdated makes scaling count old pods that are being prepared for an update as new ones.
	PreparingUpdateAsUpdated bool
}

// Slot is an ordinal or a node that wants a pod.
type Slot struct {
	Key string
	// Old: the pod in this slot keeps the old revision. It has no effect with OnDelete.
	Old bool
}

// Mode is how old pods are updated.
type Mode int

const (
	// ReCreate deletes old pods and creates new ones.
	ReCreate Mode = iota
	// InPlaceIfPossible updates pods in place where Pod.NotInPlace is empty and re-creates the others.
	InPlaceIfPossible
	// InPlaceOnly updates pods in place where Pod.NotInPlace is empty and reports the others with a Hold.
	InPlaceOnly
	// OnDelete leaves old pods until a user deletes them. New pods are at the new revision.
	OnDelete
)

// Pod is everything this package knows about one pod.
type Pod struct {
	// Key is the unique name of the pod. Steps refer to it, and it breaks ties between otherwise equal pods.
	Key string
	// Slot is the key of the pod's slot; it is only read with Goal.Slots. A terminating pod keeps its slot until it is gone. Kinds that reuse a
	// slot earlier leave terminating pods out.
	Slot string
	// Old: the pod is not at the update revision.
	Old bool
	// Ready: the pod is ready. Available: it has been ready for minReadySeconds. An available pod is always ready.
	Ready, Available bool
	// Inactive: the pod is terminating or has ended. It doesn't count.
	Inactive bool
	// Ended: the pod is Inactive because it has ended, and is not terminating. With Slots it is deleted unless Goal.KeepEnded is set, because a
	// slot is free only once its pod is gone.
	Ended bool
	// ToDelete: a user requested the deletion of this pod.
	ToDelete bool

	// PreparingDelete: the lifecycle hook has been asked to let the pod be deleted.
	PreparingDelete bool
	// UpdateHooked and DeleteHooked: a lifecycle hook holds the pod. An in-place update, or a deletion, has to be prepared first and then waits for
	// the hook.
	UpdateHooked, DeleteHooked bool

	// Update is the progress of an in-place update.
	Update UpdateState
	// NotInPlace is the reason why the pod can't be updated in place to the other revision; empty if it can. It is only read for Old pods, and with
	// Rollback for all pods.
	NotInPlace string
	// NoRestart: the in-place update restarts nothing, so it needs no MarkUnready and no budget. It is read for the same pods as NotInPlace.
	NoRestart bool
	// Gated: the pod has the readiness gate that MarkUnready sets. Without it, an update begins with UpdateInPlace.
	Gated bool

	// ChangesAt is when one of these facts changes just by time passing, as when a ready pod becomes available; zero means never.
	ChangesAt time.Time
	// Rank orders pods.
	Rank Rank
}

// UpdateState is the progress of a pod's in-place update.
type UpdateState int

const (
	// UpdateNone: no update is in progress.
	UpdateNone UpdateState = iota
	// UpdateHeld: no update is in progress, but the pod was never marked ready, for example right after its creation.
	UpdateHeld
	// UpdateAwaitingHook: a lifecycle hook has to answer before the pod goes into service. The pod has no step until then.
	UpdateAwaitingHook
	// UpdatePreparing: the lifecycle hook has been asked to let the pod be updated.
	UpdatePreparing
	// UpdateNotReady: the readiness gate is False and the spec is not written yet.
	UpdateNotReady
	// UpdateDraining: like UpdateNotReady, and the grace period for traffic is not over yet.
	UpdateDraining
	// UpdateInProgress: the spec is written, but the containers don't run it yet.
	UpdateInProgress
	// UpdateNextBatch: the containers written so far are updated, and others still have to be written.
	UpdateNextBatch
	// UpdateCompleted: all containers are updated, but the readiness gate is still False.
	UpdateCompleted
)

// Rank is what pods are sorted by; see deletionOrder and updateOrder.
type Rank struct {
	// Order is the caller's own update order, such as ordinals or priorities. Lower comes first, and it outranks everything else. If it is 0 for
	// all pods, the default order applies.
	Order int
	// Assigned: the pod has a node.
	Assigned bool
	// Phase is the pod's phase.
	Phase corev1.PodPhase
	// Cost is the pod's deletion cost; lower is deleted first.
	Cost int32
	// Node is the name of the pod's node; pods that share a node with others are deleted first.
	Node string
	// Domains are the values of the topology keys that the workload spreads over, one for each of its constraints, in the same order for all pods.
	// Nil if the workload has no constraints: then only Node counts.
	Domains []string
	// ReadySince is when the pod became ready; it is only read for Ready pods.
	ReadySince time.Time
	// Restarts is the highest restart count of any container.
	Restarts int32
	// Created is when the pod was created.
	Created time.Time
}

// Decision is what to do now. Each pod has at most one step. Steps of one kind are sorted, the most important first.
type Decision struct {
	Steps []Step
	// Holds are the waiting steps, grouped by reason.
	Holds []Hold
	// Recheck is how long until the decision could change just by time passing; 0 means never.
	Recheck time.Duration
}

// Of returns the steps of one kind.
func (d Decision) Of(kind StepKind) []Step {
	var out []Step
	for i := range d.Steps {
		if d.Steps[i].Kind == kind {
			out = append(out, d.Steps[i])
		}
	}
	return out
}

// StepKind is what a step does.
type StepKind string

const (
	// StepCreate creates a pod. Creates at the old revision come first or, with slots, creates in the first slot.
	StepCreate StepKind = "Create"
	// StepDelete deletes a pod.
	StepDelete StepKind = "Delete"
	// StepMarkForDeletion labels a pod for deletion, so that a later reconcile deletes it. Next never plans this step. It is for kinds that have
	// work to do between choosing a pod for deletion and deleting it.
	StepMarkForDeletion StepKind = "MarkForDeletion"
	// StepPrepareDelete asks the lifecycle hook to let the pod be deleted, before StepDelete.
	StepPrepareDelete StepKind = "PrepareDelete"
	// StepCancelDelete reverts StepPrepareDelete.
	StepCancelDelete StepKind = "CancelDelete"
	// StepPrepareUpdate asks the lifecycle hook to let the pod be updated in place, before StepMarkUnready.
	StepPrepareUpdate StepKind = "PrepareUpdate"
	// StepMarkUnready sets the pod's readiness gate to False, before StepUpdateInPlace.
	StepMarkUnready StepKind = "MarkUnready"
	// StepUpdateInPlace writes the other revision into a pod, or with ReasonNextBatch its next containers.
	StepUpdateInPlace StepKind = "UpdateInPlace"
	// StepMarkReady sets the pod's readiness gate and lifecycle state so that the pod serves (again).
	StepMarkReady StepKind = "MarkReady"
)

// Step is one action on one pod.
type Step struct {
	Kind StepKind
	// Key is the key of the pod; empty for StepCreate.
	Key string
	// Slot is the key of the slot in which a pod is created; empty for other kinds of step, and without Goal.Slots.
	Slot string
	// Old: the pod is created at the old revision, or updated back to it.
	Old    bool
	Reason Reason
	// Why is a human-readable sentence with the numbers.
	Why string
}

// Hold is a number of pods that wait for the same reason.
type Hold struct {
	Reason Reason
	Pods   int
	// Why is a human-readable sentence with the numbers.
	Why string
}

// Reason is the short, fixed name of why a step is planned or held. It is suitable for events, conditions and metrics.
type Reason string

const (
	// ReasonMissing (Create): there are fewer pods than wanted.
	ReasonMissing Reason = "Missing"
	// ReasonSurge (Create): a pod is created above Replicas, so that another one can be replaced.
	ReasonSurge Reason = "Surge"
	// ReasonNamed (PrepareDelete, Delete): a user requested the deletion of this pod.
	ReasonNamed Reason = "Named"
	// ReasonScaleIn (PrepareDelete, Delete): there are more pods than wanted.
	ReasonScaleIn Reason = "ScaleIn"
	// ReasonEnded (PrepareDelete, Delete): the pod has ended and its slot is needed for another one.
	ReasonEnded Reason = "Ended"
	// ReasonRecreate (PrepareDelete, Delete): the pod is at the wrong revision and another one will replace it.
	ReasonRecreate Reason = "Recreate"
	// ReasonInPlace (PrepareUpdate, MarkUnready, UpdateInPlace): the pod is at the wrong revision and is updated to the other one.
	ReasonInPlace Reason = "InPlace"
	// ReasonNextBatch (UpdateInPlace): an update in progress continues with its next containers.
	ReasonNextBatch Reason = "NextBatch"
	// ReasonStarted (MarkReady): a new pod goes into service.
	ReasonStarted Reason = "Started"
	// ReasonUpdated (MarkReady): the update is complete.
	ReasonUpdated Reason = "Updated"
	// ReasonRestored (MarkReady, CancelDelete): the pod was taken out of service for an update or a deletion that is no longer wanted.
	ReasonRestored Reason = "Restored"

	// ReasonPaused (Hold): the goal is paused.
	ReasonPaused Reason = "Paused"
	// ReasonBudget (Hold): too few pods are available to take one more out of service.
	ReasonBudget Reason = "Budget"
	// ReasonInFlight (Hold): updated pods have to become available first.
	ReasonInFlight Reason = "InFlight"
	// ReasonHook (Hold): a lifecycle hook has to answer.
	ReasonHook Reason = "Hook"
	// ReasonDraining (Hold): the grace period for traffic is not over.
	ReasonDraining Reason = "Draining"
	// ReasonInOrder (Hold): pods earlier in the order have to be available first.
	ReasonInOrder Reason = "InOrder"
	// ReasonScaleLimit (Hold): pods created earlier have to become available first.
	ReasonScaleLimit Reason = "ScaleLimit"
	// ReasonBurst (Hold): at most MaxCreates pods are created at a time.
	ReasonBurst Reason = "Burst"
	// ReasonRefused (Hold): a PodDisruptionBudget or an admission webhook refuses the step temporarily. It is found when steps are applied; Next
	// never returns it.
	ReasonRefused Reason = "Refused"
	// ReasonNotInPlace (Hold): the pod can't be updated in place, and no other way is allowed.
	ReasonNotInPlace Reason = "NotInPlace"
	// ReasonPVC (Hold): a new pod waits for PVCs that another pod still uses or that are still being deleted. Next doesn't know about PVCs; the
	// kinds report this.
	ReasonPVC Reason = "PVC"
	// ReasonPVCResize (Hold): the update of a pod waits for its PVCs to be resized. The kinds report this, too.
	ReasonPVCResize Reason = "PVCResize"
	// ReasonPodWebhook (Hold): a new pod waits until the API server sends pods to the pod webhook. Next doesn't know about it; the kinds do.
	ReasonPodWebhook Reason = "PodWebhook"
)

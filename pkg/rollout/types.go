package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxCreates is the maximum number of creates in one decision. The next decision, after these were observed, has more.
const MaxCreates = 1000

// Goal is the desired state, in resolved numbers of pods. The zero Goal wants no pod.
type Goal struct {
	// Replicas is the number of pods; below 0 counts as 0. With Slots it is at least their number; if it is higher, more
	// slots are wanted than are listed, all of them empty and after those that are listed.
	Replicas int
	// Partition is how many of them keep the old revision, limited to 0..Replicas. No effect with OnDelete. With Slots, it is a
	// number of slots: first those with Slot.Old, then those whose pod would be updated last, and then, unless CreateUpdated, empty
	// ones.
	Partition int
	// Slots are ordinals or nodes in each of which one pod is wanted, in order, each key once. Nil: pods have no
	// slots. A pod in another slot is surplus.
	Slots []Slot
	// CreateUpdated, with Slots, creates pods at the new revision in every slot: the partition keeps pods, not slots.
	CreateUpdated bool
	// Ordered creates one pod at a time, in the first slot that has none, and deletes one surplus pod at a time, the first by
	// Rank.Order; and only when the pods in all slots before, or for a delete in all slots, are available and no pod is
	// terminating. A surplus pod that is not available waits while another surplus pod is not available either.
	Ordered bool
	// KeepEnded, with Slots, lets a pod that has ended keep its slot: it is neither deleted nor replaced, and its slot counts as
	// available. For kinds whose pods run to completion. A pod that is ToDelete is replaced nevertheless.
	KeepEnded bool
	// MaxUnavailable is how many of Replicas may be made unavailable.
	MaxUnavailable int
	// MaxSurge is how many pods may exist above Replicas while pods are replaced.
	MaxSurge int
	// Mode is how old pods are updated.
	Mode Mode
	// Paused stops updates: no pod is updated in place or re-created, and the surge that an update still needs stays as it is.
	// Scaling and deletions that users asked for go on, and in-place updates that were written before are completed.
	Paused bool
	// Rollback updates pods back to the old revision if the partition has grown. Without it, only created pods are at the
	// old revision.
	Rollback bool
	// ScaleMaxUnavailable limits the sum of pods that are created now and pods that are unavailable. Nil is no
	// limit.
	ScaleMaxUnavailable *int
	// ExcludePreparingDelete does not count pods that wait for their deletion, so that they are replaced before they are gone.
	ExcludePreparingDelete bool
	// Foreign: other objects own the pods. What is out of service there was not made so by the update and may stay so, so it doesn't use
	// MaxUnavailable, and is updated at once. What counts are updated pods that are not available, and pods whose update has begun. With
	// InPlaceOnly and without Slots.
	Foreign bool
	// PreparingUpdateAsUpdated lets scaling count old pods that are prepared for an update as new ones.
	PreparingUpdateAsUpdated bool
}

// Slot is an ordinal or a node in which a pod is wanted.
type Slot struct {
	Key string
	// Old: its pod keeps the old revision. Without effect with OnDelete.
	Old bool
}

// Mode is how old pods are updated.
type Mode int

const (
	// ReCreate deletes old pods and creates new ones.
	ReCreate Mode = iota
	// InPlaceIfPossible updates pods in place where Pod.NotInPlace is empty and re-creates the others.
	InPlaceIfPossible
	// InPlaceOnly updates pods in place where Pod.NotInPlace is empty and leaves the others, with a Hold.
	InPlaceOnly
	// OnDelete leaves old pods until a user deletes them. New pods are at the new revision.
	OnDelete
)

// Pod is all that this package knows of one pod.
type Pod struct {
	// Key names the pod; unique. Steps carry it, and it decides between pods that are otherwise equal.
	Key string
	// Slot is the key of the pod's slot; only read with Goal.Slots. A terminating pod keeps its slot until it is gone; a
	// kind whose slots are free at once leaves such pods out.
	Slot string
	// Old: the pod is not at the update revision.
	Old bool
	// Ready: the pod is ready. Available: it has been ready for minReadySeconds. A pod that is Available is Ready.
	Ready, Available bool
	// Inactive: the pod is terminating or has ended. It does not count.
	Inactive bool
	// Ended: the pod is Inactive because it has ended, and is not terminating. With Slots it is deleted, because its slot
	// is free only when it is gone, unless Goal.KeepEnded.
	Ended bool
	// ToDelete: a user asked for this pod to be deleted.
	ToDelete bool

	// PreparingDelete: a lifecycle hook was asked to let the pod be deleted.
	PreparingDelete bool
	// UpdateHooked and DeleteHooked: a lifecycle hook holds the pod. An in-place update, or a deletion, has to be prepared
	// first and then waits for the hook.
	UpdateHooked, DeleteHooked bool

	// Update is how far an in-place update is.
	Update UpdateState
	// NotInPlace is why the pod can't be updated in place to the other revision; empty if it can. Only read of Old pods, and of all
	// with Rollback.
	NotInPlace string
	// NoRestart: the in-place update restarts nothing, so it needs no MarkUnready and takes no availability. Read as NotInPlace is.
	NoRestart bool
	// Gated: the pod has the readiness gate that MarkUnready sets. Without it, an update begins with UpdateInPlace.
	Gated bool

	// ChangesAt is when time alone will change one of these facts, as when a ready pod becomes available; zero if never.
	ChangesAt time.Time
	// Rank orders pods.
	Rank Rank
}

// UpdateState is how far an update of a pod in place is.
type UpdateState int

const (
	// UpdateNone: no update is in progress.
	UpdateNone UpdateState = iota
	// UpdateHeld: no update is in progress, but the pod was not marked ready, as after its creation.
	UpdateHeld
	// UpdateAwaitingHook: a lifecycle hook has to answer before the pod is put into service. It has no step until then.
	UpdateAwaitingHook
	// UpdatePreparing: a lifecycle hook was asked to let the pod be updated.
	UpdatePreparing
	// UpdateNotReady: the readiness gate is False and the spec is not written.
	UpdateNotReady
	// UpdateDraining: as UpdateNotReady, and the grace period for traffic is not over.
	UpdateDraining
	// UpdateInProgress: the spec is written, the containers do not run it yet.
	UpdateInProgress
	// UpdateNextBatch: the containers written so far are updated, and others are still to be written.
	UpdateNextBatch
	// UpdateCompleted: all containers are updated, the readiness gate is still False.
	UpdateCompleted
)

// Rank is what pods are sorted by, see deletionOrder and updateOrder.
type Rank struct {
	// Order is the caller's own order of updates, lower first, before all else: ordinals, priorities. 0 for all pods
	// leaves the default order.
	Order int
	// Assigned: the pod has a node.
	Assigned bool
	// Phase is the pod's phase.
	Phase corev1.PodPhase
	// Cost is the pod's deletion cost; lower is deleted first.
	Cost int32
	// Node is the name of the pod's node; pods that share a node are deleted before others.
	Node string
	// Domains are the values of the topology keys over which the workload spreads, one for each of its constraints, in
	// the same order for all pods. Nil if the workload has none: then Node counts alone.
	Domains []string
	// ReadySince is when the pod became ready; only read of Ready pods.
	ReadySince time.Time
	// Restarts is the number of container restarts (the most of any container).
	Restarts int32
	// Created is when the pod was created.
	Created time.Time
}

// Decision is what to do now. A pod is in at most one step. Steps of one kind are sorted, the most important first.
type Decision struct {
	Steps []Step
	// Holds are the steps that wait, by reason.
	Holds []Hold
	// Recheck is after how long time alone could change the decision; 0 if never.
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
	// StepCreate creates a pod. Pods of the old revision come first, or with slots the first slot.
	StepCreate StepKind = "Create"
	// StepDelete deletes a pod.
	StepDelete StepKind = "Delete"
	// StepMarkForDeletion labels a pod for deletion, so that a later reconcile deletes it. Next plans no such step; kinds
	// do that have work to do between the decision to delete a pod and its deletion.
	StepMarkForDeletion StepKind = "MarkForDeletion"
	// StepPrepareDelete asks the lifecycle hook to let the pod be deleted, before StepDelete.
	StepPrepareDelete StepKind = "PrepareDelete"
	// StepCancelDelete takes StepPrepareDelete back.
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
	// Key is that of the pod; empty with StepCreate.
	Key string
	// Slot is the key of the slot in which a pod is created; empty with other kinds, and without Goal.Slots.
	Slot string
	// Old: the pod is created at the old revision, or updated back to it.
	Old    bool
	Reason Reason
	// Why is a sentence with the numbers, for people.
	Why string
}

// Hold is a number of pods that wait for the same reason.
type Hold struct {
	Reason Reason
	Pods   int
	// Why is a sentence with the numbers, for people.
	Why string
}

// Reason is the short, fixed name of why a step is done or held, fit for events, conditions and metrics.
type Reason string

const (
	// ReasonMissing (Create): there are fewer pods than wanted.
	ReasonMissing Reason = "Missing"
	// ReasonSurge (Create): a pod above Replicas, so that another one can be replaced.
	ReasonSurge Reason = "Surge"
	// ReasonNamed (PrepareDelete, Delete): a user asked for this pod to be deleted.
	ReasonNamed Reason = "Named"
	// ReasonScaleIn (PrepareDelete, Delete): there are more pods than wanted.
	ReasonScaleIn Reason = "ScaleIn"
	// ReasonEnded (PrepareDelete, Delete): the pod has ended and its slot is needed for another one.
	ReasonEnded Reason = "Ended"
	// ReasonRecreate (PrepareDelete, Delete): the pod is at the wrong revision and another one will replace it.
	ReasonRecreate Reason = "Recreate"
	// ReasonInPlace (PrepareUpdate, MarkUnready, UpdateInPlace): the pod is at the wrong revision and is updated to the other one.
	ReasonInPlace Reason = "InPlace"
	// ReasonNextBatch (UpdateInPlace): the update that was begun goes on with further containers.
	ReasonNextBatch Reason = "NextBatch"
	// ReasonStarted (MarkReady): a new pod goes into service.
	ReasonStarted Reason = "Started"
	// ReasonUpdated (MarkReady): the update is complete.
	ReasonUpdated Reason = "Updated"
	// ReasonRestored (MarkReady, CancelDelete): the pod was taken out of service for an update or a deletion that is not
	// wanted any more.
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
	// ReasonInOrder (Hold): pods that come before have to be available first.
	ReasonInOrder Reason = "InOrder"
	// ReasonScaleLimit (Hold): pods created before have to become available first.
	ReasonScaleLimit Reason = "ScaleLimit"
	// ReasonBurst (Hold): no more than MaxCreates pods are created at a time.
	ReasonBurst Reason = "Burst"
	// ReasonRefused (Hold): a PodDisruptionBudget or an admission webhook refuses the step for now. It is found when steps
	// are applied, and never returned by Next.
	ReasonRefused Reason = "Refused"
	// ReasonNotInPlace (Hold): the pod can't be updated in place and nothing else is allowed.
	ReasonNotInPlace Reason = "NotInPlace"
	// ReasonPVC (Hold): a new pod waits for PVCs that a pod, or their deletion, still holds. Next doesn't know PVCs; kinds do.
	ReasonPVC Reason = "PVC"
	// ReasonPVCResize (Hold): the update of a pod waits for its PVCs to be resized. It is found by kinds, too.
	ReasonPVCResize Reason = "PVCResize"
	// ReasonPodWebhook (Hold): a new pod waits until it is sent to the pod webhook. Next doesn't know that; kinds do.
	ReasonPodWebhook Reason = "PodWebhook"
)

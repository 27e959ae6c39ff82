package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Goal is what shall be, in resolved numbers of pods. The zero Goal wants no pod.
type Goal struct {
	// Replicas is the number of pods; below 0 counts as 0. With Slots it is their number, whatever stands here.
	Replicas int
	// Partition is how many of them keep the old revision, capped to 0..Want. Without effect with OnDelete. With Slots,
	// places without a pod of the new one count: first those that are Old by themselves, then those whose pod would be the last
	// to be updated, and then, unless MakeNew, empty ones.
	Partition int
	// Slots are the places in each of which one pod is wanted, in order, each key once: ordinals, nodes. Nil: pods have no
	// places. A pod in another place is spare.
	Slots []Slot
	// CreateUpdated, with Slots, makes pods of the new revision in every place: the partition keeps pods, and no place.
	CreateUpdated bool
	// Ordered lets only one pod at a time be made, for the first slot that has none, or deleted because it is spare, the
	// first by Rank.Order; and not before all pods in slots before, or for a delete in all slots, are available and no
	// pod is leaving. A spare pod that is not available waits while another one is not, either.
	Ordered bool
	// MaxUnavailable is how many of Want may be unavailable by our doing.
	MaxUnavailable int
	// MaxSurge is how many pods may exist above Want while pods are replaced.
	MaxSurge int
	// Mode says how old pods come to the new revision.
	Mode Mode
	// Paused stops updates: no pod is marked, edited or re-created, and the surge that an update still needs stays as it
	// is. Scaling and named deletes go on, and so does the end of updates that were written before.
	Paused bool
	// Rollback lets pods of the new revision go back to the old one where the partition has grown. Without it, only pods
	// that are made anew are of the old revision.
	Rollback bool
	// ScaleMaxUnavailable bounds creations: pods that are made now and those that are unavailable together. Nil is no
	// bound.
	ScaleMaxUnavailable *int
	// ExcludePreparingDelete leaves pods that wait for their deletion out of the count, so that others are made before they are gone.
	ExcludePreparingDelete bool
	// PreparingUpdateAsUpdated lets scaling count old pods that are prepared for an update as new ones.
	PreparingUpdateAsUpdated bool
}

// Slot is a place in which a pod is wanted.
type Slot struct {
	Key string
	// Old: its pod keeps the old revision. Without effect with OnDelete.
	Old bool
}

// Mode says how old pods come to the new revision.
type Mode int

const (
	// ReCreate deletes old pods and creates new ones.
	ReCreate Mode = iota
	// InPlaceIfPossible edits pods where Pod.NotInPlace is empty and re-creates the others.
	InPlaceIfPossible
	// InPlaceOnly edits pods where Pod.NotInPlace is empty and leaves the others, with a Hold.
	InPlaceOnly
	// OnDelete leaves old pods until somebody else deletes them. New pods are of the new revision.
	OnDelete
)

// Pod is all that this package knows of one pod.
type Pod struct {
	// Key names the pod; unique. Steps carry it, and it decides between pods that are otherwise equal.
	Key string
	// Slot is the key of the pod's place; only read with Goal.Slots. A pod that is leaving keeps its place until it is
	// gone; a caller whose places are free at once leaves it out.
	Slot string
	// Old: the pod is not at the revision that is rolled out.
	Old bool
	// Ready: the pod serves. Available: it has served for long enough to count. A pod that is Available is Ready.
	Ready, Available bool
	// Inactive: the pod is being deleted or has ended. It counts no more and gets no step.
	Inactive bool
	// Ended: a pod that is Leaving has ended and nobody deletes it. With Slots it is deleted, because no other one comes into
	// its place before it is gone.
	Ended bool
	// ToDelete: somebody asked for this very pod to be deleted.
	ToDelete bool

	// PreparingDelete: the pod was prepared for its deletion.
	PreparingDelete bool
	// UpdateHooked and DeleteHooked: somebody else has a hand on the pod. An update in place, or a deletion, has to be
	// prepared first and then waits until he has let go.
	UpdateHooked, DeleteHooked bool

	// Update is how far an update in place is.
	Update UpdateState
	// NotInPlace is why the pod can't be brought to the other revision in place; empty if it can. Only read of Old pods, and
	// of all with Rollback.
	NotInPlace string
	// NoRestart: the update in place restarts nothing, so it is one Edit without Mark and takes no availability. Read as
	// NotInPlace is.
	NoRestart bool
	// Gated: the pod has the readiness gate that Mark closes. Without it, an update goes to Edit directly.
	Gated bool

	// ChangesAt is when time alone will change one of these facts, as when a ready pod becomes available; zero if never.
	ChangesAt time.Time
	// Rank orders pods.
	Rank Rank
}

// UpdateState is how far an update of a pod in place is.
type UpdateState int

const (
	// UpdateNone: nothing is under way.
	UpdateNone UpdateState = iota
	// UpdateHeld: nothing is under way, but the pod has not been released into service, as after its creation.
	UpdateHeld
	// UpdateAwaitingHook: the pod has been released, and somebody else has to take it up. It has no step until he has.
	UpdateAwaitingHook
	// UpdatePreparing: somebody else was asked to let go of the pod.
	UpdatePreparing
	// UpdateNotReady: the gate is closed and the spec is not written.
	UpdateNotReady
	// UpdateDraining: as UpdateNotReady, and the time that traffic has to go away is not over.
	UpdateDraining
	// UpdateInProgress: the spec is written, the containers have not followed.
	UpdateInProgress
	// UpdateNextBatch: the containers written so far have followed, and others are still to be written.
	UpdateNextBatch
	// UpdateCompleted: the containers have followed, the gate is still closed.
	UpdateCompleted
)

// Rank is what the order of pods is made from, see before and firstToUpdate. The zero value of a field sorts first.
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

// Steps is what to do now. A pod is in at most one step. Within a list, what comes first matters more.
type Steps struct {
	// Create is one entry for each pod to make; those of the old revision come first, or with Slots the first slot.
	Create []Create
	// PrepareUpdate asks for a pod to be let go, before Mark. PrepareDelete likewise, before Delete.
	PrepareUpdate, PrepareDelete []Step
	// Return takes PrepareDelete back.
	Return []Step
	// Mark closes a pod's readiness gate, before its spec is written.
	Mark []Step
	// Update writes the new revision into a pod, or with ReasonNextBatch the rest of the revision that was begun.
	Edit []Step
	// Release opens the gate and puts the pod (back) into service.
	Release []Step
	// Delete deletes a pod.
	Delete []Step
	// Holds is what waits, by reason.
	Holds []Hold
	// Recheck is after how long time alone could change the answer; 0 if never.
	Recheck time.Duration
}

// None tells that there is nothing to do now. Holds and Recheck may be set all the same.
func (s Steps) None() bool {
	return len(s.Create)+len(s.PrepareUpdate)+len(s.PrepareDelete)+len(s.Return)+
		len(s.Mark)+len(s.Edit)+len(s.Release)+len(s.Delete) == 0
}

// Create is one pod to make.
type Create struct {
	// Slot is the key of its place; empty without Goal.Slots.
	Slot string
	// Old: it is of the old revision.
	Old    bool
	Reason Reason
	// Why is a sentence with the numbers, for people.
	Why string
}

// Step is one pod to change.
type Step struct {
	Key string
	// Old: an update that goes back to the old revision.
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
	// ReasonSurge (Create): a pod above Want, so that another one can be replaced.
	ReasonSurge Reason = "Surge"
	// ReasonNamed (PrepareDelete, Delete): somebody asked for this pod to be deleted.
	ReasonNamed Reason = "Named"
	// ReasonScaleIn (PrepareDelete, Delete): there are more pods than wanted.
	ReasonScaleIn Reason = "ScaleIn"
	// ReasonEnded (PrepareDelete, Delete): the pod has ended and makes room for another one.
	ReasonEnded Reason = "Ended"
	// ReasonRecreate (PrepareDelete, Delete): the pod is of the wrong revision and another one will take its place.
	ReasonRecreate Reason = "Recreate"
	// ReasonInPlace (PrepareUpdate, Mark, Edit): the pod is of the wrong revision and is brought to the other one.
	ReasonInPlace Reason = "InPlace"
	// ReasonNextBatch (Edit): the update that was begun goes on with further containers.
	ReasonNextBatch Reason = "NextBatch"
	// ReasonStarted (Release): a new pod goes into service.
	ReasonStarted Reason = "Started"
	// ReasonUpdated (Release): the update is complete.
	ReasonUpdated Reason = "Updated"
	// ReasonRestored (Release, Return): the pod was taken out of service for what is not wanted any more.
	ReasonRestored Reason = "Restored"

	// ReasonPaused (Hold): the goal is paused.
	ReasonPaused Reason = "Paused"
	// ReasonBudget (Hold): too few pods are available to take one more out of service.
	ReasonBudget Reason = "Budget"
	// ReasonInFlight (Hold): updated pods have to become available first.
	ReasonInFlight Reason = "InFlight"
	// ReasonHook (Hold): somebody else has to let go of the pod, or to take it up.
	ReasonHook Reason = "Hook"
	// ReasonDraining (Hold): the time that traffic has to go away is not over.
	ReasonDraining Reason = "Draining"
	// ReasonInOrder (Hold): pods that come before have to be available first.
	ReasonInOrder Reason = "InOrder"
	// ReasonScaleLimit (Hold): pods made before have to become available first.
	ReasonScaleLimit Reason = "ScaleLimit"
	// ReasonNotInPlace (Hold): the pod can't be updated in place and nothing else is allowed.
	ReasonNotInPlace Reason = "NotInPlace"
)

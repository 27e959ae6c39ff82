package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Goal is what shall be, in resolved numbers of pods. The zero Goal wants no pod.
type Goal struct {
	// Want is the number of pods; below 0 counts as 0.
	Want int
	// Partition is how many of them keep the old revision, capped to 0..Want. Without effect with OnDelete.
	Partition int
	// MaxUnavailable is how many of Want may be unavailable by our doing.
	MaxUnavailable int
	// MaxSurge is how many pods may exist above Want while pods are replaced.
	MaxSurge int
	// Mode says how old pods come to the new revision.
	Mode Mode
	// Paused stops updates: no pod is marked, edited or re-created, and the surge that an update still needs stays as it
	// is. Scaling and named deletes go on, and so does the release of pods whose update was written before.
	Paused bool
}

// Mode says how old pods come to the new revision.
type Mode int

const (
	// ReCreate deletes old pods and creates new ones.
	ReCreate Mode = iota
	// InPlaceIfPossible edits pods where Pod.NoEdit is empty and re-creates the others.
	InPlaceIfPossible
	// InPlaceOnly edits pods where Pod.NoEdit is empty and leaves the others, with a Hold.
	InPlaceOnly
	// OnDelete leaves old pods until somebody else deletes them. New pods are of the new revision.
	OnDelete
)

// Pod is all that this package knows of one pod.
type Pod struct {
	// Key names the pod; unique. Steps carry it, and it decides between pods that are otherwise equal.
	Key string
	// Old: the pod is not at the revision that is rolled out.
	Old bool
	// Ready: the pod serves. Available: it has served for long enough to count. A pod that is Available is Ready.
	Ready, Available bool
	// Leaving: the pod is being deleted or has ended. It counts no more and gets no step.
	Leaving bool
	// Doomed: somebody asked for this very pod to be deleted.
	Doomed bool

	// Edit is how far an update in place is.
	Edit EditState
	// NoEdit is why the pod can't be updated in place; empty if it can. Only read of Old pods.
	NoEdit string
	// Quiet: the update in place restarts nothing, so it is one Edit without Mark and takes no availability.
	Quiet bool
	// Gated: the pod has the readiness gate that Mark closes. Without it, an update goes to Edit directly.
	Gated bool

	// ChangesAt is when time alone will change one of these facts, as when a ready pod becomes available; zero if never.
	ChangesAt time.Time
	// Rank orders pods.
	Rank Rank
}

// EditState is how far an update of a pod in place is.
type EditState int

const (
	// EditNone: nothing is under way.
	EditNone EditState = iota
	// EditHeld: nothing is under way, but the pod has not been released into service, as after its creation.
	EditHeld
	// EditMarked: the gate is closed and the spec is not written.
	EditMarked
	// EditUpdating: the spec is written, the containers have not followed.
	EditUpdating
	// EditDone: the containers have followed, the gate is still closed.
	EditDone
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
	// Create is one entry for each pod to make; those of the old revision come first.
	Create []Create
	// Mark closes a pod's readiness gate, before its spec is written.
	Mark []Step
	// Edit writes the new revision into a pod.
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
	return len(s.Create)+len(s.Mark)+len(s.Edit)+len(s.Release)+len(s.Delete) == 0
}

// Create is one pod to make.
type Create struct {
	// Old: it is of the old revision.
	Old    bool
	Reason Reason
	// Why is a sentence with the numbers, for people.
	Why string
}

// Step is one pod to change.
type Step struct {
	Key    string
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
	// ReasonNamed (Delete): somebody asked for this pod to be deleted.
	ReasonNamed Reason = "Named"
	// ReasonScaleIn (Delete): there are more pods than wanted.
	ReasonScaleIn Reason = "ScaleIn"
	// ReasonRecreate (Delete): the pod is old and a new one will take its place.
	ReasonRecreate Reason = "Recreate"
	// ReasonInPlace (Mark, Edit): the pod is old and is brought to the new revision.
	ReasonInPlace Reason = "InPlace"
	// ReasonStarted (Release): a new pod goes into service.
	ReasonStarted Reason = "Started"
	// ReasonUpdated (Release): the update is complete.
	ReasonUpdated Reason = "Updated"
	// ReasonRestored (Release): the pod was marked for an update that is not wanted any more.
	ReasonRestored Reason = "Restored"

	// ReasonPaused (Hold): the goal is paused.
	ReasonPaused Reason = "Paused"
	// ReasonBudget (Hold): too few pods are available to take one more out of service.
	ReasonBudget Reason = "Budget"
	// ReasonInFlight (Hold): updated pods have to become available first.
	ReasonInFlight Reason = "InFlight"
	// ReasonNotInPlace (Hold): the pod can't be updated in place and nothing else is allowed.
	ReasonNotInPlace Reason = "NotInPlace"
)

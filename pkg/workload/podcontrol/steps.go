package podcontrol

import (
	"time"

	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Class is a class of writes: steps that are applied and reported together.
type Class struct {
	Kind rollout.StepKind
	// Reason is ReasonEnded or ReasonRecreate for deletes with that reason, and empty otherwise.
	Reason rollout.Reason
}

// class describes how a Class is applied and reported. A new kind of step needs one more row in classes.
type class struct {
	Class
	// patch returns the requests for a step; nil for steps that aren't patches.
	patch func(a Applier, p *podset.Plan, s podset.Step, now time.Time) ([]podpatch.Patch, error)
	// scale: an error counts as a scale failure, otherwise as an update failure.
	scale bool
	// log is the log message for steps that were applied.
	log string
	// success is the reason of the event for applied steps; empty means no event. Its note is formatted with the number of pods, their names and
	// the update revision. Classes with the same reason share an event.
	success, note string
	// failure is the reason of the event for an error. action is the action of both events.
	failure, action string
}

var classes = []class{ //nolint:gochecknoglobals // A table that nothing changes.
	{
		Class: Class{Kind: rollout.StepCreate}, scale: true, log: "Created pods", action: ActionScaleOut,
		success: ReasonSuccessfulCreate, note: "created %[1]d pod(s): %[2]s", failure: ReasonFailedCreate,
	}, {
		Class: Class{Kind: rollout.StepDelete}, scale: true, log: "Deleted pods", action: ActionScaleIn,
		success: ReasonSuccessfulDelete, note: "deleted %[1]d pod(s): %[2]s", failure: ReasonFailedDelete,
	}, {
		Class: Class{Kind: rollout.StepDelete, Reason: rollout.ReasonEnded}, scale: true, log: "Deleted pods that had ended",
		success: ReasonSuccessfulDelete, note: "deleted %[1]d pod(s): %[2]s", failure: ReasonFailedDelete, action: ActionScaleIn,
	}, {
		Class: Class{Kind: rollout.StepDelete, Reason: rollout.ReasonRecreate}, log: "Deleted pods to re-create them",
		success: ReasonSuccessfulUpdatePodReCreate, note: "deleted %[1]d pod(s) to re-create them at %[3]s: %[2]s",
		failure: ReasonFailedUpdatePodReCreate, action: ActionUpdate,
	}, {
		Class: Class{Kind: rollout.StepMarkForDeletion}, patch: markForDeletion, scale: true,
		log: "Marked pods for deletion", failure: ReasonFailedUpdate, action: ActionUpdate,
	}, {
		Class: Class{Kind: rollout.StepPrepareDelete}, patch: prepareDelete, scale: true,
		log: "Asked lifecycle hooks to let pods be deleted", failure: ReasonFailedUpdate, action: ActionUpdate,
	}, {
		Class: Class{Kind: rollout.StepCancelDelete}, patch: cancelDelete, scale: true,
		log: "Cancelled deletions that lifecycle hooks held up", failure: ReasonFailedUpdate, action: ActionUpdate,
	}, {
		Class: Class{Kind: rollout.StepPrepareUpdate}, patch: prepareUpdate,
		log: "Asked lifecycle hooks to let pods be updated", failure: ReasonFailedUpdate, action: ActionUpdate,
	}, {
		Class: Class{Kind: rollout.StepMarkUnready}, patch: markUnready,
		log: "Took pods out of service for an update", failure: ReasonFailedUpdatePodInPlace, action: ActionUpdate,
	}, {
		Class: Class{Kind: rollout.StepUpdateInPlace}, patch: updateInPlace, log: "Updated pods in place",
		success: ReasonSuccessfulUpdatePodInPlace, note: "updated %[1]d pod(s) in place to %[3]s: %[2]s",
		failure: ReasonFailedUpdatePodInPlace, action: ActionUpdate,
	}, {
		Class: Class{Kind: rollout.StepMarkReady}, patch: markReady,
		log: "Put pods into service", failure: ReasonFailedUpdatePodInPlace, action: ActionUpdate,
	},
}

// has reports whether a step is of the class.
func (c *Class) has(s *podset.Step) bool {
	if s.Kind != rollout.StepDelete {
		return s.Kind == c.Kind
	}
	special := s.Reason == rollout.ReasonEnded || s.Reason == rollout.ReasonRecreate
	return s.Kind == c.Kind && (c.Reason == s.Reason || c.Reason == "" && !special)
}

// filter returns the steps of the class.
func (c *Class) filter(steps []podset.Step) []podset.Step {
	var out []podset.Step
	for i := range steps {
		if c.has(&steps[i]) {
			out = append(out, steps[i])
		}
	}
	return out
}

// single returns the requests for a step that needs only one.
func single(p podpatch.Patch, err error) ([]podpatch.Patch, error) { return []podpatch.Patch{p}, err }

func markForDeletion(_ Applier, _ *podset.Plan, s podset.Step, _ time.Time) ([]podpatch.Patch, error) {
	b := podpatch.ForDeletion(s.Pod.Object)
	return single(b.Patch(s.Pod.Object, ""))
}

func prepareDelete(a Applier, _ *podset.Plan, s podset.Step, now time.Time) ([]podpatch.Patch, error) {
	return single(a.Hooks.PrepareDelete(s.Pod.Object, now))
}

func cancelDelete(a Applier, _ *podset.Plan, s podset.Step, now time.Time) ([]podpatch.Patch, error) {
	return single(a.Hooks.CancelDelete(s.Pod.Object, inplace.Closed(s.Pod.Object), now))
}

func prepareUpdate(a Applier, _ *podset.Plan, s podset.Step, now time.Time) ([]podpatch.Patch, error) {
	return single(a.Hooks.PrepareUpdate(s.Pod.Object, now))
}

func markUnready(_ Applier, _ *podset.Plan, s podset.Step, now time.Time) ([]podpatch.Patch, error) {
	return single(inplace.MarkUnready(s.Pod.Object, now))
}

func updateInPlace(a Applier, p *podset.Plan, s podset.Step, now time.Time) ([]podpatch.Patch, error) {
	if s.Reason == rollout.ReasonNextBatch {
		return inplace.Continue(s.Pod.Object, now)
	}
	to := p.Revision.Revision
	if s.Old {
		to = p.Current
	}
	return s.Pod.InPlace.Write(s.Pod.Object, a.Labels.Change(s.Pod.Object, to.Name), now)
}

func markReady(a Applier, _ *podset.Plan, s podset.Step, now time.Time) ([]podpatch.Patch, error) {
	return single(inplace.MarkReady(s.Pod.Object, a.Hooks.Serve(s.Pod.Object, now), now))
}

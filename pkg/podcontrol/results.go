package podcontrol

import (
	"errors"
	"slices"

	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// Results says what came of a plan, by classes of writes.
type Results struct {
	// Collided: the name of the new revision is taken; nothing else was done.
	Collided bool
	// Revision is why the update revision could not be written; nothing else was done then.
	Revision error

	// Deleted are pods of scaling, Recreated of an update, Ended those that made room for another.
	Deleted, Recreated, Ended Result
	// Named pods were named for deletion; Parted and Recalled ones were asked to be let go for it, or not any more.
	Named, Parted, Recalled Result
	// Prepared pods were asked to be let go for an update; the other three are the writes of one in place.
	Prepared, Marked, Edited, Released Result
	// Created pods are new.
	Created Result
	// Rest is what came of all other housekeeping.
	Rest error
}

// Err joins all errors.
func (d *Results) Err() error {
	return errors.Join(d.Revision, d.Deleted.Err, d.Recreated.Err, d.Ended.Err, d.Named.Err, d.Parted.Err, d.Recalled.Err,
		d.Prepared.Err, d.Marked.Err, d.Edited.Err, d.Released.Err, d.Created.Err, d.Rest)
}

// Reasons of failures, beside those of the packages podset, rollout and condition.
const (
	// ReasonInvalidSpec: the spec has what can't be acted on.
	ReasonInvalidSpec = "InvalidSpec"
)

// Failures are what went wrong in a reconcile, or has stood still for too long: with the number of pods, and with their update.
// scaling are errors of the kind's own writes that belong to the former.
func (d *Results) Failures(w *podset.Plan, scaling ...error) (scale, update report.Failure) {
	scale = report.WriteFailure(slices.Concat([]error{
		d.Created.Err, d.Deleted.Err, d.Named.Err, d.Parted.Err, d.Recalled.Err, d.Ended.Err,
	}, scaling)...)
	update = report.WriteFailure(d.Revision, d.Recreated.Err, d.Prepared.Err, d.Marked.Err, d.Edited.Err, d.Released.Err, d.Rest)
	if w.InvalidSpec != "" {
		update = report.Failure{Reason: ReasonInvalidSpec, Message: w.InvalidSpec}
	}
	for _, h := range w.Holds {
		if h.Reason == rollout.ReasonNotInPlace && update.Reason == "" {
			update = report.Failure{Reason: string(rollout.ReasonNotInPlace), Message: h.Why}
		}
	}
	stands := &update
	if w.Stalled.Scale {
		stands = &scale
	}
	if stands.Reason == "" {
		*stands = w.Stalled.Failure
	}
	return scale, update
}

// Events are those of a reconcile: one for each class of writes that did something, and one for each that failed. deleting are
// errors of the kind's own deletions, other those of its other writes. begins says that the spec is new.
func (d *Results) Events(w *podset.Plan, begins bool, deleting, other []error) []event.Event {
	var out []event.Event
	say := func(names []string, good func([]string) event.Event, err error, bad func(error) event.Event) {
		if len(names) > 0 {
			out = append(out, good(names))
		}
		if err != nil {
			out = append(out, bad(err))
		}
	}
	name := w.Revision.Revision.Name
	inPlace := func(names []string) event.Event { return updatedInPlace(name, names) }
	anew := func(names []string) event.Event { return recreated(name, names) }
	say(nil, nil, d.Revision, failedCreate)
	say(slices.Concat(d.Deleted.Done, d.Ended.Done), deleted, d.Deleted.Err, failedDelete)
	for _, err := range slices.Concat([]error{d.Ended.Err}, deleting) {
		say(nil, nil, err, failedDelete)
	}
	say(d.Recreated.Done, anew, d.Recreated.Err, failedRecreate)
	say(nil, nil, d.Marked.Err, failedUpdateInPlace)
	say(d.Edited.Done, inPlace, d.Edited.Err, failedUpdateInPlace)
	say(nil, nil, d.Released.Err, failedUpdateInPlace)
	say(d.Created.Done, created, d.Created.Err, failedCreate)
	for _, err := range slices.Concat([]error{d.Named.Err, d.Parted.Err, d.Recalled.Err, d.Prepared.Err}, other, []error{d.Rest}) {
		if err != nil {
			out = append(out, FailedUpdate(err.Error()))
		}
	}
	for _, h := range w.Holds {
		// Told when it begins and with each pod made, not with each reconcile.
		if h.Reason == rollout.ReasonScaleLimit && (len(d.Created.Done) > 0 || begins) {
			out = append(out, scaleUpLimited(h.Why))
		}
	}
	return out
}

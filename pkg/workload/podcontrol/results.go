package podcontrol

import (
	"cmp"
	"errors"
	"slices"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Results are the results of applying a plan.
type Results struct {
	// Collided: the name of the new revision is taken; nothing else was written.
	Collided bool
	// Revision is the error from writing the update revision; nothing else was written then.
	Revision error
	// Steps are the results of the plan's steps.
	Steps map[Class]Result
	// Rest joins the errors of all other writes.
	Rest error
	// Waits reports what has been refusing steps for a while, as the content of a condition; the zero value means nothing. Controller.Waits sets
	// it.
	Waits report.Failure

	// refused are the messages of writes that were temporarily refused.
	refused []string
}

// Of returns the result of a class of steps.
func (r *Results) Of(kind rollout.StepKind, reason rollout.Reason) Result {
	return r.Steps[Class{Kind: kind, Reason: reason}]
}

func (r *Results) put(c Class, result Result) {
	if r.Steps == nil {
		r.Steps = make(map[Class]Result, len(classes))
	}
	r.Steps[c] = result
	r.refused = append(r.refused, result.Refused...)
}

// Add adds the result of writes that are not steps.
func (r *Results) Add(result Result) {
	r.Rest = errors.Join(r.Rest, result.Err)
	r.refused = append(r.refused, result.Refused...)
}

// Err joins all errors.
func (r *Results) Err() error {
	errs := []error{r.Revision}
	for i := range classes {
		errs = append(errs, r.Steps[classes[i].Class].Err)
	}
	return errors.Join(append(errs, r.Rest)...)
}

// Failure reasons, in addition to those in the packages podset, rollout and report.
const (
	// ReasonInvalidSpec: the spec is invalid.
	ReasonInvalidSpec = "InvalidSpec"
)

// Failures returns the scale and update failures of this reconcile, including a stall. errs are errors of the kind's own writes that count as
// scale failures.
func (r *Results) Failures(p *podset.Plan, errs ...error) (scale, update report.Failure) {
	var scaling, updating []error
	for i := range classes {
		if err := r.Steps[classes[i].Class].Err; classes[i].scale {
			scaling = append(scaling, err)
		} else {
			updating = append(updating, err)
		}
	}
	scale = report.WriteFailure(append(scaling, errs...)...)
	update = report.WriteFailure(slices.Concat([]error{r.Revision}, updating, []error{r.Rest})...)
	if fault := cmp.Or(p.InvalidSpec, p.Ignored); fault != "" {
		update = report.Failure{Reason: ReasonInvalidSpec, Message: fault}
	}
	for _, h := range p.Holds {
		if h.Reason == rollout.ReasonNotInPlace && update.Reason == "" {
			update = report.Failure{Reason: string(rollout.ReasonNotInPlace), Message: h.Why}
		}
	}
	stalled := &update
	if p.Stalled.Scale {
		stalled = &scale
	}
	if stalled.Reason == "" {
		*stalled = p.Stalled.Failure
	}
	return scale, update
}

// Events returns the events of a reconcile: one for each class that changed something, and one for each class that failed. deletes are the
// errors of the kind's own deletes, others the errors of its other writes. newSpec: this is the first reconcile of the spec. Events for refused steps
// come from Controller.Report.
func (r *Results) Events(p *podset.Plan, newSpec bool, deletes, others []error) []event.Event {
	var out []event.Event
	failed := func(reason, action string, errs ...error) {
		for _, err := range errs {
			if err != nil {
				out = append(out, event.Warning(reason, action, "%v", err))
			}
		}
	}
	done := map[string][]string{}
	for i := range classes {
		c := &classes[i]
		done[c.success] = append(done[c.success], r.Steps[c.Class].Done...)
	}
	failed(ReasonFailedCreate, ActionScaleOut, r.Revision)
	for i := range classes {
		c := &classes[i]
		if pods := done[c.success]; c.success != "" && len(pods) > 0 {
			out = append(out, event.Normal(c.success, c.action, c.note, len(pods), event.Names(pods), p.Revision.Revision.Name))
			delete(done, c.success)
		}
		failed(c.failure, c.action, r.Steps[c.Class].Err)
	}
	failed(ReasonFailedDelete, ActionScaleIn, deletes...)
	failed(ReasonFailedUpdate, ActionUpdate, slices.Concat(others, []error{r.Rest})...)
	for _, h := range p.Holds {
		// Not on every reconcile, but when the limit begins to delay pods and whenever pods are created.
		if h.Reason == rollout.ReasonScaleLimit && (len(r.Of(rollout.StepCreate, "").Done) > 0 || newSpec) {
			out = append(out, event.Warning(ReasonScaleUpLimited, ActionScaleOut, "%s", h.Why))
		}
	}
	return out
}

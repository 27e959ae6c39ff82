package agent

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/event"
)

// Bounds of a report.
const (
	// reportEvery is how often counts and the revision are reported while they change.
	reportEvery = 2 * time.Second
	// begunDelay is after how long it is reported that a change has begun, and done nothing yet. It is longer than that of the member's
	// UnitedDeployment controller, whose report is the last that may be waited for.
	begunDelay = 12 * time.Second
	// statusLimit is the most bytes that a row's status has, as JSON.
	statusLimit = 4096
	// messageLimit is the most bytes of its message.
	messageLimit = 512
)

// applied is the result of a plan.
type applied struct {
	// line and live are the ledger line and the object after the action; live is nil if there is no object.
	line *fleetv1alpha1.AppliedWork
	live *unstructured.Unstructured
	// stopped is why the action can't succeed by a retry; nil if it may.
	stopped *problem
	// unknown: the object could not be read, so that what was reported of it holds.
	unknown bool
	// drift lists the fields that were reverted.
	drift []string
	// gone: nothing of a withdrawn row is left here.
	gone bool
}

// status returns the status of a row. last is the one reported before: an observed generation that is not known now stays.
func status(o observed, p planned, a applied, last fleetv1alpha1.MemberWorkStatus) fleetv1alpha1.MemberWorkStatus {
	if a.unknown {
		last.Phase, last.Reason, last.Message, last.Drift = a.stopped.phase, a.stopped.reason, a.stopped.message, nil
		return fit(last)
	}
	s := fleetv1alpha1.MemberWorkStatus{ObservedGeneration: last.ObservedGeneration, Drift: boundPaths(a.drift)}
	if len(s.Drift) == 0 {
		s.Drift = nil
	}
	stopped := p.stopped
	if a.stopped != nil {
		stopped = a.stopped
	}
	if a.gone {
		s.Phase, s.ObservedGeneration = fleetv1alpha1.WorkWithdrawn, o.row.Generation
		return s
	}
	mine := a.live != nil && ours(a.line, a.live)
	if mine {
		kind := kindOf(a.live.GroupVersionKind())
		kind.measure(&s, a.live)
		if upToDate(a.line, o.want, a.live) && kind.observed(a.live) {
			s.ObservedGeneration = o.row.Generation
		}
	}
	if mine && s.Reason == "" && len(a.line.Spec.Left) > 0 {
		s.Reason, s.Message = fleetv1alpha1.ReasonFieldsLeft, "others own these fields, which are left to them: "+event.Names(a.line.Spec.Left)
	}
	switch {
	case stopped != nil:
		s.Phase, s.Reason, s.Message = stopped.phase, stopped.reason, stopped.message
	case !o.row.DeletionTimestamp.IsZero():
		s.Phase = fleetv1alpha1.WorkDeleting
	case s.Phase == fleetv1alpha1.WorkDegraded: // A failure counts whichever generation it is of.
	case !mine || a.live.GetDeletionTimestamp() != nil || s.ObservedGeneration != o.row.Generation:
		s.Phase = fleetv1alpha1.WorkProgressing
	}
	if p.suspended {
		s.Reason, s.Message = fleetv1alpha1.ReasonSuspended, "the row is suspended: nothing is changed here until it is not"
	}
	return fit(s)
}

// fit keeps a status within the size that a row allows. What matters least is cut first; subsets last, because the hub
// allocates by them.
func fit(s fleetv1alpha1.MemberWorkStatus) fleetv1alpha1.MemberWorkStatus {
	s.Message = event.Truncate(s.Message, messageLimit)
	s.Reason = event.Truncate(s.Reason, 64)
	s.Revision = event.Truncate(s.Revision, 253)
	if size(s) > statusLimit {
		s.Drift = nil
	}
	if size(s) > statusLimit {
		s.Message = event.Truncate(s.Message, 128)
	}
	for size(s) > statusLimit && len(s.Subsets) > 0 {
		s.Subsets = s.Subsets[:len(s.Subsets)-1]
	}
	return s
}

func size(s fleetv1alpha1.MemberWorkStatus) int {
	raw, err := json.Marshal(s)
	if err != nil {
		return statusLimit + 1
	}
	return len(raw)
}

// urgency is how soon a row's new status is reported.
type urgency string

const (
	unchanged urgency = "Unchanged" // it says nothing new
	atOnce    urgency = "AtOnce"
	soon      urgency = "Soon"  // within reportEvery
	begun     urgency = "Begun" // within begunDelay
)

// urgencyOf returns how soon a row's new status is reported, after the last one. Counts and the revision may wait. So may a change that
// has begun and done nothing yet, whose end is expected within that time: its acknowledgement too, unless the hub counts with more or
// fewer pods until then.
func urgencyOf(row *fleetv1alpha1.MemberWork, last, next fleetv1alpha1.MemberWorkStatus) urgency {
	if next.Drift != nil {
		return atOnce
	}
	next.Drift = last.Drift // Drift is reported once; its end is not.
	const healthy, progressing = fleetv1alpha1.WorkHealthy, fleetv1alpha1.WorkProgressing
	switch {
	case equality.Semantic.DeepEqual(last, next):
		return unchanged
	case last.Reason != next.Reason, last.Phase != next.Phase && next.Phase != progressing:
		return atOnce
	case last.Phase != next.Phase && last.Phase != "" && (last.Phase != healthy || next.Counts.Available < last.Counts.Available):
		return atOnce
	case last.ObservedGeneration != next.ObservedGeneration && (next.Phase != progressing || bounded(row.Spec.Grant)):
		return atOnce
	}
	if last.Counts.Unschedulable != next.Counts.Unschedulable {
		return soon // The hub moves these pods.
	}
	// The counts of a row that is not acknowledged are those of the former one.
	former := next.ObservedGeneration != row.Generation
	if next.Counts.Available >= next.Counts.Desired && (former || next.Counts.UpdatedReady == 0) {
		return begun
	}
	return soon
}

// bounded reports whether the hub counts with other numbers than those it grants until they are acknowledged.
func bounded(g fleetv1alpha1.WorkGrant) bool {
	return slices.ContainsFunc(g.Subsets, func(s fleetv1alpha1.SubsetGrant) bool { return s.Lower != s.Replicas || s.Upper != s.Replicas })
}

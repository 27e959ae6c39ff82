package agent

import (
	"encoding/json"
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
	// drift lists the fields that were reverted.
	drift []string
	// gone: nothing of a withdrawn row is left here.
	gone bool
}

// status returns the status of a row. last is the one reported before: an observed generation that is not known now stays.
func status(o observed, p planned, a applied, last fleetv1alpha1.MemberWorkStatus) fleetv1alpha1.MemberWorkStatus {
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
	switch {
	case stopped != nil:
		s.Phase, s.Reason, s.Message = stopped.phase, stopped.reason, stopped.message
	case !o.row.DeletionTimestamp.IsZero():
		s.Phase = fleetv1alpha1.WorkDeleting
	case s.Phase == fleetv1alpha1.WorkDegraded: // A failure counts whichever generation it is of.
	case !mine || a.live.GetDeletionTimestamp() != nil || s.ObservedGeneration != o.row.Generation:
		s.Phase = fleetv1alpha1.WorkProgressing
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

// due returns whether to report a row's new status now, and otherwise after how long; 0 means that it says nothing new. since is how
// long ago the last one was reported, waited how long the new one has differed from it. Counts and the revision may wait, and so may
// a change that has only begun: its acknowledgement is expected within that time.
func due(last, next fleetv1alpha1.MemberWorkStatus, since, waited time.Duration) (now bool, after time.Duration) {
	if next.Drift != nil {
		return true, 0
	}
	next.Drift = last.Drift // Drift is reported once; its end is not.
	if equality.Semantic.DeepEqual(last, next) {
		return false, 0
	}
	begun := last
	begun.Phase = fleetv1alpha1.WorkProgressing
	switch {
	case last.Phase == fleetv1alpha1.WorkHealthy && equality.Semantic.DeepEqual(begun, next):
		since = waited
	case last.Reason != next.Reason, last.Phase != next.Phase, last.ObservedGeneration != next.ObservedGeneration:
		return true, 0 // The counts of a row that is not acknowledged are those of the former one.
	}
	return since >= reportEvery, max(reportEvery-since, 0)
}

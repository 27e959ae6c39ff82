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
	// reportEvery is how often counts are reported while they change.
	reportEvery = 2 * time.Second
	// reportBegin is how long a change may take until it is reported as begun. Most are complete by then, and are reported once.
	reportBegin = 5 * time.Second
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

// news is what a new status of a row says that the last one did not, by how soon the hub has to know.
type news int

const (
	// noNews: the hub knows all of it.
	noNews news = iota
	// begun: a change that the hub asked for is in progress.
	begun
	// progress: counts have changed.
	progress
	// urgent is what the hub, or a user of it, waits for.
	urgent
)

// newsIn compares the status of a row with the one that was reported last.
func newsIn(row *fleetv1alpha1.MemberWork, last, next fleetv1alpha1.MemberWorkStatus) news {
	if next.Drift != nil {
		return urgent
	}
	next.Drift = last.Drift // Drift is reported once; its end is not.
	acknowledged := last.ObservedGeneration != next.ObservedGeneration
	switch {
	case equality.Semantic.DeepEqual(last, next):
		return noNews
	case last.Reason != next.Reason, last.Phase != next.Phase && next.Phase != fleetv1alpha1.WorkProgressing:
		return urgent // Among others: all of it is done.
	case acknowledged && (lowered(row) || next.Phase != fleetv1alpha1.WorkProgressing):
		return urgent
	case last.Phase == fleetv1alpha1.WorkHealthy && !acknowledged && next.ObservedGeneration == row.Generation:
		return urgent // Something is lost that no change has asked for.
	case last.Phase != next.Phase, acknowledged:
		return begun
	default:
		return progress
	}
}

// lowered reports whether the row takes replicas away, so that the hub may not grant them elsewhere until it is acknowledged.
func lowered(row *fleetv1alpha1.MemberWork) bool {
	return slices.ContainsFunc(row.Spec.Grant.Subsets, func(g fleetv1alpha1.SubsetGrant) bool { return g.Upper > g.Replicas })
}

// wait returns how long news may wait: reported is how long ago the last report was, changed since when there is news.
func (n news) wait(reported, changed time.Duration) time.Duration {
	switch n {
	case begun:
		return max(reportBegin-changed, 0)
	case progress:
		return max(reportEvery-reported, 0)
	case noNews, urgent:
	}
	return 0
}

package agent

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/member/agent/measure"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// Limits for a report.
const (
	// reportEvery is how often counts and the revision are reported while they change.
	reportEvery = 2 * time.Second
	// begunDelay is how long it takes until a change that has begun, but done nothing yet, is reported. It is longer than the delay of the
	// member's UnitedDeployment controller, whose report is the last one worth waiting for.
	begunDelay = 12 * time.Second
	// statusLimit is the maximum size in bytes of a row's status, as JSON.
	statusLimit = 4096
	// messageLimit is the maximum size in bytes of its message.
	messageLimit = 512
)

// applied is the result of applying a plan.
type applied struct {
	// line and live are the ledger line and the object after the action; live is nil if there is no object.
	line *fleetv1alpha1.AppliedWork
	live *unstructured.Unstructured
	// problem is why the action failed, if that is to be reported. It overrides the problem of the plan.
	problem *problem
	// unknown means that the object could not be read, so what was last reported about it still holds.
	unknown bool
	// drift lists the fields that were reverted.
	drift []string
	// gone means that nothing of a withdrawn row is left here.
	gone bool
}

// status returns the status of a row. last is the previously reported status; its observed generation is kept unless the current one is known.
func status(o observed, p planned, a applied, last fleetv1alpha1.MemberWorkStatus) fleetv1alpha1.MemberWorkStatus {
	if a.unknown {
		last.Phase, last.Reason, last.Message, last.Drift = a.problem.phase, a.problem.reason, a.problem.message, nil
		return fitToLimit(last)
	}
	s := fleetv1alpha1.MemberWorkStatus{ObservedGeneration: last.ObservedGeneration, Drift: limitPaths(a.drift)}
	if len(s.Drift) == 0 {
		s.Drift = nil
	}
	problem := p.problem
	if a.problem != nil {
		problem = a.problem
	}
	if a.gone {
		s.Phase, s.ObservedGeneration = fleetv1alpha1.WorkWithdrawn, o.row.Generation
		return s
	}
	isOurs := a.live != nil && ours(a.line, a.live)
	if isOurs {
		kind := measure.KindOf(a.live.GroupVersionKind())
		kind.Measure(&s, a.live)
		if upToDate(a.line, o.want, a.live) && kind.Observed(a.live) {
			s.ObservedGeneration = o.row.Generation
		}
	}
	if isOurs && s.Reason == "" && len(a.line.Spec.Left) > 0 {
		s.Reason, s.Message = fleetv1alpha1.ReasonFieldsLeft, "these fields are left to the managers that own them: "+event.Names(a.line.Spec.Left)
	}
	switch {
	case problem != nil:
		s.Phase, s.Reason, s.Message = problem.phase, problem.reason, problem.message
	case !o.row.DeletionTimestamp.IsZero():
		s.Phase = fleetv1alpha1.WorkDeleting
	case s.Phase == fleetv1alpha1.WorkDegraded: // A failure counts, whatever generation it belongs to.
	case !isOurs || a.live.GetDeletionTimestamp() != nil || s.ObservedGeneration != o.row.Generation:
		s.Phase = fleetv1alpha1.WorkProgressing
	}
	if p.suspended {
		s.Reason, s.Message = fleetv1alpha1.ReasonSuspended, "the row is suspended: nothing is changed here until it is resumed"
	}
	return fitToLimit(s)
}

// fitToLimit keeps a status within the size that a row allows. The least important parts are cut first. Subsets are cut last, because the hub
// allocates by them.
func fitToLimit(s fleetv1alpha1.MemberWorkStatus) fleetv1alpha1.MemberWorkStatus {
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
	reportNothing urgency = "Unchanged" // nothing new
	reportAtOnce  urgency = "AtOnce"
	reportSoon    urgency = "Soon"  // within reportEvery
	reportBegun   urgency = "Begun" // within begunDelay
)

// urgencyOf returns how soon the new status of a row is reported, given the last reported one. Counts and the revision may wait. So may a
// change that has begun but done nothing yet, if it is expected to end within that time. Its acknowledgement may wait too, unless the hub
// counts on more or fewer pods until then.
func urgencyOf(row *fleetv1alpha1.MemberWork, last, next fleetv1alpha1.MemberWorkStatus) urgency {
	if next.Drift != nil {
		return reportAtOnce
	}
	next.Drift = last.Drift // Drift is reported once; its end is not reported.
	const healthy, progressing = fleetv1alpha1.WorkHealthy, fleetv1alpha1.WorkProgressing
	switch {
	case equality.Semantic.DeepEqual(last, next):
		return reportNothing
	case last.Reason != next.Reason, last.Phase != next.Phase && next.Phase != progressing:
		return reportAtOnce
	case last.Phase != next.Phase && last.Phase != "" && (last.Phase != healthy || next.Counts.Available < last.Counts.Available):
		return reportAtOnce
	case last.ObservedGeneration != next.ObservedGeneration && (next.Phase != progressing || hasTransitionBounds(row.Spec.Grant)):
		return reportAtOnce
	}
	if last.Counts.Unschedulable != next.Counts.Unschedulable {
		return reportSoon // The hub moves these pods.
	}
	// The counts of a row that is not acknowledged yet belong to its previous generation.
	former := next.ObservedGeneration != row.Generation
	if next.Counts.Available >= next.Counts.Desired && (former || next.Counts.UpdatedReady == 0) {
		return reportBegun
	}
	return reportSoon
}

// hasTransitionBounds reports whether, until the grant is acknowledged, the hub counts on numbers other than those it grants.
func hasTransitionBounds(g fleetv1alpha1.WorkGrant) bool {
	return slices.ContainsFunc(g.Subsets, func(s fleetv1alpha1.SubsetGrant) bool {
		rollout := s.MaxUnavailable != nil && (s.UnavailableUpper > *s.MaxUnavailable || s.UpdatedUpper > s.Replicas-s.Partition)
		return s.Lower != s.Replicas || s.Upper != s.Replicas || rollout
	})
}

// withoutUpdatedAvailable returns a status as a hub of the previous version stores it: its rows have no updatedAvailable.
func withoutUpdatedAvailable(s fleetv1alpha1.MemberWorkStatus) fleetv1alpha1.MemberWorkStatus {
	s.Counts.UpdatedAvailable = 0
	s.Subsets = slices.Clone(s.Subsets)
	for i := range s.Subsets {
		s.Subsets[i].UpdatedAvailable = 0
	}
	return s
}

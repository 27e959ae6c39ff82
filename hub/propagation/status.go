package propagation

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// Reasons for conditions that need no action.
const (
	reasonPlaced      = "Placed"
	reasonWaiting     = "Waiting"
	reasonHealthy     = "Healthy"
	reasonProgressing = "Progressing"
	reasonSuspended   = "Suspended"
)

// Limits of a status.
const (
	// maxProblems is how many problems a status lists.
	maxProblems = 20
	// maxReasonBytes and maxMessageBytes limit the bytes of a problem's reason and message, which may come from a member.
	maxReasonBytes  = 64
	maxMessageBytes = 256
)

// counts are numbers of places.
type counts struct {
	desired, placed, applied, healthy int
	// suspended are the suspended clusters that have unhealthy places. There are none if other clusters have such places too.
	suspended []string
}

// status returns the new status. It doesn't trust what members report: it compares their phases with known ones, and truncates texts.
func status(o *observed, p planned, a placement.Summary, now time.Time) fleetv1alpha1.PropagationStatus {
	s := *o.oldStatus.DeepCopy()
	c := countPlaces(o, p, a)
	placing := slices.Concat(p.problems, fromPlacement(a.Problems))
	failing := failures(a)
	s.StaleClusters = clampToInt32(len(a.Stale))
	if p.Deleting == "" {
		s.Objects, s.Clusters, s.Desired = clampToInt32(p.objects), clampToInt32(len(p.clusters)), clampToInt32(c.desired)
		if a.Err == nil && !lagging(p, a) {
			s.ObservedGeneration = o.source.GetGeneration()
		}
	}
	s.Applied, s.Healthy = clampToInt32(c.applied), clampToInt32(c.healthy)
	s.Divided = lines(p.parts)
	s.Problems = firstProblems(slices.Concat(placing, failing))
	notes := firstProblems(p.notes)
	s.Problems = append(s.Problems, notes[:min(len(notes), maxProblems-len(s.Problems))]...)
	set := func(conditionType string, ok bool, reason, message string) {
		s.Conditions = report.SetCondition(s.Conditions, metav1.Condition{
			Type: conditionType, Status: report.ConditionStatus(ok), Reason: reason, Message: message, ObservedGeneration: o.source.GetGeneration(),
		}, now)
	}
	sortProblems(placing)
	sortProblems(failing)
	switch {
	case a.Err != nil:
		set(fleetv1alpha1.PropagationPlaced, false, reasonError, a.Err.Error())
	case p.Deleting != "":
		set(fleetv1alpha1.PropagationPlaced, false, reasonDeleting, p.Deleting)
	case len(placing) > 0:
		set(fleetv1alpha1.PropagationPlaced, false, placing[0].Reason, describe(placing))
	case c.placed < c.desired:
		set(fleetv1alpha1.PropagationPlaced, false, reasonWaiting, fmt.Sprintf("%d of %d places have their MemberWork", c.placed, c.desired))
	case len(p.moves) > 0:
		set(fleetv1alpha1.PropagationPlaced, false, reasonDividing, describe(p.moves))
	default:
		set(fleetv1alpha1.PropagationPlaced, true, reasonPlaced, describe(p.notes))
	}
	switch {
	case p.Deleting != "":
		set(fleetv1alpha1.PropagationHealthy, false, reasonDeleting, p.Deleting)
	case len(failing) > 0:
		set(fleetv1alpha1.PropagationHealthy, false, failing[0].Reason, describe(failing))
	case len(a.Stale) > 0:
		cluster := slices.Min(slices.Collect(maps.Keys(a.Stale)))
		reason, message := o.Silent(cluster)
		set(fleetv1alpha1.PropagationHealthy, false, reason, cluster+": "+message)
	case len(c.suspended) > 0:
		set(fleetv1alpha1.PropagationHealthy, false, reasonSuspended, fmt.Sprintf("%d of %d places are healthy, and the others are not changed: "+
			"spec.suspend stops changes in %s", c.healthy, c.desired, event.Names(c.suspended)))
	case c.healthy == c.desired && p.missingReplicas > 0:
		set(fleetv1alpha1.PropagationHealthy, false, reasonProgressing, fmt.Sprintf("replicas not available yet: %d", p.missingReplicas))
	case c.healthy < c.desired || c.desired == 0 && len(o.united) == 0:
		set(fleetv1alpha1.PropagationHealthy, false, reasonProgressing, fmt.Sprintf("%d of %d places are healthy", c.healthy, c.desired))
	default:
		set(fleetv1alpha1.PropagationHealthy, true, reasonHealthy, "")
	}
	problems := make([]placement.Problem, 0, len(placing)+len(failing))
	for _, one := range slices.Concat(placing, failing) {
		problems = append(problems, placement.Problem{Cluster: one.Cluster, Reason: one.Reason, Message: one.Message})
	}
	ready := readiness(&s, p, a, problems, now)
	if slices.Contains(missingObjectReasons(), ready.Reason) && missingSince(s.Conditions) == nil {
		// The timeout counts from now, and not from when the source began to reconcile for another reason.
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == keys.ConditionReconciling })
	}
	s.Conditions = report.SetReadiness(s.Conditions, ready, o.source.GetGeneration(), now)
	if p.Deleting != "" {
		set(fleetv1alpha1.PropagationWithdrawing, true, reasonDeleting, p.Deleting+": "+a.Holders(problems))
	}
	return s
}

// readiness returns whether all objects are in all clusters and healthy. s has the new conditions Placed and Healthy, and the previous
// Reconciling and Stalled.
func readiness(
	s *fleetv1alpha1.PropagationStatus, p planned, a placement.Summary, problems []placement.Problem, now time.Time,
) report.Readiness {
	if p.Deleting != "" {
		return report.Reconciling(reasonDeleting, p.Deleting)
	}
	var ends []string
	if !missingTooLong(s.Conditions, now) {
		ends = missingObjectReasons()
	}
	if r, ok := placement.Readiness(a.Err, problems, ends...); ok {
		return r
	}
	for _, conditionType := range []string{fleetv1alpha1.PropagationPlaced, fleetv1alpha1.PropagationHealthy} {
		if c := report.GetCondition(s.Conditions, conditionType); c.Status != metav1.ConditionTrue {
			return report.Reconciling(c.Reason, c.Message)
		}
	}
	return report.Ready("all objects are in all clusters and healthy")
}

// missingTooLong reports whether, according to the previous conditions, objects have been missing on the hub for longer than missingTimeout, or
// the source is already stalled because of that.
func missingTooLong(conditions []metav1.Condition, now time.Time) bool {
	return stalledBy(conditions, missingObjectReasons()) || missingTimeLeft(conditions, now) == 0
}

// missingTimeLeft returns how soon objects that are missing on the hub stall the source; 0 if they already do. conditions are the previous ones.
func missingTimeLeft(conditions []metav1.Condition, now time.Time) time.Duration {
	since := missingSince(conditions)
	if since == nil {
		return missingTimeout
	}
	return max(since.Add(missingTimeout).Sub(now), 0)
}

// missingSince returns since when objects have been missing on the hub, according to the previous conditions; nil if none was.
func missingSince(conditions []metav1.Condition) *metav1.Time {
	c := report.GetCondition(conditions, keys.ConditionReconciling)
	if c == nil || c.Status != metav1.ConditionTrue || !slices.Contains(missingObjectReasons(), c.Reason) {
		return nil
	}
	return &c.LastTransitionTime
}

// stalledBy reports whether an object is stalled for one of these reasons.
func stalledBy(conditions []metav1.Condition, reasons []string) bool {
	c := report.GetCondition(conditions, keys.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue && slices.Contains(reasons, c.Reason)
}

// lines returns the status lines about replicas, sorted by kind, name and cluster. If there are too many, those that differ from the desired
// state take precedence.
func lines(parts []fleetv1alpha1.PropagationPart) []fleetv1alpha1.PropagationPart {
	all := slices.Clone(parts)
	slices.SortStableFunc(all, func(a, b fleetv1alpha1.PropagationPart) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Cluster, b.Cluster))
	})
	return placement.Worst(all, func(part fleetv1alpha1.PropagationPart) int {
		switch {
		case part.Granted != part.Desired:
			return 0
		case part.Available < part.Desired:
			return 1
		}
		return 2
	})
}

func clampToInt32(n int) int32 { return int32(min(n, math.MaxInt32)) } //nolint:gosec // It is clamped.

// countPlaces counts the places that are desired, placed, applied and healthy.
func countPlaces(o *observed, p planned, a placement.Summary) counts {
	c := counts{desired: len(p.places)}
	behind := map[string]bool{}
	for place := range p.places {
		cluster, live := row.ClusterOf(place), a.Rows[place]
		isPlaced := live != nil && live.DeletionTimestamp.IsZero()
		isApplied := isPlaced && a.Applied[place] && live.Status.Phase != fleetv1alpha1.WorkBlocked
		// What a cluster reported before it became unreachable proves nothing.
		isHealthy := isApplied && !a.Stale[cluster] &&
			(live.Status.Phase == fleetv1alpha1.WorkHealthy || live.Status.Phase == fleetv1alpha1.WorkApplied)
		if isPlaced {
			c.placed++
		}
		if isApplied {
			c.applied++
		}
		if isHealthy {
			c.healthy++
		} else {
			behind[cluster] = true
		}
	}
	if c.suspended = slices.Sorted(maps.Keys(behind)); slices.ContainsFunc(c.suspended, func(name string) bool { return !o.suspended(name) }) {
		c.suspended = nil
	}
	return c
}

// lagging reports whether a cluster that answers has yet to do what was requested. Places that are kept don't count.
func lagging(p planned, a placement.Summary) bool {
	return slices.ContainsFunc(a.Lagging, func(place string) bool { return !p.kept[place] })
}

// failures returns the places that members report as blocked or failed. Members that don't answer are skipped.
func failures(a placement.Summary) []problem {
	var out []problem
	for _, place := range slices.Sorted(maps.Keys(a.Rows)) {
		live := a.Rows[place]
		if cluster := row.ClusterOf(place); placement.Blocked(live) && !a.Stale[cluster] && live.Spec.Object != nil {
			out = append(out, problem{
				Cluster: cluster, Kind: live.Spec.Object.Kind, Name: live.Spec.Object.Name,
				Reason: cmp.Or(event.Truncate(live.Status.Reason, maxReasonBytes), string(live.Status.Phase)), Message: live.Status.Message,
			})
		}
	}
	return out
}

func sortProblems(all []problem) {
	slices.SortStableFunc(all, func(a, b problem) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
}

// firstProblems returns the first problems, sorted by cluster, kind and name, with truncated messages.
func firstProblems(all []problem) []problem {
	sortProblems(all)
	all = all[:min(len(all), maxProblems)]
	if len(all) == 0 {
		return nil
	}
	out := slices.Clone(all)
	for i := range out {
		out[i].Message = event.Truncate(out[i].Message, maxMessageBytes)
	}
	return out
}

// describe joins problems into a condition message.
func describe(all []problem) string {
	lines := make([]string, 0, len(all))
	for _, one := range all {
		where := strings.TrimSpace(one.Kind + " " + one.Name)
		switch {
		case where != "" && one.Cluster != "":
			where += " in " + one.Cluster + ": "
		case where+one.Cluster != "":
			where += one.Cluster + ": "
		}
		lines = append(lines, where+one.Message)
	}
	return placement.Shorten(lines)
}

package propagation

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Reasons of conditions that say that all is well, or will be.
const (
	reasonPlaced      = "Placed"
	reasonWaiting     = "Waiting"
	reasonHealthy     = "Healthy"
	reasonProgressing = "Progressing"
	reasonSuspended   = "Suspended"
)

// Limits of a status.
const (
	// shown is how many problems a status lists.
	shown = 20
	// reasonLimit and messageLimit limit the bytes of a problem's reason and message, which may come from a member.
	reasonLimit  = 64
	messageLimit = 256
)

// counts are numbers of places.
type counts struct {
	desired, placed, applied, healthy int
	// suspended are the suspended clusters that have unhealthy places. It is empty if other clusters have some too.
	suspended []string
	// stale are the clusters that have a row and don't answer.
	stale map[string]bool
}

// status returns the new status. It doesn't trust what members report: it compares phases and truncates texts.
func status(o *observed, p planned, a placement.Result, now time.Time) fleetv1alpha1.PropagationStatus {
	s := *o.was.DeepCopy()
	c := count(o, p, a)
	placing := slices.Concat(p.problems, fromPlacement(a.Problems))
	failing := failures(a, c.stale)
	s.StaleClusters = number(len(c.stale))
	if p.Deleting == "" {
		s.Objects, s.Clusters, s.Desired = number(p.objects), number(len(p.clusters)), number(c.desired)
		if a.Err == nil && !lags(p, a, c.stale) {
			s.ObservedGeneration = o.source.GetGeneration()
		}
	}
	s.Applied, s.Healthy = number(c.applied), number(c.healthy)
	s.Divided = lines(p.parts)
	s.Problems = first(slices.Concat(placing, failing))
	notes := first(p.notes)
	s.Problems = append(s.Problems, notes[:min(len(notes), shown-len(s.Problems))]...)
	set := func(kind string, is bool, reason, message string) {
		s.Conditions = report.SetCondition(s.Conditions, metav1.Condition{
			Type: kind, Status: report.ConditionStatus(is), Reason: reason, Message: message, ObservedGeneration: o.source.GetGeneration(),
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
		set(fleetv1alpha1.PropagationPlaced, false, reasonWaiting, fmt.Sprintf("%d of %d places have their row", c.placed, c.desired))
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
	case len(c.stale) > 0:
		cluster := slices.Min(slices.Collect(maps.Keys(c.stale)))
		reason, message := o.Silent(cluster)
		set(fleetv1alpha1.PropagationHealthy, false, reason, cluster+": "+message)
	case len(c.suspended) > 0:
		set(fleetv1alpha1.PropagationHealthy, false, reasonSuspended, fmt.Sprintf("%d of %d places are healthy, and nothing is changed in the others: "+
			"spec.suspend has %s", c.healthy, c.desired, event.Names(c.suspended)))
	case c.healthy == c.desired && missing(p.parts) > 0:
		set(fleetv1alpha1.PropagationHealthy, false, reasonProgressing, fmt.Sprintf("%d replicas are not available yet", missing(p.parts)))
	case c.healthy < c.desired || c.desired == 0 && len(o.united) == 0:
		set(fleetv1alpha1.PropagationHealthy, false, reasonProgressing, fmt.Sprintf("%d of %d places are healthy", c.healthy, c.desired))
	default:
		set(fleetv1alpha1.PropagationHealthy, true, reasonHealthy, "")
	}
	problems := make([]placement.Problem, 0, len(placing)+len(failing))
	for _, is := range slices.Concat(placing, failing) {
		problems = append(problems, placement.Problem{Cluster: is.Cluster, Reason: is.Reason, Message: is.Message})
	}
	s.Conditions = report.SetReadiness(s.Conditions, readiness(&s, p, a, problems, now), o.source.GetGeneration(), now)
	if p.Deleting != "" {
		set(fleetv1alpha1.PropagationWithdrawing, true, reasonDeleting, p.Deleting+": "+a.Holders(problems))
	}
	return s
}

// readiness returns whether all objects are in all clusters and healthy. s holds the previous conditions.
func readiness(
	s *fleetv1alpha1.PropagationStatus, p planned, a placement.Result, problems []placement.Problem, now time.Time,
) report.Readiness {
	if p.Deleting != "" {
		return report.Reconciling(reasonDeleting, p.Deleting)
	}
	var ends []string
	if !outlasted(s.Conditions, now) {
		ends = awaited()
	}
	if r, is := placement.Readiness(a.Err, problems, ends...); is {
		return r
	}
	for _, kind := range []string{fleetv1alpha1.PropagationPlaced, fleetv1alpha1.PropagationHealthy} {
		if c := report.GetCondition(s.Conditions, kind); c.Status != metav1.ConditionTrue {
			return report.Reconciling(c.Reason, c.Message)
		}
	}
	return report.Ready("all objects are in all clusters, and healthy")
}

// outlasted reports whether, according to the previous conditions, an object has been reconciling for longer than patience, or is already
// stalled because objects are missing on the hub.
func outlasted(conditions []metav1.Condition, now time.Time) bool {
	if stalledBy(conditions, awaited()) {
		return true
	}
	c := report.GetCondition(conditions, keys.ConditionReconciling)
	return c != nil && c.Status == metav1.ConditionTrue && slices.Contains(awaited(), c.Reason) && !now.Before(c.LastTransitionTime.Add(patience))
}

// stalledBy reports whether an object is stalled for one of these reasons.
func stalledBy(conditions []metav1.Condition, reasons []string) bool {
	c := report.GetCondition(conditions, keys.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue && slices.Contains(reasons, c.Reason)
}

// missing returns how many replicas are not available, out of all that should run in all clusters together.
func missing(parts []fleetv1alpha1.PropagationPart) int {
	short := map[[2]string]int{}
	for _, is := range parts {
		short[[2]string{is.Kind, is.Name}] += int(is.Desired) - int(is.Available)
	}
	sum := 0
	for _, n := range short {
		sum += max(n, 0)
	}
	return sum
}

// lines returns the status lines about replicas, sorted by kind, name and cluster. If there are too many, it returns those that are not as
// desired.
func lines(parts []fleetv1alpha1.PropagationPart) []fleetv1alpha1.PropagationPart {
	all := slices.Clone(parts)
	slices.SortFunc(all, func(a, b fleetv1alpha1.PropagationPart) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Cluster, b.Cluster))
	})
	return placement.Worst(all, func(is fleetv1alpha1.PropagationPart) int {
		switch {
		case is.Granted != is.Desired:
			return 0
		case is.Available < is.Desired:
			return 1
		}
		return 2
	})
}

func number(n int) int32 { return int32(min(n, math.MaxInt32)) } //nolint:gosec // It is cut.

// count counts places.
func count(o *observed, p planned, a placement.Result) counts {
	c := counts{desired: len(p.places), stale: map[string]bool{}}
	for place := range o.Stale() {
		c.stale[row.ClusterOf(place)] = true
	}
	applied := a.Applied(p.Plan)
	behind := map[string]bool{}
	for place := range p.places {
		cluster, live := row.ClusterOf(place), a.Rows[place]
		isPlaced := live != nil && live.DeletionTimestamp.IsZero()
		isApplied := isPlaced && applied[place] && live.Status.Phase != fleetv1alpha1.WorkBlocked
		// What a cluster reported before it became unreachable proves nothing.
		isHealthy := isApplied && !c.stale[cluster] &&
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

// lags reports whether a cluster that answers has yet to do what was requested.
func lags(p planned, a placement.Result, stale map[string]bool) bool {
	for place, ok := range a.Applied(p.Plan) {
		if !ok && !stale[row.ClusterOf(place)] && !p.kept[place] {
			return true
		}
	}
	return false
}

// failures returns the places that members report as blocked or failed. Members that don't answer are skipped.
func failures(a placement.Result, stale map[string]bool) []problem {
	var out []problem
	for _, place := range slices.Sorted(maps.Keys(a.Rows)) {
		live := a.Rows[place]
		if cluster := row.ClusterOf(place); placement.Blocked(live) && !stale[cluster] && live.Spec.Object != nil {
			out = append(out, problem{
				Cluster: cluster, Kind: live.Spec.Object.Kind, Name: live.Spec.Object.Name,
				Reason: cmp.Or(event.Truncate(live.Status.Reason, reasonLimit), string(live.Status.Phase)), Message: live.Status.Message,
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

// first returns the first problems, sorted by cluster, kind and name, with truncated messages.
func first(all []problem) []problem {
	sortProblems(all)
	all = all[:min(len(all), shown)]
	if len(all) == 0 {
		return nil
	}
	out := slices.Clone(all)
	for i := range out {
		out[i].Message = event.Truncate(out[i].Message, messageLimit)
	}
	return out
}

// describe joins problems into a condition message.
func describe(all []problem) string {
	lines := make([]string, 0, len(all))
	for _, is := range all {
		where := strings.TrimSpace(is.Kind + " " + is.Name)
		switch {
		case where != "" && is.Cluster != "":
			where += " in " + is.Cluster + ": "
		case where+is.Cluster != "":
			where += is.Cluster + ": "
		}
		lines = append(lines, where+is.Message)
	}
	return placement.Shorten(lines)
}

// mayWait reports whether a status change may be written later: conditions change only in their messages, and the generation was already
// observed.
func mayWait(before, after fleetv1alpha1.PropagationStatus) bool {
	plain := func(s fleetv1alpha1.PropagationStatus) map[string]string {
		out := map[string]string{}
		for _, c := range s.Conditions {
			out[c.Type] = string(c.Status) + c.Reason
		}
		return out
	}
	return before.ObservedGeneration == after.ObservedGeneration && equality.Semantic.DeepEqual(plain(before), plain(after))
}

package placement

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// Result is the result of applying a Plan.
type Result struct {
	// Rows are the object's rows after the writes, by cluster or Place as in the Fleet.
	Rows map[string]*fleetv1alpha1.MemberWork
	// Missed are the keys of the rows that could not be written as planned. Written are the clusters of the rows that were written.
	Missed  map[string]bool
	Written []string
	// Withheld is true if nothing was written, because something that the rows name could not be written.
	Withheld bool
	// Recheck is how soon to retry what a problem holds up, or 0 if there is nothing to retry.
	Recheck time.Duration
	// Problems are about withdrawals that are paused or paced, and rows that are in the way of others.
	Problems []Problem
	// Err holds the failures for the status, without conflicts.
	Err error
}

// unwritten returns the result of a plan of which nothing is written yet.
func unwritten(f Fleet, p Plan) Result {
	out := Result{Rows: maps.Clone(f.Rows), Missed: make(map[string]bool, len(p.Wants))}
	for _, want := range p.Wants {
		out.Missed[want.Place()] = true
	}
	return out
}

// Summary is what the rows of an object say about it, for the object's status.
type Summary struct {
	Result

	// Stale are the clusters that don't answer, so that their reports are out of date.
	Stale map[string]bool
	// Applied has the clusters, or places, that hold a row or should have one. The value is true if the row is as planned and the member has
	// acknowledged it, so that the cluster has the object's current generation.
	Applied map[string]bool
	// Lagging are the clusters, or places, that answer and have yet to apply their row, sorted.
	Lagging []string
	// Blocked has a problem for each row that its member reports as blocked or failed, sorted by cluster.
	Blocked []Problem
	// Observed is true if all members that answer have the object's current generation. If no row is wanted, the conditions have the reason,
	// unless the report of a cluster is missing.
	Observed bool
}

// Summarize returns the Summary of an object after a plan was applied.
func Summarize(f Fleet, p Plan, r Result) Summary {
	s := Summary{Result: r, Stale: f.Stale(), Applied: applied(p, r), Blocked: blocked(r.Rows)}
	for _, cluster := range p.Frozen {
		s.Stale[cluster] = true
	}
	for place, applied := range s.Applied {
		if !applied && !s.Stale[row.ClusterOf(place)] {
			s.Lagging = append(s.Lagging, place)
		}
	}
	slices.Sort(s.Lagging)
	s.Observed = len(s.Lagging) == 0 && r.Err == nil && (len(p.Wants) > 0 || len(s.Stale) == 0)
	return s
}

// applied returns Summary.Applied. A row that was emptied and is being withdrawn has nothing more to apply. A row that the plan neither writes
// nor withdraws doesn't have this generation.
func applied(p Plan, r Result) map[string]bool {
	out := make(map[string]bool, len(r.Rows))
	for cluster := range r.Rows {
		out[cluster] = false
	}
	for _, w := range p.Withdrawals {
		out[row.Place(w.Row)] = p.Deleting == "" && Acknowledged(w.Row)
	}
	for _, want := range p.Wants {
		live := r.Rows[want.Place()]
		out[want.Place()] = live != nil && Acknowledged(live) && !r.Missed[want.Place()]
	}
	return out
}

// blocked returns Summary.Blocked.
func blocked(rows map[string]*fleetv1alpha1.MemberWork) []Problem {
	var places []string
	for place, live := range rows {
		if Blocked(live) {
			places = append(places, place)
		}
	}
	slices.Sort(places)
	out := make([]Problem, len(places))
	for i, place := range places {
		live := rows[place]
		out[i] = Problem{Cluster: row.ClusterOf(place), Reason: live.Status.Reason, Message: live.Status.Message}
	}
	return out
}

// Holders describes which clusters still hold an object that is being deleted, starting with those that have a problem.
func (r Result) Holders(problems []Problem) string {
	holders, troubled := map[string]bool{}, map[string]string{}
	for place := range r.Rows {
		holders[row.ClusterOf(place)] = true
	}
	for _, p := range problems {
		if holders[p.Cluster] && troubled[p.Cluster] == "" {
			troubled[p.Cluster] = fmt.Sprintf("%s (%s)", p.Cluster, p.Reason)
		}
	}
	var first, names []string
	for _, cluster := range slices.Sorted(maps.Keys(holders)) {
		if name := troubled[cluster]; name != "" {
			first = append(first, name)
		} else {
			names = append(names, cluster)
		}
	}
	names = append(first, names...)
	switch len(names) {
	case 0:
		return "no cluster holds it anymore"
	case 1:
		return "1 cluster still holds it: " + names[0]
	default:
		return fmt.Sprintf("%d clusters still hold it: %s", len(names), event.Names(names))
	}
}

// Lagging says how many clusters have yet to apply their part of an object. It returns "" if all have.
func Lagging(clusters int) string {
	switch clusters {
	case 0:
		return ""
	case 1:
		return "1 cluster has not applied its part yet"
	}
	return fmt.Sprintf("%d clusters have not applied their part yet", clusters)
}

// lineLimit is the maximum number of status lines about subsets. It keeps the status under 64 KiB with thousands of clusters.
const lineLimit = 200

// Worst returns at most lineLimit lines, in their original order: those with the lowest rank, and the first ones if the rank is equal.
func Worst[T any](lines []T, rank func(T) int) []T {
	if len(lines) <= lineLimit {
		return lines
	}
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(lines[a]), rank(lines[b])) })
	order = order[:lineLimit]
	slices.Sort(order)
	out := make([]T, 0, lineLimit)
	for _, i := range order {
		out = append(out, lines[i])
	}
	return out
}

// Plausible limits the numbers of pods that a member reports to plausible values.
type Plausible struct {
	most int32
	// Nonsense becomes true once a number was not plausible.
	Nonsense bool
}

// PlausibleFor returns the limits for a grant: twice as many plus a hundred. This covers surges, terminating pods and earlier grants.
func PlausibleFor(granted int32) *Plausible {
	return &Plausible{most: int32(min(2*int64(granted)+100, math.MaxInt32))} //nolint:gosec // It is clamped.
}

// Cut returns the nearest plausible number.
func (p *Plausible) Cut(n int32) int32 {
	possible := max(min(n, p.most), 0)
	p.Nonsense = p.Nonsense || n != possible
	return possible
}

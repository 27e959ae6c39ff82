package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// Limits limit a rollout. All numbers are numbers of pods over all clusters.
type Limits struct {
	// Desired is how many pods should be available: the object's total, without what maximums exclude.
	Desired int
	// MaxUnavailable is how many of them may be unavailable. With less than 1 no pod is updated.
	MaxUnavailable int
	// Partition is how many pods stay at the old revision.
	Partition int
	// Paused means that no further pod may be updated.
	Paused bool
	// SkipStale means that of clusters that don't answer only what they may still update counts as unavailable, and not all of their pods.
	SkipStale bool
	// First means that there is no other revision, so that clusters that have nothing yet get this one whatever the other limits are.
	First bool
	// Open is the index of the last wave that has begun: see Part.Wave. Parts of later waves are not updated.
	Open int
	// Pods is how many pods of that wave may be at the new revision, and Clusters how many of its clusters may be updated at the same time. 0
	// means no limit.
	Pods, Clusters int
}

// Grant is what the hub stores about a rollout, together with the numbers that it sends to the member. It is read back after a restart.
type Grant struct {
	// Partition is how many pods stay at the old revision.
	Partition int
	// MaxUnavailable is how many pods may be unavailable; nil if the workload's template decides, which is only safe if there is nothing to
	// update.
	MaxUnavailable *int
	// Bounded is true if the bounds are set. Grants of an object whose rollouts were not limited have none.
	Bounded bool
	// UnavailableUpper and UpdatedUpper are the largest number of pods that may be unavailable because of updates, and that may be at the
	// revision of the content, by this and earlier grants that the member may be acting on. They count until this grant is acknowledged.
	UnavailableUpper, UpdatedUpper int
}

// Part is one subset in one cluster. The parts of a cluster share a row: they have the same Current, New, Acked and Dark.
type Part struct {
	allot.Key
	// Wave is the index of the wave that the cluster belongs to; 0 if there are no waves.
	Wave int
	// Replicas is the next grant of replicas, and Sent the last one. Upper is the largest number that may be running.
	Replicas, Sent, Upper int
	// Grant is the stored grant, or the zero value if the cluster has none.
	Grant Grant
	// Current is true if the cluster has been sent the content of the revision that is rolled out.
	Current bool
	// New is true if the cluster has no content yet.
	New bool
	// Acked is true if the member reported the generation of the last grant as observed.
	Acked bool
	// Dark is true if the member doesn't answer. Its grant is not changed.
	Dark bool
	// Whole is true if the workload can't keep some pods at the old revision.
	Whole bool
	// Leaving is true if the subset is to be emptied. Its pods are not updated.
	Leaving bool
	// Pods, Available, Updated and UpdatedAvailable are from the last report. Updated pods are at the revision of the content. Pass them
	// through allot.Clamp first. Available must be at most the Lower of the next grant of replicas: a member that has been told to run fewer
	// may still do so.
	Pods, Available, Updated, UpdatedAvailable int
}

// Step is the next grant of a Part.
type Step struct {
	// Grant must be stored if the row is written. If a row carries several parts, store the Grant of all of them.
	Grant Grant
	// Current is true if the cluster must have the content of the revision that is rolled out. Otherwise it keeps the content it has, or gets
	// the previous one if it has none.
	Current bool
}

// Result is the result of Next.
type Result struct {
	// Steps has one step for each part, in the same order.
	Steps []Step
	// Spent is how many pods are unavailable according to the last reports, and Bound how many may become so by what is granted.
	Spent, Bound int
	// Left is how many pods are still to be updated, without those that the partition keeps.
	Left int
	// Waits says what the rollout waits for, in at most three sentences. It is empty if no pod is left to update.
	Waits []string
}

// Next returns the next grants of a rollout.
//
// Clusters are updated one after another, as the budget allows: first those that have begun, then those with the fewest pods left, then by
// name. A cluster gets as much of the budget as it can use, in chunks of at least a quarter of the budget, because each change is a write of
// its row. A cluster in the middle of an earlier revision stops, and gets the newest one in its turn.
//
// Each step may be taken without the others and in any order. The caller must ensure that the parts show the hub's own last writes.
func Next(l Limits, parts []Part) Result {
	n := newNext(l, parts)
	for _, i := range n.order() {
		n.grow(i)
	}
	n.hold()
	n.share()
	return n.result()
}

// Granted returns how many pods may become unavailable by what is granted, beyond those that are unavailable.
func Granted(parts []Part) int {
	sum := 0
	for _, p := range parts {
		e := exposed(p, true)
		sum += e.total() - e.missing
	}
	return sum
}

// next is the working state of one Next.
type next struct {
	limits Limits
	parts  []Part
	byName []int // indices of parts in the order of their names
	now    []exposure
	steps  []Step

	missing int // sum of missing, and what no cluster has been granted
	bound   int // sum of total
	risk    int // sum of caused
	updated int // sum of what may be at the new revision
	inWave  int // likewise, in the last wave that has begun
	// busy are the clusters of that wave that are being updated.
	busy map[string]bool
	// replicas is the sum of Replicas by cluster.
	replicas map[string]int
	// inFlight is true if a cluster that answers may still begin to update pods, so that some of the budget comes back.
	inFlight bool
}

// exposure is what a part may do.
type exposure struct {
	// missing is how many pods are unavailable. unavailable is how many may be because of updates: the largest maxUnavailable that may be in
	// force, if pods may begin to be updated, and at least inFlight.
	missing, unavailable int
	// begins is how many pods may still begin to be updated. inFlight is how many are updated and not available.
	begins, inFlight int
	// allowed is how many pods may be at the revision of the content, and updated the upper bound of that.
	allowed, updated int
}

// total is the largest number of pods that may be unavailable unless others fail.
func (e exposure) total() int { return e.missing + min(max(e.unavailable-e.missing, 0), e.begins) }

// caused is the largest number of pods that may be unavailable because of updates.
func (e exposure) caused() int { return min(e.unavailable, e.begins+e.inFlight) }

func newNext(l Limits, parts []Part) *next {
	n := &next{limits: l, parts: parts, now: make([]exposure, len(parts)), steps: make([]Step, len(parts)), replicas: map[string]int{}, busy: map[string]bool{}}
	n.limits.MaxUnavailable = max(l.MaxUnavailable, 0)
	granted := 0
	for i, p := range parts {
		e := exposed(p, l.SkipStale)
		n.now[i], n.steps[i] = e, kept(p, e)
		n.missing += e.missing
		n.bound += e.total()
		n.risk += e.caused()
		if p.Current || !p.Acked {
			n.count(p, e.updated)
		}
		if p.Wave == l.Open && p.unfinished() && (!p.Dark || !l.SkipStale) {
			n.busy[p.Cluster] = true
		}
		n.inFlight = n.inFlight || e.begins > 0 && !p.Dark
		n.replicas[p.Cluster] += p.Replicas
		granted += p.Replicas
	}
	for i := range parts {
		n.byName = append(n.byName, i)
	}
	slices.SortFunc(n.byName, n.compare)
	lost := max(l.Desired-granted, 0)
	n.missing += lost
	n.bound += lost
	n.scale()
	return n
}

// exposed returns what a part may do according to its last grants and report.
func exposed(p Part, skipStale bool) exposure {
	e := exposure{missing: max(p.Replicas-p.available(), 0), allowed: max(p.Sent-p.Grant.Partition, 0), unavailable: p.Sent}
	switch {
	case p.Dark && skipStale:
		e.missing = 0
	case p.Dark:
		e.missing = max(p.Upper, p.Sent)
	}
	if p.Grant.MaxUnavailable != nil {
		e.unavailable = *p.Grant.MaxUnavailable
	}
	e.updated = e.allowed
	switch {
	case p.New:
		e.unavailable = 0
	case p.Acked:
		e.updated = max(e.allowed, p.Updated)
		e.begins = p.begins(e.allowed)
		if p.Current && p.Grant.MaxUnavailable != nil {
			e.inFlight = max(min(p.Updated-p.UpdatedAvailable, max(e.unavailable, p.Grant.UnavailableUpper)), 0)
		}
	case p.Grant.Bounded:
		e.unavailable, e.updated = p.Grant.UnavailableUpper, max(p.Grant.UpdatedUpper, e.allowed)
		e.begins = e.updated
	default:
		e.unavailable, e.updated = max(e.unavailable, p.Sent), max(p.Upper, p.Sent)
		e.begins = e.updated
	}
	if e.unavailable == 0 || e.begins == 0 {
		e.unavailable, e.begins = 0, 0
	} else {
		// A member that doesn't know its new replicas yet keeps that many fewer available.
		e.unavailable += max(p.Replicas-p.Sent, 0)
	}
	e.unavailable = max(e.unavailable, e.inFlight)
	return e
}

// available returns how many pods are available. A member may report more than it has.
func (p Part) available() int {
	most := p.Pods
	if p.Current {
		most -= max(p.Updated-p.UpdatedAvailable, 0)
	}
	return max(min(p.Available, most), 0)
}

// begins returns how many pods a part that has acknowledged its grant may begin to update if that many are allowed at the revision. Pods that
// don't exist yet are created at that revision, except that a workload that is updated as a whole may create more old ones while it has some.
// Pods that are to be deleted may be updated ones, so that old ones take their place.
func (p Part) begins(allowed int) int {
	old := max(p.Pods-p.Updated, 0)
	if p.Whole && old > 0 {
		old = max(old, p.Sent)
	}
	return max(min(allowed-p.Updated+max(p.Pods-p.Replicas, 0), old), 0)
}

// done returns how many pods are known to be at the revision that is rolled out.
func (p Part) done() int {
	if p.Current && p.Acked {
		return min(p.Updated, p.Replicas)
	}
	return 0
}

// unfinished reports whether a part that has the new revision has pods that are not at it, or not available.
func (p Part) unfinished() bool {
	return p.Current && !p.Leaving && p.Replicas > 0 && (!p.Acked || p.UpdatedAvailable < p.Replicas)
}

// kept returns the step that continues with what is granted. Of a part that keeps pods at the old revision, as many as before may be updated;
// in others, new replicas are at the revision of the content.
func kept(p Part, e exposure) Step {
	s := Step{Current: p.Current, Grant: Grant{Partition: max(p.Grant.Partition, 0), MaxUnavailable: p.Grant.MaxUnavailable, Bounded: true}}
	if s.Grant.Partition > 0 && !p.Whole {
		s.Grant.Partition = max(p.Replicas-e.allowed, 0)
	}
	if p.Replicas < p.Sent && (p.Grant.Partition > 0 && e.allowed <= p.Updated || p.Grant.Bounded && !p.Acked && e.unavailable == 0) {
		s.Grant.MaxUnavailable = new(0) // Updated pods may be removed, and old ones must not take their place.
	}
	s.bounds(p, e, 0)
	return s
}

// bounds sets the bounds of a step: what earlier grants allow, and this one. unavailable is what this one allows beyond those.
func (s *Step) bounds(p Part, e exposure, unavailable int) {
	s.Grant.UpdatedUpper = max(p.earlier(s.Current, e), p.Replicas-s.Grant.Partition, 0)
	s.Grant.UnavailableUpper = max(e.unavailable, unavailable)
}

// earlier returns how many pods may be at the revision of the content, or begin to be updated, by earlier grants. If the content changes, pods
// at the earlier one don't count.
func (p Part) earlier(current bool, e exposure) int {
	if current && !p.Current && p.Acked {
		return e.begins
	}
	return e.updated
}

// scale lets new replicas of parts that are updated already be at the new revision, as far as the partition allows.
func (n *next) scale() {
	for _, i := range n.byName {
		p, e, s := n.parts[i], &n.now[i], &n.steps[i]
		if n.limits.Partition <= 0 && !n.limitedByWave(p) || !p.Current || p.New || s.Grant.Partition > 0 || p.Replicas <= e.allowed {
			continue
		}
		more := p.Replicas - e.allowed
		if !p.Whole {
			more = min(more, n.room(p))
		}
		e.updated = max(e.updated, e.allowed+more)
		n.count(p, more)
		s.Grant.Partition = p.Replicas - e.allowed - more
		s.bounds(p, *e, 0)
	}
}

// order returns the parts that may be updated further, in the order of their turns.
func (n *next) order() []int {
	var out []int
	for i, p := range n.parts {
		// A part that has not acknowledged another revision may never do so, for example because its member refuses the template.
		may := p.Acked || !p.Current
		if p.New {
			may = !n.limits.First
		}
		shrinks := max(p.Pods, p.Sent) > p.Replicas // It is unknown which pods will be left.
		if may && !p.Dark && !p.Leaving && !shrinks && !n.limits.Paused && !n.closed(p) {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(i, j int) int {
		return cmp.Or(cmp.Compare(n.rank(i), n.rank(j)), cmp.Compare(n.left(i), n.left(j)), n.compare(i, j))
	})
	return out
}

func (n *next) compare(i, j int) int {
	a, b := n.parts[i], n.parts[j]
	return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Subset, b.Subset))
}

// rank is lower for parts that come earlier: first those with updated pods that are not available yet, then those that have begun, then those
// in the middle of an earlier revision.
func (n *next) rank(i int) int {
	p := n.parts[i]
	switch {
	case p.New:
		return 0 // It costs no budget.
	case p.Current && p.Updated > p.UpdatedAvailable:
		return 1
	case p.Current && p.Updated > 0:
		return 2
	case n.now[i].begins > 0:
		return 3
	}
	return 4
}

// left returns how many pods of a part are not at the new revision.
func (n *next) left(i int) int {
	p := n.parts[i]
	return p.Replicas - p.done()
}

// room returns how many further pods of a part may be at the new revision.
func (n *next) room(p Part) int {
	room := math.MaxInt / 2 // It is added to other numbers.
	if n.limits.Partition > 0 {
		room = max(n.limits.Desired-n.limits.Partition-n.updated, 0)
	}
	switch {
	case n.closed(p):
		return 0
	case n.limitedByWave(p):
		return min(room, max(n.limits.Pods-n.inWave, 0))
	}
	return room
}

// count adds pods of a part that may be at the new revision.
func (n *next) count(p Part, pods int) {
	n.updated += pods
	if p.Wave == n.limits.Open {
		n.inWave += pods
	}
}

// closed reports whether the wave of a part has not begun.
func (n *next) closed(p Part) bool { return p.Wave > n.limits.Open }

// limitedByWave reports whether the wave of a part limits how many pods may be at the new revision.
func (n *next) limitedByWave(p Part) bool {
	return n.closed(p) || p.Wave == n.limits.Open && n.limits.Pods > 0
}

// grow lets a part update more pods, if the limits allow.
func (n *next) grow(i int) {
	p, e := n.parts[i], n.now[i]
	if p.New {
		if n.room(p) >= n.replicas[p.Cluster] {
			n.replicas[p.Cluster] -= p.Replicas
			n.take(i, Step{Current: true, Grant: Grant{Bounded: true}}, exposure{missing: e.missing, allowed: p.Replicas, updated: p.Replicas})
		}
		return
	}
	if p.Wave == n.limits.Open && n.limits.Clusters > 0 && !n.busy[p.Cluster] && len(n.busy) >= n.limits.Clusters {
		return
	}
	was, allowed := 0, 0 // How many pods may be at the new revision.
	if p.Current {
		was = max(p.Replicas-n.steps[i].Grant.Partition, p.done())
	}
	over := n.limits.Partition > 0 && n.updated > max(n.limits.Desired-n.limits.Partition, 0)
	if allowed = min(p.Replicas, was+n.room(p)); p.Whole && (allowed < p.Replicas || p.Current && over) {
		return
	}
	// Updated pods that are not available keep their part of maxUnavailable. The others that are missing are old, and are updated first.
	begins, broken, now := allowed, 0, 0
	if p.Current {
		begins, broken = p.begins(allowed), min(max(p.Updated-p.UpdatedAvailable, 0), e.missing)
		if e.begins > 0 {
			now = n.granted(i).unavailable
		}
	}
	budget := n.limits.MaxUnavailable
	limit := min(budget-(n.risk-e.caused()), max(budget-(n.bound-e.total()), e.missing))
	if begins == 0 || e.begins > 0 && limit < e.unavailable {
		return // What is in force is too much already; see hold.
	}
	most, chunk := min(begins+e.missing-broken, limit), min(max(budget/4, 1), begins)
	switch {
	case most <= now && (allowed <= was || now == 0):
		return
	case most <= now:
		most = now
	case now == 0 && n.inFlight && usable(most, e.missing) < chunk:
		return
	case now >= chunk && most-now < chunk && allowed <= was:
		return
	}
	s := Step{Current: true, Grant: Grant{MaxUnavailable: &most, Bounded: true}}
	if !p.Whole {
		s.Grant.Partition = p.Replicas - allowed
	}
	after := exposure{missing: e.missing, inFlight: e.inFlight, unavailable: max(e.unavailable, most), allowed: allowed, updated: max(p.earlier(true, e), allowed)}
	after.begins = after.updated
	n.take(i, s, after)
	n.inFlight = true
}

// usable returns how many pods can be updated at once with maxUnavailable, if that many are missing.
func usable(maxUnavailable, missing int) int {
	if maxUnavailable > missing {
		return maxUnavailable - missing
	}
	return maxUnavailable
}

// take grants a step.
func (n *next) take(i int, s Step, after exposure) {
	p, e := n.parts[i], n.now[i]
	s.bounds(p, e, after.unavailable)
	n.bound += after.total() - e.total()
	n.risk += after.caused() - e.caused()
	n.count(p, after.updated)
	if p.Current || !p.Acked {
		n.count(p, -e.updated)
	}
	if p.Wave == n.limits.Open && !p.New {
		n.busy[p.Cluster] = true
	}
	n.steps[i], n.now[i] = s, after
}

// hold stops updates: all of them if the rollout is paused, those to earlier revisions, and those in waves that have not begun. It takes back
// what was granted beyond the limits, because these were changed, or because pods are removed: the last parts lose theirs. What a part has not
// acknowledged may have happened already, so that taking it back is not enough.
func (n *next) hold() {
	over, newer, inWave := n.risk-n.limits.MaxUnavailable, 0, 0 // How many pods too many.
	if n.limits.Partition > 0 {
		newer = n.updated - max(n.limits.Desired-n.limits.Partition, 0)
	}
	if n.limits.Pods > 0 {
		inWave = n.inWave - n.limits.Pods
	}
	for i, p := range n.parts {
		s, e := &n.steps[i], n.granted(i)
		if e.begins > 0 && !p.Dark && (n.limits.Paused || !s.Current || n.closed(p)) {
			s.Grant.MaxUnavailable = new(0)
			if p.Acked {
				over -= e.caused() - n.granted(i).caused()
			}
		}
	}
	for _, i := range slices.Backward(n.byName) {
		p, s, e := n.parts[i], &n.steps[i], n.granted(i)
		if p.Dark || p.New || e.begins == 0 && min(p.Pods, p.Sent) >= p.Replicas {
			continue
		}
		most := e.unavailable
		many := newer
		if p.Wave == n.limits.Open {
			many = max(newer, inWave)
		}
		if back := min(many, p.Replicas-s.Grant.Partition-p.done()); back > 0 && s.Current {
			if p.Acked {
				newer -= back
				if p.Wave == n.limits.Open {
					inWave -= back
				}
			}
			if p.Whole {
				most = 0
			} else {
				s.Grant.Partition += back
			}
		}
		if e.begins == 0 {
			continue
		}
		if over > 0 {
			most = min(most, max(e.caused()-over, 0))
			if p.Acked {
				over -= e.caused() - max(most, min(e.inFlight, e.caused()))
			}
		}
		// What is removed is missing, unless it runs elsewhere. Its row is written anyway.
		if removed := min(p.Sent-p.Replicas, n.bound-n.limits.MaxUnavailable); removed > 0 {
			most = min(most, max(e.total()-removed, e.missing))
		}
		if most < e.unavailable {
			s.Grant.MaxUnavailable = &most
		}
	}
}

// granted returns what a part may do once it has acknowledged its step.
func (n *next) granted(i int) exposure {
	e, most := n.now[i], n.parts[i].Replicas
	if granted := n.steps[i].Grant.MaxUnavailable; granted != nil {
		most = *granted
	}
	if most == 0 {
		e.begins = 0
	}
	if e.unavailable = e.inFlight; e.begins > 0 {
		e.unavailable = most
	}
	return e
}

// share makes the parts of a cluster agree on its content. Those whose turn has not come keep all of their pods at the old revision.
func (n *next) share() {
	current := map[string]bool{}
	for i, p := range n.parts {
		current[p.Cluster] = current[p.Cluster] || n.steps[i].Current || p.New && n.limits.First
	}
	for i, p := range n.parts {
		s := &n.steps[i]
		if !current[p.Cluster] || s.Current {
			continue
		}
		s.Current = true
		if p.Replicas == 0 && p.Sent == 0 || p.New {
			s.Grant.Partition, s.Grant.MaxUnavailable = 0, nil
		} else {
			s.Grant.MaxUnavailable = new(0)
			if !p.Whole {
				s.Grant.Partition = p.Replicas
			}
		}
		s.bounds(p, n.now[i], 0)
	}
}

func (n *next) result() Result {
	r := Result{Steps: n.steps, Spent: n.missing, Bound: n.bound}
	left := 0
	for i, p := range n.parts {
		if !p.Leaving {
			left += n.left(i)
		}
	}
	r.Left = max(left-max(n.limits.Partition, 0), 0)
	if r.Left > 0 {
		r.Waits = n.waits()
	}
	return r
}

// waits says what the rollout waits for.
func (n *next) waits() []string {
	var running, dark, skipped, missing []string
	darkPods := 0
	for i, p := range n.parts {
		e := n.now[i]
		switch {
		case n.limits.Paused && e.begins > 0:
			running = append(running, p.Cluster)
		case p.Dark && n.limits.SkipStale && n.left(i) > 0:
			skipped = append(skipped, p.Cluster)
		case p.Dark && !n.limits.SkipStale && e.missing > 0:
			dark = append(dark, p.Cluster)
			darkPods += e.missing
		case p.Dark:
		case e.missing > 0:
			missing = append(missing, fmt.Sprintf("%s (%d)", p.Cluster, e.missing))
		}
	}
	if n.limits.Paused {
		if len(running) > 0 {
			return []string{"paused, and some clusters have not acknowledged it: " + names(running)}
		}
		return []string{"paused"}
	}
	var out []string
	if len(dark) > 0 {
		out = append(out, fmt.Sprintf("some clusters don't answer, so that all of their pods (%d) count as unavailable: %s", darkPods, names(dark)))
	}
	if len(skipped) > 0 {
		out = append(out, "some clusters are left behind until they answer: "+names(skipped))
	}
	if len(missing) > 0 {
		out = append(out, "some pods are not available: "+names(missing))
	}
	if n.bound >= n.limits.MaxUnavailable && len(out) < 3 {
		out = append(out, fmt.Sprintf("the budget is used up: %d of at most %d pods are or may become unavailable", n.bound, n.limits.MaxUnavailable))
	}
	if len(out) == 0 {
		out = append(out, "pods are being updated")
	}
	return out
}

// names lists clusters, each once.
func names(clusters []string) string {
	slices.Sort(clusters)
	return event.Names(slices.Compact(clusters))
}

package allot

import (
	"fmt"
	"slices"
)

// Grant is all that the hub stores about a transfer, together with the number that it sends to the member. It is read back after a restart.
type Grant struct {
	// Replicas is the number that was sent last.
	Replicas int
	// Upper and Lower are the largest and smallest number that the member may be acting on, since it may not have received the last grants.
	// Both equal Replicas once the last grant is acknowledged.
	Upper, Lower int
}

// Holding is a subset in a cluster, with what it has now.
type Holding struct {
	Key
	// Target is what Allocate wants there; 0 for a subset or cluster that is no longer wanted.
	Target int
	// Grant is the stored grant, or the zero value if the cluster has none.
	Grant Grant
	// Acked is true if the member reported the generation of the last grant as observed. Without a grant it is true.
	Acked bool
	// Available is the number of available replicas in the last report, even an old one. Pass it through Clamp first. During a rollout, count
	// only what is available at the new revision if only that may take over.
	Available int
	// Dark is true if the member doesn't answer. Its grant is not changed.
	Dark bool
}

// Limits limit a transfer. All of them are absolute numbers of replicas over all clusters.
type Limits struct {
	// Desired is the object's total.
	Desired int
	// Barred is how many of Desired are excluded by a maximum; see Allocation. Only Desired - Barred are kept available, because a maximum also
	// limits what is already running.
	Barred int
	// MaxSurge is how many replicas more than Desired may run during the transfer; see DefaultSurge.
	MaxSurge int
	// MaxUnavailable is how many replicas fewer than Desired - Barred may be available during the transfer.
	MaxUnavailable int
}

// Step is the next grant of a Holding.
type Step struct {
	// Grant must be stored and sent if Changed is true. If one row carries several holdings of a cluster and any of them changed, store the
	// Grant of all of them: the new generation makes all of them unacknowledged.
	Grant
	// Changed is true if Replicas differs from what was sent last. Otherwise nothing needs to be written.
	Changed bool
	// Why says what changes, or what a target waits for. It is empty for a holding that is at its target.
	Why string
}

// maxPlausible is more replicas than one cluster can run: Kubernetes is designed for 150,000 pods in a cluster.
const maxPlausible = 1_000_000

// Clamp limits a count that a member reported: negative counts become 0, and absurdly large ones 1,000,000. plausible is false if the count
// was changed. The cluster should then get a condition.
func Clamp(reported int) (n int, plausible bool) {
	n = max(min(reported, maxPlausible), 0)
	return n, n == reported
}

// DefaultSurge is the default of MaxSurge: a quarter of desired, rounded up, so that every object with replicas can move. MaxUnavailable
// defaults to 0.
func DefaultSurge(desired int) int {
	return (max(desired, 0) + 3) / 4
}

// Transfer returns the next grants on the way to the targets: one step for each holding, in the same order.
//
// It grows clusters, in list order, while the sum of all Upper stays within Desired + MaxSurge. It shrinks clusters while the sum of what is
// certainly available stays at or above Desired - Barred - MaxUnavailable. What is certainly available is the smaller of Lower and the last
// report. A shrink that takes none of these is always allowed, since a member first removes pods that are not available.
//
// With 10 in east, all available, a surge of 3 and a target of 6 and 4: west is granted 3; when 3 are available there, east shrinks to 7;
// when east has acknowledged that, west is granted 4; and so on.
//
//   - An object without replicas gets its first ones at once, since there is room for all of them.
//   - A scale-in without growth is done at once, if enough replicas are available where they remain.
//   - A maximum that was lowered is reached by shrinking, even if no other cluster can grow. Replicas that are unallocated for
//     another reason are kept: of 10 with 2 barred, 8 stay available whatever happens to the clusters.
//   - If no cluster that answers wants replicas while Desired - Barred is above 0, nothing shrinks. If the targets don't add up
//     to that, MaxUnavailable counts as 0: it is for moves, not for losses.
//   - What frozen clusters hold beyond Desired adds to the room, so that the others still reach their targets.
//   - Dark holdings count with what they may be running and what they last reported, and keep their grant.
//
// With MaxSurge and MaxUnavailable both 0 no replica can be moved, and Why says what is waiting for what.
//
// Each step may be taken without the others and in any order. A hub that stops in between plans again. The caller must ensure that the
// holdings show the hub's own last writes, since a grant that was sent and forgotten may be in force. Negative numbers count as 0. Transfer
// doesn't change its input.
func Transfer(l Limits, holdings []Holding) []Step {
	t := newTransfer(l, holdings)
	t.grow()
	t.shrink()
	t.explain()
	return t.steps
}

// transfer is the working state of one Transfer.
type transfer struct {
	holdings  []Holding
	steps     []Step
	available []int // certainly available, by holding

	most     int  // what may run at most
	least    int  // what must be available
	running  int  // sum of Upper
	serving  int  // sum of available
	homeless bool // no cluster that answers wants any of the owed replicas
}

func newTransfer(l Limits, holdings []Holding) *transfer {
	t := &transfer{
		holdings:  slices.Clone(holdings),
		steps:     make([]Step, len(holdings)),
		available: make([]int, len(holdings)),
	}
	desired, wanted := max(l.Desired, 0), 0
	owed := desired - max(min(l.Barred, desired), 0)
	t.homeless = owed > 0
	for i, h := range t.holdings {
		h.Target = max(h.Target, 0)
		t.holdings[i] = h
		t.steps[i].Grant = h.now()
		t.available[i] = max(min(h.Available, t.steps[i].Lower), 0)
		t.running += t.steps[i].Upper
		t.serving += t.available[i]
		wanted += h.Target
		if h.Target > 0 && !h.Dark {
			t.homeless = false
		}
	}
	t.most = max(desired, wanted) + max(l.MaxSurge, 0)
	t.least = owed
	if wanted >= owed {
		t.least -= max(l.MaxUnavailable, 0)
	}
	return t
}

// now returns the stored grant with the bounds that still apply. Bounds that exclude Replicas are ignored.
func (h Holding) now() Grant {
	n := max(h.Grant.Replicas, 0)
	if h.Acked {
		return Grant{Replicas: n, Upper: n, Lower: n}
	}
	return Grant{Replicas: n, Upper: max(h.Grant.Upper, n), Lower: max(min(h.Grant.Lower, n), 0)}
}

// to replaces the number that was sent. The member may act on the old one until it acknowledges the new one.
func (s *Step) to(n int) {
	s.Changed = true
	s.Replicas, s.Upper, s.Lower = n, max(s.Upper, n), min(s.Lower, n)
}

func (t *transfer) grow() {
	for i, h := range t.holdings {
		s := &t.steps[i]
		// Surge that others may use up is not free. What this holding may be running anyway costs nothing.
		others := t.running - s.Upper
		next := min(h.Target, t.most-others)
		if h.Dark || next <= s.Replicas {
			continue
		}
		s.to(next)
		t.running = others + s.Upper
	}
}

func (t *transfer) shrink() {
	for i, h := range t.holdings {
		s := &t.steps[i]
		if h.Dark || h.Target >= s.Replicas || t.homeless {
			continue
		}
		// Shrinking to what is available costs nothing. Below that, others must be able to spare replicas.
		spare := max(t.serving-t.least, 0)
		next := max(h.Target, t.available[i]-spare)
		if next >= s.Replicas {
			continue
		}
		s.to(next)
		after := min(t.available[i], next)
		t.serving -= t.available[i] - after
		t.available[i] = after
	}
}

// explain sets Why of each step, once all steps are known.
func (t *transfer) explain() {
	awaited := t.awaited()
	for i, h := range t.holdings {
		s := &t.steps[i]
		before := max(h.Grant.Replicas, 0)
		switch {
		case h.Dark && h.Target != s.Replicas:
			s.Why = fmt.Sprintf("keeps %d instead of %d in %s: it does not answer", s.Replicas, h.Target, h.Cluster)
		case h.Target > s.Replicas && s.Changed:
			s.Why = fmt.Sprintf("grows from %d to %d of %d in %s: at most %d may run in total", before, s.Replicas, h.Target, h.Cluster, t.most)
		case h.Target > s.Replicas:
			s.Why = fmt.Sprintf("waits to grow from %d to %d in %s: at most %d may run in total, and up to %d may be running",
				before, h.Target, h.Cluster, t.most, t.running)
		case h.Target < s.Replicas:
			s.Why = t.holds(i, awaited)
			if s.Changed {
				s.Why = fmt.Sprintf("shrinks from %d to %d in %s, ", before, s.Replicas, h.Cluster) + s.Why
			}
		case s.Changed && s.Replicas > before:
			s.Why = fmt.Sprintf("grows from %d to %d in %s", before, s.Replicas, h.Cluster)
		case s.Changed:
			s.Why = fmt.Sprintf("shrinks from %d to %d in %s", before, s.Replicas, h.Cluster)
		}
	}
}

// holds describes what the replicas that should leave holding i are waiting for.
func (t *transfer) holds(i int, awaited string) string {
	h, kept := t.holdings[i], t.steps[i].Replicas-t.holdings[i].Target
	if t.homeless {
		return fmt.Sprintf("holds %d in %s: no cluster that answers can take them", kept, h.Cluster)
	}
	missing := t.least - (t.serving - t.available[i] + min(t.available[i], h.Target))
	if awaited == "" {
		return fmt.Sprintf("holds %d in %s: %d would be missing, and no cluster can take them", kept, h.Cluster, missing)
	}
	verb := "are"
	if missing == 1 {
		verb = "is"
	}
	return fmt.Sprintf("holds %d in %s until %d more %s available in %s", kept, h.Cluster, missing, verb, awaited)
}

// awaited names the clusters that have fewer available replicas than they should. Sources that are held are not included.
func (t *transfer) awaited() string {
	var clusters []string
	for i, h := range t.holdings {
		if t.available[i] < h.Target {
			clusters = append(clusters, h.Cluster)
		}
	}
	slices.Sort(clusters)
	return someOf(slices.Compact(clusters))
}

package rollout_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/rollout"
)

const clusters = 3

// cell is a cluster with its row. It contains no generations, so that equal states are found again: known and acked say whether the member has
// received the last row and reported that.
type cell struct {
	stored, acts         small
	known, acked         bool
	available, missing   [3]int8 // pods by revision
	reported, reportedUp int8    // available and updated pods in the last report
	reportedBoth         int8    // updated and available pods in the last report
	stale                bool    // the last report differs from what a report would say now
}

// small is a row.
type small struct{ content, partition, most, unavailableUpper, updatedUpper int8 }

type state struct {
	target int8
	cells  [clusters]cell
}

const template0 = -1 // The template decides.

// explorer visits all states that the events lead to, in any order.
type explorer struct {
	replicas  int8
	budget    int
	revisions int8
	plan      planner
	index     map[state]int32
	states    []state
	before    [][]int32 // The states that lead to each state.
	broke     string
}

func (x *explorer) visit(from int32, s state) {
	for i := range s.cells {
		c := &s.cells[i]
		a, u, b := c.counts()
		c.stale = !c.acked || c.reported != a || c.reportedUp != u || c.reportedBoth != b
	}
	to, known := x.index[s]
	if !known {
		to = int32(len(x.states))
		x.index[s] = to
		x.states = append(x.states, s)
		x.before = append(x.before, nil)
		n := 0
		for _, c := range s.cells {
			n += int(c.missing[0] + c.missing[1] + c.missing[2])
		}
		if n > x.budget && x.broke == "" {
			x.broke = fmt.Sprintf("%d pods are unavailable: %+v, after %+v", n, s, x.states[max(from, 0)])
		}
	}
	if from >= 0 {
		x.before[to] = append(x.before[to], from)
	}
}

// counts returns what the member would report.
func (c cell) counts() (available, updated, both int8) {
	for r := range c.available {
		available += c.available[r]
	}
	return available, c.available[c.acts.content] + c.missing[c.acts.content], c.available[c.acts.content]
}

func (x *explorer) parts(s state) []rollout.Part {
	parts := make([]rollout.Part, clusters)
	n := int(x.replicas)
	for i, c := range s.cells {
		g := rollout.Grant{
			Partition: int(c.stored.partition), Bounded: true,
			UnavailableUpper: int(c.stored.unavailableUpper), UpdatedUpper: int(c.stored.updatedUpper),
		}
		if c.stored.most != template0 {
			g.MaxUnavailable = new(int(c.stored.most))
		}
		parts[i] = rollout.Part{
			Key: allot.Key{Subset: "all", Cluster: string(rune('a' + i))}, Replicas: n, Sent: n, Upper: n, Grant: g,
			Current: c.stored.content == s.target, Acked: c.acked,
			Pods: n, Available: int(c.reported), Updated: int(c.reportedUp), UpdatedAvailable: int(c.reportedBoth),
		}
	}
	return parts
}

// next visits all states that one event leads to.
func (x *explorer) next(at int32) {
	s := x.states[at]
	if s.target+1 < x.revisions {
		after := s
		after.target++
		x.visit(at, after)
	}
	result := x.plan(rollout.Limits{Desired: clusters * int(x.replicas), MaxUnavailable: x.budget}, x.parts(s))
	for i, c := range s.cells {
		try := func(change func(c *cell)) {
			after := s
			change(&after.cells[i])
			x.visit(at, after)
		}
		if step := result.Steps[i]; true { // The hub writes a row, if it differs.
			row := small{content: c.stored.content, partition: int8(step.Grant.Partition), most: template0}
			if step.Current {
				row.content = s.target
			}
			if step.Grant.MaxUnavailable != nil {
				row.most = int8(*step.Grant.MaxUnavailable)
			}
			if row.content != c.stored.content || row.partition != c.stored.partition || row.most != c.stored.most {
				row.unavailableUpper, row.updatedUpper = int8(step.Grant.UnavailableUpper), int8(step.Grant.UpdatedUpper)
				try(func(c *cell) { c.stored, c.known, c.acked = row, false, false })
			}
		}
		if !c.known { // The member receives it.
			try(func(c *cell) { c.acts, c.known = c.stored, true })
		}
		a, u, b := c.counts()
		if c.stale { // A report arrives.
			try(func(c *cell) { c.reported, c.reportedUp, c.reportedBoth, c.acked = a, u, b, c.known })
		}
		for r := range c.missing { // A pod becomes available.
			if c.missing[r] > 0 {
				try(func(c *cell) { c.missing[r]--; c.available[r]++ })
			}
		}
		most := c.acts.most
		if most == template0 {
			most = x.replicas
		}
		for r := range c.missing { // The member begins to update a pod.
			if int8(r) == c.acts.content || u >= x.replicas-c.acts.partition || u-b >= most {
				continue
			}
			if c.missing[r] > 0 {
				try(func(c *cell) { c.missing[r]--; c.missing[c.acts.content]++ })
			} else if c.available[r] > 0 && a-1 >= x.replicas-most {
				try(func(c *cell) { c.available[r]--; c.missing[c.acts.content]++ })
			}
		}
	}
}

func (x *explorer) complete(s state) bool {
	for _, c := range s.cells {
		if s.target != x.revisions-1 || c.available[s.target] != x.replicas || c.stale || !c.acked {
			return false
		}
	}
	return true
}

// explore visits everything. It returns why the plan is wrong.
func (x *explorer) explore() string {
	x.index = map[state]int32{}
	s := state{target: 1}
	for i := range s.cells {
		c := &s.cells[i]
		c.stored.most, c.stored.updatedUpper, c.acts.most = template0, x.replicas, template0
		c.available[0], c.reported, c.reportedUp, c.reportedBoth = x.replicas, x.replicas, x.replicas, x.replicas
		c.known, c.acked = true, true
	}
	x.visit(-1, s)
	for at := int32(0); int(at) < len(x.states) && x.broke == ""; at++ {
		x.next(at)
	}
	if x.broke != "" {
		return x.broke
	}
	// Complete states must be reachable from each state.
	reaches := make([]bool, len(x.states))
	var queue []int32
	for i, s := range x.states {
		if x.complete(s) {
			reaches[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range x.before[at] {
			if !reaches[from] {
				reaches[from] = true
				queue = append(queue, from)
			}
		}
	}
	for i, r := range reaches {
		if !r {
			return fmt.Sprintf("no complete state is reachable from %+v", x.states[i])
		}
	}
	return ""
}

// All interleavings of what hub and members do are visited: no more pods than the budget are ever unavailable, and the rollout can always be
// completed.
func TestI22AllInterleavings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		replicas, revisions int8
		budget              int
	}{
		{2, 2, 1}, {2, 2, 2}, {2, 2, 3}, {2, 3, 1}, {2, 3, 2}, {6, 2, 1}, {6, 2, 2}, {3, 2, 3},
	} {
		t.Run(fmt.Sprintf("replicas=%d/templates=%d/budget=%d", c.replicas, c.revisions-1, c.budget), func(t *testing.T) {
			t.Parallel()
			x := &explorer{replicas: c.replicas, revisions: c.revisions, budget: c.budget, plan: rollout.Next}
			require.Empty(t, x.explore())
			t.Logf("%d states", len(x.states))
		})
	}
}

func TestI22AllInterleavingsFindRogues(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"it takes grants for acknowledged", "it stores no bound of unavailable pods", "the budget is larger by one"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &explorer{replicas: 2, revisions: 3, budget: 2, plan: rogues()[name]}
			require.NotEmpty(t, x.explore())
		})
	}
}

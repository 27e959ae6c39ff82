package sim

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ReplayEnv is the environment variable that says what Test does. Without it, Test tries a fortieth of its Plan, which is
// enough for each change and fast with the race detector on; "all" tries all of it; and the name of a scenario, a slash
// and a schedule, as a failure prints them, replays that one.
const ReplayEnv = "FLOTILLA_SIM"

// fortieth is which part of a Plan is tried each time.
const fortieth = 40

// Plan is how much Test tries, if it is told to try all.
type Plan struct {
	// Sweeps is for how many orders of steps each fault is tried at each write: seeds 0, the orderly one, to Sweeps-1.
	Sweeps int
	// Seeds is how many random schedules are tried beyond that.
	Seeds int
	// Faults are the kinds of faults; nil means all.
	Faults []FaultKind
	// Stall is the longest that the world may stand still until the controller goes on by itself; 0 means any time.
	Stall time.Duration
}

// Test plays the scenarios, each as a parallel subtest: undisturbed, with each fault at each write, and at random. Each
// says in the log how many schedules were tried, and the test says it of all.
func Test(t *testing.T, k Kind, p Plan, scenarios ...Scenario) { //nolint:tparallel // Whether it is parallel itself is up to its caller.
	t.Helper()
	if p.Faults == nil {
		p.Faults = AllFaults()
	}
	replay, text := "", os.Getenv(ReplayEnv)
	if at := strings.LastIndex(text, "/"); at >= 0 {
		replay, text = text[:at], text[at+1:]
	}
	every := fortieth
	if text == "all" {
		every = 1
	}
	var sum atomic.Int64
	t.Cleanup(func() { t.Logf("%d schedules of %d scenarios in sum", sum.Load(), len(scenarios)) })
	for _, s := range scenarios {
		if replay != "" && replay != s.Name {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if replay != "" {
				again(t, k, p, s, text)
				return
			}
			sum.Add(int64(p.play(t, k, s, every)))
		})
	}
}

// play sweeps and draws, and returns how many schedules it tried.
func (p Plan) play(t *testing.T, k Kind, s Scenario, every int) int {
	t.Helper()
	k.Describe = nil // Nobody reads a run that goes well.
	c, err := NewChecker(t.Context(), k, s)
	if err != nil {
		t.Fatal(err)
	}
	c.Limit, c.Every = p.Stall, every
	if err := c.Try(t.Context(), Schedule{}); err != nil {
		t.Fatal(err)
	}
	for seed := range int64(p.Sweeps) {
		for _, err := range c.Sweep(t.Context(), seed, p.Faults) {
			t.Error(err)
		}
	}
	for seed := range int64(p.Seeds / every) {
		if err := c.Random(t.Context(), seed+1, p.Faults); err != nil {
			t.Error(err)
			break
		}
	}
	t.Logf("%s: %d schedules, %d writes and %d calls undisturbed; longest stall: %s in %s",
		s.Name, c.Runs, c.calm.Writes, c.calm.Calls, c.Stall, c.Staller)
	return c.Runs
}

// again replays one schedule and tells its whole story.
func again(t *testing.T, k Kind, p Plan, s Scenario, text string) {
	t.Helper()
	sch, err := ParseSchedule(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewChecker(t.Context(), k, s)
	if err != nil {
		t.Fatal(err)
	}
	c.Limit = p.Stall
	r := c.try(t.Context(), sch)
	t.Logf("%s\n%s", strings.Join(r.Story, "\n"), r.Summary)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
}

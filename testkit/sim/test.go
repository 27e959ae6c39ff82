package sim

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ReplayEnv is the env variable that says how much of its Plan Test tries: a number of schedules, which is shared by its scenarios and spread
// evenly over the plan, or "all". The default is few. The name of a scenario, a slash and a schedule, as printed for a failure, replays that
// schedule.
const ReplayEnv = "FLOTILLA_SIM"

// few is how many schedules are tried without ReplayEnv.
const few = 100

// Plan is how much there is to try.
type Plan struct {
	// Sweeps is the number of orders of steps for which each fault is tried at each write: seeds 0 to Sweeps-1.
	Sweeps int
	// Seeds is how many random schedules are tried in addition.
	Seeds int
	// Faults are the kinds of faults. Nil means all.
	Faults []FaultKind
	// Stall is the longest time in which nothing may happen until a timer makes the controller continue. 0 means no limit.
	Stall time.Duration
	// Share divides the number of schedules that ReplayEnv gives these scenarios: 4 means a quarter of them. Default all. A kind that calls Test
	// several times uses it to divide its schedules.
	Share int
}

// Test plays the scenarios, each as a parallel subtest: undisturbed, with each fault at each write, and at random. Each subtest logs how many
// schedules were tried, and out of how many. The test logs the totals.
func Test(t *testing.T, k Kind, p Plan, scenarios ...Scenario) { //nolint:tparallel // Whether it is parallel itself is up to its caller.
	t.Helper()
	if p.Faults == nil {
		p.Faults = AllFaults()
	}
	text := os.Getenv(ReplayEnv)
	if name, schedule, ok := cutLast(text, "/"); ok {
		for _, s := range scenarios {
			if s.Name == name {
				t.Run(name, func(t *testing.T) { replaySchedule(t, k, p, s, schedule) })
			}
		}
		return
	}
	share, err := parseShare(text, len(scenarios)*max(p.Share, 1))
	if err != nil {
		t.Fatal(err)
	}
	var tried, planned atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d of %d schedules of %d scenarios in sum", tried.Load(), planned.Load(), len(scenarios))
	})
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			n, all := p.play(t, k, s, share)
			tried.Add(int64(n))
			planned.Add(int64(all))
		})
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	at := strings.LastIndex(s, sep)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(sep):], true
}

// parseShare returns how many schedules each scenario tries. 0 means all.
func parseShare(text string, scenarios int) (int, error) {
	n := few
	switch text {
	case "":
	case "all":
		return 0, nil
	default:
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			return 0, fmt.Errorf("%s=%q: want a number of schedules, all, or a scenario, a slash and a schedule", ReplayEnv, text)
		}
	}
	return max(n/max(scenarios, 1), 1), nil
}

// play tries sweeps and random schedules. It returns how many it tried and how many there are. A share of 0 means all.
func (p Plan) play(t *testing.T, k Kind, s Scenario, share int) (tried, planned int) {
	t.Helper()
	k.Describe = nil // Stories are printed only for failures.
	c, err := NewChecker(t.Context(), k, s)
	if err != nil {
		t.Fatal(err)
	}
	planned = c.planned(p)
	c.Limit, c.Every = cmp.Or(s.Stall, p.Stall), 1
	if share > 0 {
		c.Every = max((planned+share-1)/share, 1)
	}
	if err := c.Try(t.Context(), Schedule{}); err != nil {
		t.Fatal(err)
	}
	for seed := range int64(p.Sweeps) {
		for _, err := range c.Sweep(t.Context(), seed, p.Faults) {
			t.Error(err)
		}
	}
	for seed := range int64(p.Seeds / c.Every) {
		if err := c.Random(t.Context(), seed+1, p.Faults); err != nil {
			t.Error(err)
			break
		}
	}
	t.Logf("%s: %d of %d schedules, %d writes and %d calls undisturbed; longest stall: %s in %s",
		s.Name, c.Runs, planned, c.calm.Writes, c.calm.Calls, c.Stall, c.Staller)
	return c.Runs, planned
}

// replaySchedule replays one schedule and logs its whole story.
func replaySchedule(t *testing.T, k Kind, p Plan, s Scenario, text string) {
	t.Helper()
	sch, err := ParseSchedule(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewChecker(t.Context(), k, s)
	if err != nil {
		t.Fatal(err)
	}
	c.Limit = cmp.Or(s.Stall, p.Stall)
	r := c.try(t.Context(), sch)
	t.Logf("%s\n%s", strings.Join(r.Story, "\n"), r.Summary)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"time"
)

const (
	// staleSteps and lateSteps are how long Stale and LateWrite last in a sweep.
	staleSteps = 25
	lateSteps  = 12
	// shownSteps and shownWrites are how many lines of a story are printed for a failure.
	shownSteps  = 60
	shownWrites = 10
)

// Result is the result of a run.
type Result struct {
	// Err is the failure, or nil.
	Err error
	// Summary is Kind.Summary of the final world.
	Summary string
	// Story describes what happened, one line per event.
	Story []string
	// Writes and Calls are how many the controller sent.
	Writes, Calls int
	// Stall is the longest time, by the world's clock, in which nothing happened until a timer made the controller continue.
	Stall time.Duration
	// WriteLines describes the writes of the controller, one line each.
	WriteLines []string
	// Sent counts the writes by verb and kind, as "patch pod/status". Rejected writes are also counted by reason, as "patch pod: Conflict".
	Sent map[string]int
}

// Run plays a scenario once. The same schedule gives the same result. It is safe for concurrent use.
func Run(ctx context.Context, k Kind, s Scenario, sch Schedule) Result {
	w, err := newWorld(k, s, sch)
	if err != nil {
		return Result{Err: err}
	}
	r := Result{Err: w.run(ctx)}
	r.Stall = w.longest
	r.Writes, r.Calls = w.writes, w.calls
	if r.Err == nil {
		r.Summary = k.Summary(w)
		r.Err = w.checkIdle(ctx)
	}
	r.Story = w.story
	r.WriteLines, r.Sent = w.written, w.sent
	return r
}

// RunError is a failed run.
type RunError struct {
	Scenario string
	Schedule Schedule
	Result   Result
}

// Error returns the failure, how to replay it, and the last steps.
func (f *RunError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v\nreplay: %s='%s/%s'\n", f.Scenario, f.Result.Err, ReplayEnv, f.Scenario, f.Schedule)
	tail := func(title string, lines []string, n int) {
		skipped := max(len(lines)-n, 0)
		fmt.Fprintf(&b, "%s (%d before):\n  %s\n", title, skipped, strings.Join(lines[skipped:], "\n  "))
	}
	tail("last steps", f.Result.Story, shownSteps)
	tail("last writes of the controller", f.Result.WriteLines, shownWrites)
	return b.String()
}

// Unwrap returns the failure.
func (f *RunError) Unwrap() error { return f.Result.Err }

// ErrOtherEnd means that a run came to rest in a state that differs from the undisturbed run's.
var ErrOtherEnd = errors.New("the final state differs from that without faults")

// ErrNotAgain means that the same schedule gave two different runs, so failures can't be replayed.
var ErrNotAgain = errors.New("the same schedule gave another run")

// ErrUndeclared means that the run changes when the cache has more fields than the kind declares.
var ErrUndeclared = errors.New("the controller reads a field that is not among its Fields")

// ErrStalled means that nothing happened for too long until a timer made the controller continue.
var ErrStalled = errors.New("the world stood still")

// Checker runs schedules of one scenario and compares them with the undisturbed run.
type Checker struct {
	kind     Kind
	scenario Scenario
	calm     Result
	// Limit is the longest Result.Stall that a run may have. 0 means no limit.
	Limit time.Duration
	// Every keeps only each n-th schedule of a sweep. 0 and 1 keep all.
	Every int
	// Runs is how many schedules were tried.
	Runs int
	// Stall is the longest Result.Stall of a successful run, and Staller its schedule.
	Stall   time.Duration
	Staller Schedule
}

// NewChecker plays the scenario without faults, twice, and once with a cache of whole objects. If that fails, the error is a *RunError.
func NewChecker(ctx context.Context, k Kind, s Scenario) (*Checker, error) {
	c := &Checker{kind: k, scenario: s, calm: Run(ctx, k, s, Schedule{})}
	again := Run(ctx, k, s, Schedule{})
	if c.calm.Err == nil && !slices.Equal(c.calm.Story, again.Story) {
		c.calm.Err = fmt.Errorf("%w: %s", ErrNotAgain, firstDifference(c.calm.Story, again.Story))
	}
	k.whole = true
	whole := Run(ctx, k, s, Schedule{})
	if c.calm.Err == nil && !slices.Equal(c.calm.Story, whole.Story) {
		c.calm.Err = fmt.Errorf("%w: %s", ErrUndeclared, firstDifference(c.calm.Story, whole.Story))
	}
	c.Runs = 3
	if c.calm.Err != nil {
		return nil, &RunError{Scenario: s.Name, Result: c.calm}
	}
	return c, nil
}

func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%q, then %q", a[i], b[i])
		}
	}
	return "one is longer"
}

// Calm returns the undisturbed run.
func (c *Checker) Calm() Result { return c.calm }

// Try runs one schedule and compares its final state. A failure is reduced by leaving out faults that it doesn't need.
func (c *Checker) Try(ctx context.Context, sch Schedule) error {
	r := c.try(ctx, sch)
	if r.Stall > c.Stall && r.Err == nil {
		c.Stall, c.Staller = r.Stall, sch
	}
	if r.Err == nil {
		return nil
	}
	for i := range slices.Backward(sch.Faults) {
		less := sch.without(i)
		if got := c.try(ctx, less); got.Err != nil {
			sch, r = less, got
		}
	}
	return &RunError{Scenario: c.scenario.Name, Schedule: sch, Result: r}
}

func (c *Checker) try(ctx context.Context, sch Schedule) Result {
	c.Runs++
	r := Run(ctx, c.kind, c.scenario, sch)
	switch {
	case r.Err != nil:
	case r.Summary != c.calm.Summary:
		r.Err = fmt.Errorf("%w:\n%s\ninstead of\n%s", ErrOtherEnd, r.Summary, c.calm.Summary)
	case c.Limit > 0 && r.Stall > c.Limit:
		r.Err = fmt.Errorf("%w: for %s, and at most %s may be", ErrStalled, r.Stall, c.Limit)
	}
	return r
}

// Sweep tries each kind of fault at each write, or call, of the run that the seed gives without faults. It continues after a failure, and
// returns the first one for each kind of fault.
func (c *Checker) Sweep(ctx context.Context, seed int64, kinds []FaultKind) []error {
	calm := c.calm
	if seed != 0 {
		if calm = c.try(ctx, Schedule{Seed: seed}); calm.Err != nil {
			return []error{c.Try(ctx, Schedule{Seed: seed})}
		}
	}
	var failed []error
	count := 0
	for _, kind := range kinds {
		n := calm.Writes
		if kind.ofCalls() {
			n = calm.Calls
		}
		for at := 1; at <= n; at++ {
			if count++; c.Every > 1 && count%c.Every != 0 {
				continue
			}
			if err := c.Try(ctx, Schedule{Seed: seed, Faults: []Fault{newFault(kind, at, nil)}}); err != nil {
				failed = append(failed, err)
				break
			}
		}
	}
	return failed
}

// planned estimates how many schedules a plan has. A sweep with another order of steps may have more or fewer writes.
func (c *Checker) planned(p Plan) int {
	faults := 0
	for _, kind := range p.Faults {
		if kind.ofCalls() {
			faults += c.calm.Calls
		} else {
			faults += c.calm.Writes
		}
	}
	return p.Sweeps*faults + p.Seeds
}

// newFault returns a fault with the default length, or with a random one.
func newFault(kind FaultKind, at int, rng *rand.Rand) Fault {
	f := Fault{Kind: kind, At: at}
	switch kind { //nolint:exhaustive // The others have no length.
	case Stale:
		f.Steps = staleSteps
	case LateWrite:
		f.Steps = lateSteps
	}
	if rng != nil && f.Steps > 0 {
		f.Steps = 1 + rng.Intn(3*f.Steps)
	}
	return f
}

// Random tries a random schedule for the seed: the order of steps, and up to four faults.
func (c *Checker) Random(ctx context.Context, seed int64, kinds []FaultKind) error {
	rng := rand.New(rand.NewSource(seed)) //nolint:gosec // The seed makes a run reproducible.
	s := Schedule{Seed: seed}
	if len(kinds) > 0 {
		for range rng.Intn(5) {
			s.Faults = append(s.Faults, newFault(kinds[rng.Intn(len(kinds))], 1+rng.Intn(c.calm.Writes*5/4+1), rng))
		}
	}
	return c.Try(ctx, s)
}

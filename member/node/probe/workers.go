package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"k8s.io/utils/clock"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/member/node/background"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
)

// spread is the period over which the first attempts of probes without a result are distributed if they would all begin at the same time.
const spread = 2 * time.Second

// workers are the probes of this process. Each ends with the context that it was started with.
type workers struct {
	background.Pool[key, progress]

	// attempt makes one attempt; see prober.
	attempt func(context.Context, *job) (attempt, error)
	clock   clock.Clock
	// random returns a random part of a duration.
	random func(time.Duration) time.Duration
	// found is called when a result has changed.
	found func()
	// reportErrored is called when a probe could not be run, for the first of consecutive failures.
	reportErrored func(*job, error)

	// execs limits the commands that run at once.
	execs *slots
}

// worker is one probe; update tells others of its progress.
type worker struct {
	progress

	update func(func(*progress))
}

// begin starts a worker, replacing the one with the same key.
func (s *workers) begin(ctx context.Context, p progress) {
	s.Begin(ctx, p.Key, p, func(ctx context.Context, update func(func(*progress))) { s.run(ctx, &worker{p, update}) })
	active.Set(float64(s.Len()))
}

// end stops workers, and attempts under way.
func (s *workers) end(keys []key) {
	s.End(keys...)
	active.Set(float64(s.Len()))
}

// run makes attempts until ctx ends. An attempt that takes longer than the period is followed by the next one immediately.
func (s *workers) run(ctx context.Context, w *worker) {
	var row row
	failing := false
	for wait := s.first(w); background.Pause(ctx, s.clock, wait); {
		release, err := s.awaitTurn(ctx, &w.job)
		if err != nil {
			return
		}
		began := s.clock.Now()
		a, err := s.attemptOnce(ctx, &w.job)
		release()
		if ctx.Err() != nil {
			return
		}
		measureAttempt(&w.job, a, err, s.clock.Since(began))
		switch {
		case err != nil:
			if !failing && !errors.Is(err, cri.ErrNoRuntime) { // The keeper reports that once for the node.
				s.reportErrored(&w.job, err)
			}
			failing = true
			s.explain(w, err)
		default:
			failing = false
			if row.add(a.success) >= threshold(&w.job, a.success) {
				s.store(w, a)
			}
		}
		wait = max(0, period(&w.probe)-s.clock.Since(began))
	}
}

// awaitTurn waits until a command may run, and returns a function to call after it. An error means that ctx has ended.
func (s *workers) awaitTurn(ctx context.Context, j *job) (func(), error) {
	if j.probe.Exec == nil {
		return func() {}, nil
	}
	return s.execs.take(ctx, j.namespace)
}

// first returns when to make the first attempt. A container that was just started is probed after the initial delay. Other probes are spread,
// because a restarted daemon must not run all probes at once.
func (s *workers) first(w *worker) time.Duration {
	if left := w.started.Add(delay(&w.probe)).Sub(s.clock.Now()); left > 0 {
		return left
	}
	over := period(&w.probe)
	if w.State == appsv1alpha1.ProbeUnknown {
		over = min(over, spread)
	}
	return s.random(over)
}

// attemptOnce makes one attempt. The runtime ends a command by killing it; anything else is ended here.
func (s *workers) attemptOnce(ctx context.Context, j *job) (attempt, error) {
	if j.probe.Exec != nil {
		return s.attempt(ctx, j)
	}
	limit := timeout(&j.probe)
	ctx, cancel := background.WithTimeout(ctx, s.clock, limit, fmt.Errorf("no response within %s", limit))
	defer cancel()
	return s.attempt(ctx, j)
}

// store stores a result, unless the worker has been replaced.
func (s *workers) store(w *worker, a attempt) {
	state := appsv1alpha1.ProbeFailed
	if a.success {
		state = appsv1alpha1.ProbeSucceeded
	}
	s.set(w, state, a.message)
}

// explain sets the message of a probe without a result to why there is none. An existing result stays.
func (s *workers) explain(w *worker, err error) {
	if w.State == appsv1alpha1.ProbeUnknown {
		s.set(w, appsv1alpha1.ProbeUnknown, podprobe.Message(fmt.Sprintf("the probe could not be run: %v", err)))
	}
}

func (s *workers) set(w *worker, state appsv1alpha1.ProbeState, message string) {
	if w.State == state && w.Message == message {
		return
	}
	w.Result = podprobe.Result{State: state, Message: message, At: s.clock.Now()}
	w.update(func(p *progress) { p.Result = w.Result })
	s.found()
}

// row counts consecutive equal results.
type row struct {
	success bool
	n       int32
}

// add returns how many consecutive results are equal, including this one.
func (r *row) add(success bool) int32 {
	if r.n == 0 || r.success != success {
		*r = row{success: success}
	}
	if r.n < math.MaxInt32 {
		r.n++
	}
	return r.n
}

// threshold returns how many consecutive results change the state.
func threshold(j *job, success bool) int32 {
	if success {
		return max(1, j.probe.SuccessThreshold)
	}
	return max(1, j.probe.FailureThreshold)
}

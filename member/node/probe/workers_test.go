package probe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// answer is the result of an attempt.
type answer struct {
	attempt
	err error
}

// bench has workers whose attempts the test answers.
type bench struct {
	*workers

	t       *testing.T
	clock   *clocktesting.FakeClock
	asked   chan *job
	answers chan answer
	changes chan struct{}
	errors  chan error
	stop    context.CancelFunc
	life    context.Context //nolint:containedctx // That of the workers.
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		t: t, clock: clocktesting.NewFakeClock(noon), asked: make(chan *job, 9), answers: make(chan answer, 9), changes: make(chan struct{}, 9),
		errors: make(chan error, 9),
	}
	b.workers = &workers{
		clock: b.clock, random: func(d time.Duration) time.Duration { return d / 2 }, found: func() { b.changes <- struct{}{} },
		reportErrored: func(_ *job, err error) { b.errors <- err }, execs: newSlots(),
		attempt: func(ctx context.Context, j *job) (attempt, error) {
			b.asked <- j
			select {
			case a := <-b.answers:
				return a.attempt, a.err
			case <-ctx.Done():
				return attempt{message: context.Cause(ctx).Error()}, nil
			}
		},
	}
	b.life, b.stop = context.WithCancel(t.Context())
	t.Cleanup(func() {
		b.stop()
		b.Wait()
	})
	return b
}

// work starts a worker for a container that was started at noon.
func (b *bench) work(probe corev1.Probe, r podprobe.Result) progress {
	w := progress{job{Key: key{Pod: "u1", Name: "m#a"}, container: "app", id: "containerd://app-1", started: noon, probe: probe}, r}
	b.begin(b.life, w)
	return w
}

// step advances time until the worker makes an attempt, and checks that it makes none a second earlier. Then it gives the answer.
func (b *bench) step(d time.Duration, a answer) {
	b.t.Helper()
	b.wait()
	b.clock.Step(d - time.Second)
	b.wait()
	require.Empty(b.t, b.asked, "the attempt is too early")
	b.clock.Step(time.Second)
	<-b.asked
	b.answers <- a
}

// wait waits until the worker waits.
func (b *bench) wait() {
	b.t.Helper()
	require.Eventually(b.t, b.clock.HasWaiters, testtimeout.Scale(time.Minute), time.Millisecond)
}

func (b *bench) result() podprobe.Result { return b.States()[key{Pod: "u1", Name: "m#a"}].Result }

func tcp(p corev1.Probe) corev1.Probe {
	p.TCPSocket = &corev1.TCPSocketAction{}
	return p
}

var (
	yes = answer{attempt: attempt{success: true, message: "ok"}}
	no  = answer{attempt: attempt{message: "no"}}
)

func TestAResultIsThatOfSoManyInARow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.work(command("x"), podprobe.Result{State: unknown, At: noon})
	b.end([]key{{Pod: "u1", Name: "m#a"}})
	b.Wait()

	probe := command("x")
	probe.InitialDelaySeconds, probe.PeriodSeconds, probe.SuccessThreshold, probe.FailureThreshold = 30, 10, 2, 3
	b.work(probe, podprobe.Result{State: unknown, At: noon})
	b.step(30*time.Second, yes)
	b.step(10*time.Second, no)
	b.step(10*time.Second, yes)
	require.Equal(t, unknown, b.result().State, "one success is below the threshold of two")
	b.step(10*time.Second, yes)
	<-b.changes
	require.Equal(t, podprobe.Result{State: success, Message: "ok", At: after(60)}, b.result())
	b.step(10*time.Second, no)
	b.step(10*time.Second, no)
	require.Equal(t, success, b.result().State)
	b.step(10*time.Second, no)
	<-b.changes
	require.Equal(t, podprobe.Result{State: failure, Message: "no", At: after(90)}, b.result())
	b.step(10*time.Second, no)
	b.step(10*time.Second, answer{attempt: attempt{message: "still"}})
	<-b.changes
	require.Equal(t, podprobe.Result{State: failure, Message: "still", At: after(110)}, b.result())
	require.Empty(t, b.changes, "an unchanged result is not a change")
}

func TestNumbersThatAreNotGivenAreOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.work(command("x"), podprobe.Result{State: unknown, At: noon})
	b.step(time.Second, no)
	<-b.changes
	require.Equal(t, failure, b.result().State)
	b.step(time.Second, yes)
	<-b.changes
	require.Equal(t, success, b.result().State)
}

// The daemon is restarted, or a PodProbeMarker selects many running pods.
func TestProbesOfContainersThatRunAreSpread(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		known podprobe.Result
		want  time.Duration
	}{
		"spread over the period if a result is known": {podprobe.Result{State: success, At: noon}, 10 * time.Second},
		"spread over a short time without a result":   {podprobe.Result{State: unknown, At: noon}, spread / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.clock.Step(time.Hour)
			probe := command("x")
			probe.PeriodSeconds = 20
			b.work(probe, tc.known)
			b.step(tc.want, yes)
		})
	}
}

func TestAProbeThatCannotBeRunLeavesTheState(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	broken := errors.New("executable file not found")
	b.work(command("x"), podprobe.Result{State: unknown, At: noon})
	b.step(time.Second, answer{err: broken})
	<-b.changes
	require.ErrorIs(t, <-b.errors, broken)
	require.Equal(t, podprobe.Result{State: unknown, Message: "the probe could not be run: executable file not found", At: after(1)}, b.result(), "the status has the reason")
	b.step(time.Second, answer{err: broken})
	b.step(time.Second, yes)
	<-b.changes
	require.Empty(t, b.errors, "consecutive errors are reported once")
	b.step(time.Second, answer{err: broken})
	require.ErrorIs(t, <-b.errors, broken)
	b.step(time.Second, answer{err: cri.ErrNoRuntime})
	b.step(time.Second, yes)
	b.step(time.Second, answer{err: cri.ErrNoRuntime})
	b.wait()
	require.Empty(t, b.errors, "a missing runtime is reported by the keeper")
	require.Equal(t, podprobe.Result{State: success, Message: "ok", At: after(3)}, b.result())
	require.Empty(t, b.changes)
}

func TestAnAttemptThatHangsEndsByItsTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	probe := tcp(corev1.Probe{TimeoutSeconds: 5, PeriodSeconds: 3})
	b.work(probe, podprobe.Result{State: unknown, At: noon})
	b.wait()
	b.clock.Step(time.Second)
	<-b.asked
	b.wait()
	b.clock.Step(5 * time.Second)
	<-b.changes
	require.Equal(t, podprobe.Result{State: failure, Message: "no response within 5s", At: after(6)}, b.result())
	<-b.asked // It is already late.
	b.answers <- yes
	<-b.changes
	require.Equal(t, success, b.result().State)
}

func TestAWorkerEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.work(tcp(corev1.Probe{}), podprobe.Result{State: unknown, At: noon})
	b.wait()
	b.clock.Step(time.Second)
	<-b.asked
	b.end([]key{w.Key, {Pod: "u2"}})
	b.Wait()
	require.Empty(t, b.States())
	require.Empty(t, b.changes, "an attempt that was cut off has no result")

	// A worker that replaces it has its own job.
	b.work(tcp(corev1.Probe{}), podprobe.Result{State: unknown, At: noon})
	b.begin(b.life, progress{job{Key: w.Key, id: "containerd://app-2", started: after(10), probe: tcp(corev1.Probe{})}, podprobe.Result{State: unknown}})
	b.wait()
	b.clock.Step(10 * time.Second)
	require.Equal(t, "containerd://app-2", (<-b.asked).id)
	require.Len(t, b.States(), 1)
}

func TestManyInARowAreCounted(t *testing.T) {
	t.Parallel()
	r := row{success: true, n: 1<<31 - 2}
	require.EqualValues(t, 1<<31-1, r.add(true))
	require.EqualValues(t, 1<<31-1, r.add(true))
	require.EqualValues(t, 1, r.add(false))
}

package lab

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

// screen is a writer that can be read while it is being written.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestPrinterWritesALineForEachStageAndOneForAllThatRun(t *testing.T) {
	t.Parallel()
	clock, out := clocktesting.NewFakeClock(testTime()), &screen{}
	p := NewPrinter(out, false, clock)
	p.Note("no kwok in the PATH")
	kube, managers := p.Stage("build kube"), p.Stage("make build")
	clock.Step(plainEvery)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "...") }, soon, tick)
	clock.Step(1500 * time.Millisecond)
	kube(nil)
	managers(errors.New("no"))
	p.Close()
	require.Equal(t, ""+
		"          no kwok in the PATH\n"+
		"          build kube 30s, make build 30s ...\n"+
		"   31.5s  build kube: ok\n"+
		"   31.5s  make build: FAILED\n", out.String())
}

func TestPrinterRunsACounterOnATerminal(t *testing.T) {
	t.Parallel()
	clock, out := clocktesting.NewFakeClock(testTime()), &screen{}
	p := NewPrinter(out, true, clock)
	east, west := p.Stage("east: etcd"), p.Stage("west: etcd")
	clock.Step(liveEvery)
	require.Eventually(t, func() bool {
		return strings.HasSuffix(out.String(), clearLine+noWrap+"          east: etcd 1s, west: etcd 1s"+wrap)
	}, soon, tick)
	p.Note("a note")
	require.True(t, strings.HasSuffix(out.String(),
		clearLine+"          a note\n"+clearLine+noWrap+"          east: etcd 1s, west: etcd 1s"+wrap), "%q", out)
	east(nil)
	require.True(t, strings.HasSuffix(out.String(), "    1.0s  east: etcd: ok\n"+clearLine+noWrap+"          west: etcd 1s"+wrap), "%q", out)
	west(nil)
	p.Close()
	require.True(t, strings.HasSuffix(out.String(), "    1.0s  west: etcd: ok\n"+clearLine), "%q", out)
}

func TestProgressPassesErrorsOnAndMayBeNil(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	require.ErrorIs(t, Progress(nil).prefix("east").run("etcd", func() error { return boom }), boom)

	var got []string
	p := Progress(func(stage string) func(error) {
		return func(err error) { got = append(got, stage+" "+err.Error()) }
	})
	require.ErrorIs(t, p.prefix("east").run("etcd", func() error { return boom }), boom)
	require.Equal(t, []string{"east: etcd boom"}, got)
}

// Package testtimeout scales the timeouts of tests with the speed of the machine: what takes seconds on an idle machine takes longer on a
// slow or busy one, and with the race detector.
//
//	require.Eventually(t, done, testtimeout.Scale(30*time.Second), 100*time.Millisecond)
//
// Waiting for something that must not happen is not scaled.
package testtimeout

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// factorEnv is the env variable with the factor, 1 or more, for a machine that is known to be slow.
	factorEnv = "FLOTILLA_TEST_TIMEOUTS"
	// most is the largest factor that a measurement can give. A test that waits in vain has to fail before its package times out.
	most = 4
	// idle is how long the measured work takes on an idle machine.
	idle = 40 * time.Millisecond
)

// Scale returns the timeout to use on this machine, given the timeout on an idle one. The machine is measured on the first call.
func Scale(d time.Duration) time.Duration { return time.Duration(float64(d) * factor()) }

var factor = sync.OnceValue(func() float64 { //nolint:gochecknoglobals // It is measured once.
	f, err := choose(os.Getenv(factorEnv), measure)
	if err != nil {
		panic(err) //nolint:forbidigo // Whoever set it wants to know at once.
	}
	return f
})

// choose returns the given factor, or else the measured one, within bounds.
func choose(given string, measure func() time.Duration) (float64, error) {
	if given == "" {
		return min(max(1, float64(measure())/float64(idle)), most), nil
	}
	f, err := strconv.ParseFloat(given, 64)
	if err != nil || !(f >= 1 && f <= 1000) {
		return 0, fmt.Errorf("%s is %q, must be a number from 1 to 1000", factorEnv, given)
	}
	return f, nil
}

// measure returns how long a fixed amount of work takes on two processors at once.
func measure() time.Duration {
	began := clock.RealClock{}.Now()
	var done sync.WaitGroup
	for range 2 {
		done.Go(func() {
			x := uint64(1)
			for range rounds {
				x ^= x << 13
				x ^= x >> 7
				x ^= x << 17
			}
			runtime.KeepAlive(x)
		})
	}
	done.Wait()
	return clock.RealClock{}.Since(began)
}

// rounds is an amount of work that takes about idle.
const rounds = 20_000_000

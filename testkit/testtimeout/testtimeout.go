// Package testtimeout scales the timeouts of tests with the machine: what takes seconds on an idle machine takes longer on a slow or
// a busy one, and with the race detector.
//
//	require.Eventually(t, done, testtimeout.Scale(30*time.Second), 100*time.Millisecond)
//
// How long a test waits for something that must not happen is not scaled.
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
	// factorEnv is the environment variable with the factor, for a machine that is known to be slow: 1 or more.
	factorEnv = "FLOTILLA_TEST_TIMEOUTS"
	// most is the largest factor that is measured. A test that waits in vain has to fail before its package times out.
	most = 4
	// idle is what work takes on an idle machine.
	idle = 40 * time.Millisecond
)

// Scale returns the timeout on this machine of what has this timeout on an idle one. The machine is measured at the first call.
func Scale(d time.Duration) time.Duration { return time.Duration(float64(d) * factor()) }

var factor = sync.OnceValue(func() float64 { //nolint:gochecknoglobals // It is measured once.
	f, err := choose(os.Getenv(factorEnv), measure)
	if err != nil {
		panic(err) //nolint:forbidigo // Whoever set it wants to know at once.
	}
	return f
})

// choose returns the factor that is given, or else the one that is measured, within bounds.
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

// rounds take about idle.
const rounds = 20_000_000

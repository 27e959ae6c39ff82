package fleet

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Dice returns a source of random numbers for a test. The test logs its seed, and FLOTILLA_E2E_SEED sets it.
func Dice(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := uint64(Mark().UnixNano())
	if text := os.Getenv("FLOTILLA_E2E_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("FLOTILLA_E2E_SEED: %v", err)
		}
	}
	tb.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // They need not be unpredictable.
}

package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// skips records that a test would be skipped.
type skips struct {
	testing.TB
	skipped bool
}

func (s *skips) Skip(...any) { s.skipped = true }

func TestWhatIsNotForTheGateIsSkippedInTheGateAlone(t *testing.T) {
	for _, tc := range []struct {
		name, tier string
		skipped    bool
	}{
		{"make test", "gate", true},
		{"make test-all", "all", false},
		{"go test by hand", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(tierEnv, tc.tier)
			s := skips{TB: t}
			Full(&s)
			require.Equal(t, tc.skipped, s.skipped)
		})
	}
}

package seconds

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	require.Equal(t, 30*time.Second, Duration(30))
	require.Equal(t, -time.Second, Duration(-1))
	for _, n := range []int64{most, 10_000_000_000, math.MaxInt64} {
		require.Equal(t, 876_000*time.Hour, Duration(n))
		require.Positive(t, Duration(n)+Duration(n), "two of them are no overflow")
	}
}

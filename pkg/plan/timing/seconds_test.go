package timing

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSeconds(t *testing.T) {
	t.Parallel()
	require.Equal(t, 30*time.Second, Seconds(30))
	require.Equal(t, -time.Second, Seconds(-1))
	for _, n := range []int64{most, 10_000_000_000, math.MaxInt64} {
		require.Equal(t, 876_000*time.Hour, Seconds(n))
		require.Positive(t, Seconds(n)+Seconds(n), "two of them don't overflow")
	}
}

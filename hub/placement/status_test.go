package placement

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlausibleNumbersOfAHugeGrantDoNotOverflow(t *testing.T) {
	t.Parallel()
	p := PlausibleFor(math.MaxInt32)
	require.EqualValues(t, math.MaxInt32, p.Cut(math.MaxInt32))
	require.False(t, p.Nonsense)
	require.EqualValues(t, 104, PlausibleFor(2).Cut(math.MaxInt32))
}

package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSooner(t *testing.T) {
	t.Parallel()
	for _, tt := range [][3]time.Duration{{0, 0, 0}, {0, 3, 3}, {3, 0, 3}, {2, 3, 2}} {
		require.Equal(t, tt[2], Sooner(tt[0], tt[1]))
	}
}

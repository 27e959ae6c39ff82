package timing

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPassed(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		since *metav1.Time
		n     *int64
		after time.Duration
		due   bool
		in    time.Duration
	}{
		{name: "without a time", n: new(int64(1)), after: time.Hour},
		{name: "without a number", since: &metav1.Time{Time: since}, after: time.Hour},
		{name: "before", since: &metav1.Time{Time: since}, n: new(int64(60)), after: 59 * time.Second, in: time.Second},
		{name: "at the time", since: &metav1.Time{Time: since}, n: new(int64(60)), after: time.Minute, due: true},
		{name: "at once", since: &metav1.Time{Time: since}, n: new(int64(0)), due: true},
		{name: "never, practically", since: &metav1.Time{Time: since}, n: new(int64(math.MaxInt64)), in: Seconds(math.MaxInt64)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			due, in := Passed(tt.since, tt.n, since.Add(tt.after))
			require.Equal(t, tt.due, due)
			require.Equal(t, tt.in, in)
		})
	}
}

func TestSooner(t *testing.T) {
	t.Parallel()
	for _, tt := range [][3]time.Duration{{0, 0, 0}, {0, 3, 3}, {3, 0, 3}, {2, 3, 2}} {
		require.Equal(t, tt[2], Sooner(tt[0], tt[1]))
	}
}

package metric_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

func TestAttack31SeriesOfNamesThatOthersChooseHaveAnEnd(t *testing.T) {
	t.Parallel()
	c := metric.NewBounded(prometheus.CounterOpts{Name: "refusals", Help: "x"}, 3, "name", "user")
	for i := range 10 {
		c.WithLabelValues("kept", "ann").Inc()
		c.WithLabelValues(fmt.Sprint("web-", i), "ann").Inc()
	}
	require.Equal(t, 3, testutil.CollectAndCount(c))
	require.InDelta(t, 10, testutil.ToFloat64(c.WithLabelValues("kept", "ann")), 0, "a series that is counted often stays")
	require.InDelta(t, 1, testutil.ToFloat64(c.WithLabelValues("web-9", "ann")), 0)
	require.InDelta(t, 0, testutil.ToFloat64(c.WithLabelValues("web-0", "ann")), 0, "an evicted series starts at 0")
}

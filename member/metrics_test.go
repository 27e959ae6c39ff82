package member

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

func TestTheLeaderIsReportedUnderTheNameOfOpenKruise(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	require.NoError(t, metric.Register(r, leader))
	leads := func() float64 {
		all, err := r.Gather()
		if err != nil || len(all) != 1 || all[0].GetName() != "kruise_manager_is_leader" || len(all[0].GetMetric()[0].GetLabel()) > 0 {
			return -1
		}
		return all[0].GetMetric()[0].GetGauge().GetValue()
	}
	require.Zero(t, leads())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- reportLeader(ctx) }()
	require.Eventually(t, func() bool { return leads() == 1 }, testtimeout.Scale(10*time.Second), time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.Zero(t, leads())
}

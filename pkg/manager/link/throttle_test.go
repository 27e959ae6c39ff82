package link_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

func TestThrottle(t *testing.T) {
	t.Parallel()
	allowed := func(p *link.Throttle) (n int) {
		for n < 100 && p.TryAccept() {
			n++
		}
		return n
	}
	p := link.NewThrottle()
	require.InDelta(t, 20, p.QPS(), 0)
	require.GreaterOrEqual(t, allowed(p), 40, "the default burst")

	p.Set(&fleetv1alpha1.ClusterLimits{QPS: 1, Burst: 3})
	require.InDelta(t, 1, p.QPS(), 0)
	require.LessOrEqual(t, allowed(p), 4, "a lower burst applies at once")

	p.Set(nil)
	require.InDelta(t, 20, p.QPS(), 0, "removed limits leave the defaults")
}

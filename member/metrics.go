package member

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// leader has the same name as in OpenKruise.
var leader = prometheus.NewGauge(prometheus.GaugeOpts{
	Namespace: "kruise",
	Subsystem: "manager",
	Name:      "is_leader",
	Help:      "1 in the replica that reconciles, 0 in the others.",
})

// reportLeader reports this replica as the leader until ctx ends. A manager runs it only in the leader.
func reportLeader(ctx context.Context) error {
	leader.Set(1)
	<-ctx.Done()
	leader.Set(0)
	return nil
}

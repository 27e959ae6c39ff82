package propagation

import "github.com/flotilla-io/flotilla/hub/placement"

var (
	measure        = placement.NewRowMetrics("hub_propagation", sourceKind)
	measureCluster = placement.NewRowMetrics("hub_clusterpropagation", clusterSourceKind)
)

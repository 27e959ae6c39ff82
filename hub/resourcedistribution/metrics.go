package resourcedistribution

import "github.com/flotilla-io/flotilla/hub/placement"

var measure = placement.NewRowMetrics("hub_resourcedistribution", sourceKind)

package containerrecreaterequest

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// Values of the label step. The label reason holds the reason of the step.
const (
	stepHold     = "Hold"
	stepUnready  = "MakeUnready"
	stepReady    = "MakeReady"
	stepReport   = "Report"
	stepComplete = "Complete"
	stepRelease  = "Release"
	stepRemove   = "Remove"
)

// Reasons of steps.
const (
	reasonGrace     = "UnreadyGracePeriod"
	reasonOver      = "Complete"
	reasonDeleted   = "Deleted"
	reasonTTL       = "TTL"
	reasonSnapshot  = "Snapshot"
	reasonUnwatched = "RequestGone"
)

var measure = metric.NewPlanning("containerrecreaterequest", kind)

// register adds the metrics of this package to r.
func register(r prometheus.Registerer) error { return measure.Register(r) }

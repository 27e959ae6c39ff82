package nodepodprobe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the label step.
const (
	stepCreate = "Create"
	stepWrite  = "Write"
	stepRemove = "Remove"
)

// Values of the label reason.
const (
	reasonProbes    = "Probes"
	reasonNode      = "NodeGone"
	reasonContainer = "NoContainer"
	reasonPort      = "NoPort"
	// reasonUnreadable: the annotation with the liveness probes of a pod is none.
	reasonUnreadable = "UnreadableLiveness"
	// reasonRoom: the probes of the pod or the namespace would take too much room.
	reasonRoom = "NoRoom"
)

var measure = metric.NewPlanning("nodepodprobe", kind)

// Register adds the metrics of this package to r.
func Register(r prometheus.Registerer) error { return measure.Register(r) }

package nodepodprobe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
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
	// reasonUnreadable: the annotation with a pod's liveness probes can't be parsed.
	reasonUnreadable = "UnreadableLiveness"
	// reasonRoom: the probes of the pod or the namespace would take too much space.
	reasonRoom = "NoRoom"
)

var measure = metric.NewPlanning("nodepodprobe", kind)

// register adds the metrics of this package to r.
func register(r prometheus.Registerer) error { return measure.Register(r) }

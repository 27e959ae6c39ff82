package persistentpodstate

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/metric"
)

// Values of the labels step and reason.
const (
	stepRecord = "Record"
	stepForget = "Forget"
	stepCreate = "Create"
	stepUpdate = "Update"
	stepDelete = "Delete"

	reasonReady      = "Ready"
	reasonScaled     = "Scaled"
	reasonAnnotation = "Annotation"
)

var measure = metric.NewPlanning("persistentpodstate", kind)

// Register adds the metrics of this package and of package expect to r.
func Register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

func count(p planned) {
	measure.Steps.WithLabelValues(stepRecord, reasonReady).Add(float64(len(p.recorded)))
	reason := reasonScaled
	if p.inactive != nil {
		reason = p.inactive.reason
		measure.Waits.WithLabelValues(reason).Inc()
	}
	measure.Steps.WithLabelValues(stepForget, reason).Add(float64(len(p.forgotten)))
	switch g := p.generation; {
	case g.create != nil:
		measure.Steps.WithLabelValues(stepCreate, reasonAnnotation).Inc()
	case g.update != nil:
		measure.Steps.WithLabelValues(stepUpdate, reasonAnnotation).Inc()
	case g.remove:
		measure.Steps.WithLabelValues(stepDelete, reasonAnnotation).Inc()
	}
}

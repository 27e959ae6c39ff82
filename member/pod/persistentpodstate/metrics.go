package persistentpodstate

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
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

// register adds the metrics of this package and of package expect to r.
func register(r prometheus.Registerer) error {
	return errors.Join(expect.Register(r), measure.Register(r))
}

func count(p planned) {
	measure.Count(stepRecord, reasonReady, len(p.recorded))
	reason := reasonScaled
	if p.inactive != nil {
		reason = p.inactive.reason
		measure.Wait(reason)
	}
	measure.Count(stepForget, reason, len(p.forgotten))
	switch g := p.generation; {
	case g.create != nil:
		measure.Count(stepCreate, reasonAnnotation, 1)
	case g.update != nil:
		measure.Count(stepUpdate, reasonAnnotation, 1)
	case g.remove:
		measure.Count(stepDelete, reasonAnnotation, 1)
	}
}

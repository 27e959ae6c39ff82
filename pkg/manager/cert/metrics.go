package cert

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

var (
	expiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metric.Namespace, Subsystem: "cert", Name: "expiry_timestamp_seconds",
		Help: "When the webhook certificate (kind serving) or the newest CA (kind ca) expires, in seconds since 1970.",
	}, []string{metric.LabelKind})

	steps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "cert", Name: "rotation_steps_total",
		Help: "Certificate rotation steps that this replica took.",
	}, []string{metric.LabelStep})
)

// RegisterMetrics adds the package's collectors to r.
func RegisterMetrics(r prometheus.Registerer) error { return metric.Register(r, expiry, steps) }

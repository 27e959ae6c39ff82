package resourcedistribution

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/metric"
)

var (
	planSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: "hub_resourcedistribution", Name: "plan_seconds",
		Help:    "Time that the hub took to plan the next step of a ResourceDistribution.",
		Buckets: metric.PlanBuckets(),
	})
	rowWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "hub_resourcedistribution", Name: "row_writes_total",
		Help: "Rows that the hub wrote for ResourceDistributions, by cluster.",
	}, []string{metric.LabelCluster})
	waits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "hub_resourcedistribution", Name: "waits_total",
		Help: "Reconciles that ended early because they have to wait for something, by reason.",
	}, []string{metric.LabelReason})
)

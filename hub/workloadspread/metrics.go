package workloadspread

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-io/flotilla/pkg/metric"
)

var (
	planSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metric.Namespace, Subsystem: "hub_workloadspread", Name: "plan_seconds",
		Help:    "Time that the hub took to divide the workload of a WorkloadSpread.",
		Buckets: metric.PlanBuckets(),
	})
	rowWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "hub_workloadspread", Name: "row_writes_total",
		Help: "Rows that the hub wrote for WorkloadSpreads and their workloads, by cluster.",
	}, []string{metric.LabelCluster})
	waits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metric.Namespace, Subsystem: "hub_workloadspread", Name: "waits_total",
		Help: "Reconciles that ended early because they have to wait for something, by reason.",
	}, []string{metric.LabelReason})
)

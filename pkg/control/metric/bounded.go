package metric

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/lru"
)

const (
	// MostNamed is the maximum number of series of a counter whose labels contain names that tenants choose, such as those of objects and users.
	MostNamed = 500
	// MostClusters is the maximum number of series of a counter that has one series per cluster.
	MostClusters = 10_000
)

// Bounded is a counter with labels whose values are unbounded, because others choose them. It keeps the series that were counted most recently:
// dropped series start again at 0, as after a restart. It may be used concurrently.
type Bounded struct {
	vec *prometheus.CounterVec

	mu    sync.Mutex
	known *lru.Cache
}

// NewBounded returns a counter with at most that many series.
func NewBounded(o prometheus.CounterOpts, most int, labels ...string) *Bounded {
	vec := prometheus.NewCounterVec(o, labels)
	return &Bounded{vec: vec, known: lru.NewWithEvictionFunc(most, func(_ lru.Key, values any) {
		vec.DeleteLabelValues(values.([]string)...)
	})}
}

// WithLabelValues returns the counter of a series. Use it immediately.
func (b *Bounded) WithLabelValues(values ...string) prometheus.Counter {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known.Add(strings.Join(values, "\x00"), values)
	return b.vec.WithLabelValues(values...)
}

// Describe implements prometheus.Collector.
func (b *Bounded) Describe(to chan<- *prometheus.Desc) { b.vec.Describe(to) }

// Collect implements prometheus.Collector.
func (b *Bounded) Collect(to chan<- prometheus.Metric) { b.vec.Collect(to) }

package cri

import (
	"context"
	"path"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// seconds is the duration of each call of a runtime. Stops take as long as it takes the containers to end.
var seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Namespace: metric.Namespace, Subsystem: "cri", Name: "call_seconds",
	Help:    "How long calls of the container runtime took, by verb and gRPC code.",
	Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
}, []string{"verb", "code"})

// Register adds the metrics of this package to r.
func Register(r prometheus.Registerer) error { return metric.Register(r, seconds) }

// measured is an interceptor that measures the duration of each call.
func measured(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	var err error
	timer := prometheus.NewTimer(prometheus.ObserverFunc(func(s float64) {
		seconds.WithLabelValues(path.Base(method), status.Code(err).String()).Observe(s)
	}))
	err = invoke(ctx, method, req, reply, conn, opts...)
	timer.ObserveDuration()
	return err
}

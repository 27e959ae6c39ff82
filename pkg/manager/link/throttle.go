package link

import (
	"context"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/flowcontrol"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// The limits of a MemberCluster that sets none, equal to the defaults of its fields.
const (
	defaultQPS   = 20
	defaultBurst = 40
)

// Throttle limits the rate of an agent's requests to its member, and can be changed while they run. It may be used concurrently.
type Throttle struct{ limiter *rate.Limiter }

var _ flowcontrol.RateLimiter = (*Throttle)(nil)

// NewThrottle returns a Throttle with the defaults of a MemberCluster's limits.
func NewThrottle() *Throttle { return &Throttle{rate.NewLimiter(defaultQPS, defaultBurst)} }

// Set sets the limits from a MemberCluster; nil, or 0 in a field, means the default.
func (t *Throttle) Set(l *fleetv1alpha1.ClusterLimits) {
	qps, burst := int32(defaultQPS), int32(defaultBurst)
	if l != nil && l.QPS > 0 {
		qps = l.QPS
	}
	if l != nil && l.Burst > 0 {
		burst = l.Burst
	}
	t.limiter.SetLimit(rate.Limit(qps))
	t.limiter.SetBurst(int(burst))
}

// TryAccept reports whether a request may be sent now.
func (t *Throttle) TryAccept() bool { return t.limiter.Allow() }

// Accept waits until a request may be sent.
func (t *Throttle) Accept() { _ = t.limiter.Wait(context.TODO()) } //nolint:forbidigo // the interface has no context; client-go calls Wait

// Stop does nothing, because there is nothing to stop.
func (t *Throttle) Stop() {}

// QPS returns the current rate.
func (t *Throttle) QPS() float32 { return float32(t.limiter.Limit()) }

// Wait waits until a request may be sent or ctx is done.
func (t *Throttle) Wait(ctx context.Context) error { return t.limiter.Wait(ctx) }

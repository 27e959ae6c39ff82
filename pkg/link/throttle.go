package link

import (
	"context"
	"fmt"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// Requests to a member that a MemberCluster without limits allows, as its fields' defaults say.
const (
	defaultQPS   = 20
	defaultBurst = 40
)

// Throttle bounds an agent's requests to its member, and can be changed while they run. It may be used concurrently.
type Throttle struct{ limiter *rate.Limiter }

var _ flowcontrol.RateLimiter = (*Throttle)(nil)

// NewThrottle returns a Throttle with the defaults of a MemberCluster's limits.
func NewThrottle() *Throttle { return &Throttle{rate.NewLimiter(defaultQPS, defaultBurst)} }

// Set takes the limits of a MemberCluster; nil, and 0 in a field, mean the defaults.
func (p *Throttle) Set(l *fleetv1alpha1.ClusterLimits) {
	qps, burst := int32(defaultQPS), int32(defaultBurst)
	if l != nil && l.QPS > 0 {
		qps = l.QPS
	}
	if l != nil && l.Burst > 0 {
		burst = l.Burst
	}
	p.limiter.SetLimit(rate.Limit(qps))
	p.limiter.SetBurst(int(burst))
}

// TryAccept reports whether a request may go now.
func (p *Throttle) TryAccept() bool { return p.limiter.Allow() }

// Accept waits until a request may go.
func (p *Throttle) Accept() { _ = p.limiter.Wait(context.TODO()) } //nolint:forbidigo // the interface has no context; client-go calls Wait

// Stop does nothing: there is nothing to end.
func (p *Throttle) Stop() {}

// QPS is the rate in force.
func (p *Throttle) QPS() float32 { return float32(p.limiter.Limit()) }

// Wait waits until a request may go or ctx ends.
func (p *Throttle) Wait(ctx context.Context) error { return p.limiter.Wait(ctx) }

// Throttled is member with clients of its own that keep to pace. The cache is member's: its watches are shared with the
// controllers that run beside the agent.
func Throttled(member cluster.Cluster, pace *Throttle) (cluster.Cluster, error) {
	config := rest.CopyConfig(member.GetConfig())
	config.RateLimiter = pace
	c, err := client.New(config, client.Options{Scheme: member.GetScheme(), Mapper: member.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make the agent's client of the member: %w", err)
	}
	return throttled{Cluster: member, config: config, client: c}, nil
}

type throttled struct {
	cluster.Cluster
	config *rest.Config
	client client.Client
}

func (p throttled) GetConfig() *rest.Config     { return p.config }
func (p throttled) GetClient() client.Client    { return p.client }
func (p throttled) GetAPIReader() client.Reader { return p.client }

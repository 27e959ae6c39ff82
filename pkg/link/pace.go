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

// Pace bounds an agent's requests to its member, and can be changed while they run. It may be used concurrently.
type Pace struct{ limiter *rate.Limiter }

var _ flowcontrol.RateLimiter = (*Pace)(nil)

// NewPace returns a Pace with the defaults of a MemberCluster's limits.
func NewPace() *Pace { return &Pace{rate.NewLimiter(defaultQPS, defaultBurst)} }

// Set takes the limits of a MemberCluster; nil, and 0 in a field, mean the defaults.
func (p *Pace) Set(l *fleetv1alpha1.ClusterLimits) {
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

// TryAccept tells whether a request may go now.
func (p *Pace) TryAccept() bool { return p.limiter.Allow() }

// Accept waits until a request may go.
func (p *Pace) Accept() { _ = p.limiter.Wait(context.TODO()) } //nolint:forbidigo // the interface has no context; client-go calls Wait

// Stop does nothing: there is nothing to end.
func (p *Pace) Stop() {}

// QPS is the rate in force.
func (p *Pace) QPS() float32 { return float32(p.limiter.Limit()) }

// Wait waits until a request may go or ctx ends.
func (p *Pace) Wait(ctx context.Context) error { return p.limiter.Wait(ctx) }

// Paced is member with clients of its own that keep to pace. The cache is member's: its watches are shared with the
// controllers that run beside the agent.
func Paced(member cluster.Cluster, pace *Pace) (cluster.Cluster, error) {
	config := rest.CopyConfig(member.GetConfig())
	config.RateLimiter = pace
	c, err := client.New(config, client.Options{Scheme: member.GetScheme(), Mapper: member.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make the agent's client of the member: %w", err)
	}
	return paced{Cluster: member, config: config, client: c}, nil
}

type paced struct {
	cluster.Cluster
	config *rest.Config
	client client.Client
}

func (p paced) GetConfig() *rest.Config     { return p.config }
func (p paced) GetClient() client.Client    { return p.client }
func (p paced) GetAPIReader() client.Reader { return p.client }

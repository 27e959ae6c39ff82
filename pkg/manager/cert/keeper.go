package cert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/flotilla-io/flotilla/pkg/control/writeback"
)

// Defaults of Options.
const (
	DefaultCAValidity      = 10 * 365 * 24 * time.Hour
	DefaultServingValidity = 365 * 24 * time.Hour
	DefaultSettle          = 5 * time.Minute
)

// Bounds of the wait after a reconcile that wrote or failed. The wait doubles until a reconcile has nothing to do, so that a conflict with
// another writer of our configurations costs few requests.
const (
	retryMin = 50 * time.Millisecond
	retryMax = time.Minute
)

// ErrNoCertificate is the error of a TLS handshake before the first certificate has been read.
var ErrNoCertificate = errors.New("no serving certificate yet")

// Service is the Service of the webhook server inside the cluster.
type Service struct {
	Namespace, Name string
	// Port is the port of the Service, not of the container.
	Port int32
}

// Options are the options of a Keeper.
type Options struct {
	// Secret holds the certificates. It is created if it is missing; its namespace is not.
	Secret types.NamespacedName
	// External: the Secret belongs to another component, and is never written.
	External bool
	// Service is how API servers call us, unless URL is set.
	Service Service
	// URL is https://host:port, without a path, for a manager outside the cluster. It replaces Service.
	URL string
	// Mutating and Validating name the webhook configurations that are entirely ours.
	Mutating, Validating []string
	// CRDs name the CustomResourceDefinitions whose versions we convert.
	CRDs []string
	// CAValidity, ServingValidity and Settle are as in Policy; 0 means the default.
	CAValidity, ServingValidity, Settle time.Duration
	// Clock returns the time and wakes the Keeper when a step is due; nil means the system clock.
	Clock clock.Clock
}

// Keeper keeps the certificate of one replica up to date and serves it. Its methods may be called concurrently.
type Keeper struct {
	client  client.WithWatch
	options Options
	policy  Policy
	wake    chan struct{}
	// pace limits how often the bundle is written back to objects that another writer changes.
	pace writeback.Pace

	mu      sync.RWMutex
	serving *tls.Certificate
	// ready is why we can't be called; nil if we can.
	ready error
	// seen is the bundle that all configurations had when they were last read, and since is when that began. since is zero while one of them has
	// another bundle.
	seen  string
	since time.Time
}

// New returns a Keeper. The client must not read from a cache: a Keeper reads few objects, rarely, and before caches can start (they may need
// our conversion webhook).
func New(c client.WithWatch, o Options) (*Keeper, error) {
	o.CAValidity = orDefault(o.CAValidity, DefaultCAValidity)
	o.ServingValidity = orDefault(o.ServingValidity, DefaultServingValidity)
	o.Settle = orDefault(o.Settle, DefaultSettle)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.CAValidity <= 3*o.ServingValidity {
		return nil, fmt.Errorf("certificate validity: a CA of %s must outlive three serving certificates of %s",
			o.CAValidity, o.ServingValidity)
	}
	if o.ServingValidity < 2*o.Settle {
		return nil, fmt.Errorf("certificate validity: a serving certificate of %s must outlive twice the settling time of %s",
			o.ServingValidity, o.Settle)
	}
	name := o.Service.Name + "." + o.Service.Namespace + ".svc"
	if o.URL != "" {
		u, err := ParseURL(o.URL)
		if err != nil {
			return nil, err
		}
		name = canonical(u.Hostname())
	}
	return &Keeper{
		client:  c,
		options: o,
		policy: Policy{
			Names: []string{name}, CAValidity: o.CAValidity, ServingValidity: o.ServingValidity, Settle: o.Settle,
		},
		wake:  make(chan struct{}, 1),
		ready: ErrNoCertificate,
	}, nil
}

// ParseURL accepts valid values of Options.URL: https, a host, a port, and nothing else.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("webhook URL: %w", err)
	}
	port, perr := strconv.ParseUint(u.Port(), 10, 16)
	bare := url.URL{Scheme: "https", Host: net.JoinHostPort(u.Hostname(), u.Port())}
	if perr != nil || port == 0 || u.Hostname() == "" || bare.String() != text {
		return nil, fmt.Errorf("webhook URL %q: must be https://host:port with nothing after it", text)
	}
	return u, nil
}

// Start maintains the certificate until ctx is done. It returns nil: errors are logged, reported by Ready and retried.
func (k *Keeper) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("cert")
	var watches sync.WaitGroup
	defer watches.Wait()
	for _, w := range k.watched() {
		watches.Go(func() { k.watch(ctx, w) })
	}
	retry := retryMin
	for {
		wait, err := k.reconcile(ctx)
		if err != nil && ctx.Err() == nil {
			log.Error(err, "Could not maintain the webhook certificate", "after", retry)
		}
		if err != nil || wait == again {
			wait, retry = retry, min(2*retry, retryMax)
		} else {
			retry = retryMin
		}
		if !k.sleep(ctx, wait) {
			return nil
		}
	}
}

// sleep waits for an event or, if wait is not 0, for that long. It returns false if ctx is done.
func (k *Keeper) sleep(ctx context.Context, wait time.Duration) bool {
	var due <-chan time.Time
	if wait > 0 {
		t := k.options.Clock.NewTimer(wait)
		defer t.Stop()
		due = t.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-k.wake:
	case <-due:
	}
	return true
}

// GetCertificate is for tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.serving == nil {
		return nil, ErrNoCertificate
	}
	return k.serving, nil
}

// Ready is a readiness check: the certificate exists, and every configuration that calls us has the bundle.
func (k *Keeper) Ready(*http.Request) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.ready
}

// TLS configures a webhook server to serve the Keeper's certificate; for webhook.Options.TLSOpts.
func (k *Keeper) TLS(c *tls.Config) {
	c.GetCertificate = k.GetCertificate
	c.MinVersion = tls.VersionTLS12
}

// Server returns a webhook server that runs the Keeper alongside. A manager starts webhook servers before its caches, and that is when the
// certificate is needed: the first list of a cache may call our conversion webhook. The server keeps answering for some seconds after its
// context is done, and closes its connections gracefully.
func (k *Keeper) Server(host string, port int) webhook.Server {
	return server{
		drainingServer: newDrainingServer(
			webhook.NewServer(webhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){k.TLS}}), k.options.Clock),
		keeper: k,
	}
}

type server struct {
	*drainingServer

	keeper *Keeper
}

// Start runs both until ctx is done or the server fails.
func (s server) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kept := make(chan error, 1)
	go func() { kept <- s.keeper.Start(ctx) }()
	err := s.drainingServer.Start(ctx)
	cancel()
	return errors.Join(err, <-kept)
}

// StartedChecker is healthy when the server answers and the Keeper is ready.
func (s server) StartedChecker() healthz.Checker {
	answers := s.drainingServer.StartedChecker()
	return func(r *http.Request) error {
		if err := s.keeper.Ready(r); err != nil {
			return err
		}
		return answers(r)
	}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

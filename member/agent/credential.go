package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/link"
)

// CredentialSecret is the name of the Secret that holds the client certificate for the hub, unless Options specify another. Its keys are those
// of type kubernetes.io/tls.
const CredentialSecret = "flotilla-hub-credential" //nolint:gosec // A Secret's name, not its content.

const (
	// defaultRenewAt is the fraction of a certificate's lifetime after which it is renewed.
	defaultRenewAt = 0.7
	// renewJitter spreads the renewals of many members. It is the largest fraction of the lifetime by which a renewal happens earlier.
	renewJitter = 0.05
	// A failed renewal is retried after a wait that doubles, up to longestRenewWait.
	firstRenewWait   = time.Second
	longestRenewWait = time.Minute
	// soonestRenewal limits how often a member renews if its clock is so far ahead of the hub's that each new certificate already looks old.
	soonestRenewal = 30 * time.Second
)

// Errors of Connect and Connection.Run, for use with errors.Is. The message says what to do.
var (
	// ErrNoCredential means that there is neither a usable certificate nor a token.
	ErrNoCredential = errors.New("no credential for the hub")
	// ErrUnauthorized means that the hub does not know the token or the certificate (401).
	ErrUnauthorized = errors.New("the hub does not accept the credential")
	// ErrUntrusted means that the hub's certificate is not signed by the given CA.
	ErrUntrusted = errors.New("the hub is not the one that was named")
	// ErrUnreachable means that the hub's address does not answer.
	ErrUnreachable = errors.New("the hub can't be reached")
	// ErrDenied means that the hub refused to sign.
	ErrDenied = errors.New("the hub refused to sign the certificate")
	// ErrExpired means that the certificate expired before it could be renewed.
	ErrExpired = errors.New("the certificate for the hub has expired")
)

// Options configures how a pull member reaches its hub.
type Options struct {
	// Cluster is this member's name on the hub. Required.
	Cluster string
	// URL is the address of the hub's apiserver, for example https://hub.example:6443. Required; https only.
	URL string
	// CA is the hub's certificate authority, in PEM. Required unless CAHash is given. If both are given, the hash must match one of its
	// certificates.
	CA []byte
	// CAHash pins the CA by its public key: "sha256:" and the hexadecimal SHA-256 of its SubjectPublicKeyInfo, as kubeadm writes it. Without CA,
	// the CA is fetched from the hub and trusted only if it matches.
	CAHash string
	// Token reads the token that joins the cluster. It is called at each attempt without a usable certificate, so a new token is found without a
	// restart. Token may be nil or return "", which both mean that there is no token.
	Token func() (string, error)

	// Member writes to the member. Reader reads from its apiserver without a cache. Both have the agent's permissions. Required.
	Member client.Client
	Reader client.Reader
	// Keeper reads and writes the Secret without a cache; the agent's own account has no permissions on Secrets. Required.
	Keeper client.Client
	// Namespace is the namespace of the Secret: the namespace the member itself runs in. Required.
	Namespace string
	// Secret is the Secret's name; default CredentialSecret.
	Secret string
	// Namespaces limits where the hub may place objects; by default anywhere.
	Namespaces link.NamespaceLimits
	// Resources limits which resources the hub may place; nil means all that the agent may write.
	Resources *link.ResourceLimits

	// RenewAt is the fraction of a certificate's lifetime after which it is renewed, between 0 and 1; default 0.7.
	RenewAt float64
	// Clock is the real clock, except in tests. Required. It is compared with the dates in certificates.
	Clock clock.WithTicker
	// Events records that a member can no longer reach its hub. May be nil.
	Events event.Recorder
}

func (o Options) complete() (Options, error) {
	if o.Secret == "" {
		o.Secret = CredentialSecret
	}
	if o.RenewAt == 0 {
		o.RenewAt = defaultRenewAt
	}
	switch {
	case o.Cluster == "":
		return o, invalidOptions("the name of this cluster on the hub is missing")
	case o.RenewAt < 0 || o.RenewAt >= 1:
		return o, invalidOptions("renewal at %v of a certificate's life: it must be between 0 and 1", o.RenewAt)
	case len(o.CA) == 0 && o.CAHash == "":
		return o, invalidOptions("the hub's CA is missing: give the CA or its hash")
	}
	return o, checkURL(o.URL)
}

// Connection is the connection of a pull member to its hub. Config is usable while Run is running.
type Connection struct {
	// Config reaches the hub, without a rate limit. Its transport presents the certificate that is in use when a connection is opened.
	Config *rest.Config

	options    Options
	clusterUID string
	ca         []byte
	current    atomic.Pointer[tls.Certificate]
	renewed    atomic.Pointer[metav1.Time]
	dialer     *connrotation.Dialer
}

// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=secrets,resourceNames=flotilla-hub-credential,verbs=get;update;delete
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=serviceaccounts,resourceNames=flotilla-agent,verbs=impersonate

// Connect returns a connection with a usable certificate: the stored one, or a new one that it requests with the token. In the latter case it
// blocks until the hub has signed it. The error is a ConnectError or an error from the member's apiserver, and contains no credential. It is
// also reported in the conditions of the Membership.
func Connect(ctx context.Context, o Options) (*Connection, error) {
	c, err := connect(ctx, o)
	if err != nil {
		connectFailures.WithLabelValues(o.Cluster, failure(err)).Inc()
		o.reportFailure(ctx, err)
	}
	return c, err
}

func connect(ctx context.Context, o Options) (*Connection, error) {
	if err := registerMetrics(); err != nil {
		return nil, err
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	uid, err := link.ClusterUID(ctx, o.Reader)
	if err != nil {
		return nil, err
	}
	c := &Connection{options: o, clusterUID: uid, dialer: connrotation.NewDialer((&net.Dialer{
		Timeout: 30 * time.Second, KeepAlive: 30 * time.Second,
	}).DialContext)}
	stored, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	if stored == nil { // This comes before the first request to the hub, which may be gone for good.
		if err := o.release(ctx); err != nil {
			return nil, err
		}
	}
	if c.ca, err = o.trust(ctx); err != nil {
		return nil, err
	}
	if err := c.configure(); err != nil {
		return nil, err
	}
	var refused error
	if stored != nil {
		c.use(stored)
		if refused = c.probe(ctx); !errors.Is(refused, ErrUnauthorized) {
			return c.orClose(refused)
		}
		if err := o.release(ctx); err != nil {
			return c.orClose(err)
		}
	}
	err = c.join(ctx)
	if refused != nil && errors.Is(err, ErrNoCredential) {
		err = refused // The problem is the certificate, not that there is no token as well.
	}
	return c.orClose(o.strand(ctx, err))
}

// orClose returns c, or closes its connections if err is not nil.
func (c *Connection) orClose(err error) (*Connection, error) {
	if err != nil {
		c.dialer.CloseAll()
		return nil, err
	}
	return c, nil
}

// configure sets Config. The transport handles TLS, so that the certificate can be replaced.
func (c *Connection) configure() error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.ca) {
		return invalidOptions("the hub's CA holds no certificate in PEM: check hub.ca")
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 25,
		DialContext:         c.dialer.DialContext,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    pool,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if current := c.current.Load(); current != nil {
					return current, nil
				}
				return &tls.Certificate{}, nil
			},
		},
	})
	c.Config = &rest.Config{Host: c.options.URL, Transport: transport, QPS: -1, UserAgent: "flotilla-agent"}
	return nil
}

// probe sends one request, so that a bad credential is found before caches hide the reason.
func (c *Connection) probe(ctx context.Context) error {
	hub, err := hubClient(c.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = hub.Get(ctx, client.ObjectKey{Name: c.options.Cluster}, &fleetv1alpha1.MemberCluster{})
	if cause := link.CauseOf(err); cause == link.Forbidden || cause == "" && apierrors.IsNotFound(err) {
		return nil // Run handles it.
	}
	return c.options.explain(err, credential{words: "the stored certificate; if the hub is a new one, give a new token"})
}

// use presents cert from now on, and closes connections that were opened with another certificate.
func (c *Connection) use(cert *tls.Certificate) {
	c.current.Store(cert)
	c.dialer.CloseAll()
	certificateEnds.WithLabelValues(c.options.Cluster).Set(float64(cert.Leaf.NotAfter.Unix()))
}

// Run renews the certificate until ctx ends, which is not an error. It returns ErrExpired if the hub did not sign in time; Connect then needs
// a new token.
func (c *Connection) Run(ctx context.Context) error {
	wait, log := firstRenewWait, ctrl.LoggerFrom(ctx).WithValues("cluster", c.options.Cluster)
	at := c.renewAt(rand.Float64()) //nolint:gosec // Jitter needs no secrecy.
	for {
		if !c.sleepUntil(ctx, at) {
			return nil
		}
		err := c.renew(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The end of ctx is no error, whatever it broke off.
		}
		if err == nil {
			log.Info("Renewed certificate", "until", c.current.Load().Leaf.NotAfter)
			wait, at = firstRenewWait, c.renewAt(rand.Float64()) //nolint:gosec // Jitter needs no secrecy.
			if soonest := c.options.Clock.Now().Add(soonestRenewal); at.Before(soonest) {
				at = soonest
			}
			continue
		}
		connectFailures.WithLabelValues(c.options.Cluster, failure(err)).Inc()
		now := c.options.Clock.Now()
		if ends := c.current.Load().Leaf.NotAfter; !now.Before(ends) {
			return fmt.Errorf("%w at %s, give a new token: %w", ErrExpired, ends.Format(time.RFC3339), err)
		}
		log.Error(err, "Could not renew certificate", "after", wait)
		at, wait = now.Add(wait), min(2*wait, longestRenewWait)
	}
}

// renewAt returns when to renew: at RenewAt of the certificate's lifetime, or up to 5 % of the lifetime earlier, depending on jitter (0 to 1).
func (c *Connection) renewAt(jitter float64) time.Time {
	leaf := c.current.Load().Leaf
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	return leaf.NotBefore.Add(time.Duration(float64(life) * max(c.options.RenewAt-renewJitter*jitter, 0)))
}

// sleepUntil waits and reports whether at was reached before ctx ended.
func (c *Connection) sleepUntil(ctx context.Context, at time.Time) bool {
	timer := c.options.Clock.NewTimer(at.Sub(c.options.Clock.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// Credential describes the certificate in use, for link.Link. It is safe for concurrent use.
func (c *Connection) Credential() *fleetv1alpha1.CredentialStatus {
	cert := c.current.Load()
	if cert == nil {
		return nil
	}
	ends := metav1.NewTime(cert.Leaf.NotAfter)
	return &fleetv1alpha1.CredentialStatus{NotAfter: &ends, LastRenewal: c.renewed.Load(), Serial: cert.Leaf.SerialNumber.Text(16)}
}

// Forget deletes the stored certificate after the cluster has left the hub.
func (c *Connection) Forget(ctx context.Context) error {
	secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: c.options.Namespace, Name: c.options.Secret}
	err := c.options.Keeper.Get(ctx, key, secret)
	if err == nil {
		err = c.options.Keeper.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete secret %s: %w", key, err)
	}
	return nil
}

// load returns the stored certificate, or nil if there is no valid one for this cluster.
func (c *Connection) load(ctx context.Context) (*tls.Certificate, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.options.Namespace, Name: c.options.Secret}
	err := c.options.Keeper.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get secret %s: %w", key, err)
	}
	cert, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Ignored stored certificate", "reason", err.Error())
		return nil, nil
	}
	of, _ := fleetv1alpha1.ParseUser(cert.Leaf.Subject.CommonName)
	switch {
	case of != c.options.Cluster:
		ctrl.LoggerFrom(ctx).Info("Ignored stored certificate", "reason", "it is of another cluster name")
		return nil, nil
	case !c.options.Clock.Now().Before(cert.Leaf.NotAfter):
		ctrl.LoggerFrom(ctx).Info("Ignored stored certificate", "reason", "it has expired")
		return nil, nil
	}
	// The time of issue is not stored. NotBefore is close enough: signers date it back by a few minutes.
	c.renewed.Store(&metav1.Time{Time: cert.Leaf.NotBefore})
	return &cert, nil
}

// store saves a certificate before it is used, so that a crash does not lose it.
func (c *Connection) store(ctx context.Context, certificate, key []byte) error {
	secret := &corev1.Secret{}
	at := client.ObjectKey{Namespace: c.options.Namespace, Name: c.options.Secret}
	err := c.options.Keeper.Get(ctx, at, secret)
	found := err == nil
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get secret %s: %w", at, err)
	}
	secret.Namespace, secret.Name = at.Namespace, at.Name
	secret.Data = map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}
	if found {
		err = c.options.Keeper.Update(ctx, secret)
	} else {
		secret.Type = corev1.SecretTypeTLS
		err = c.options.Keeper.Create(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("keep the certificate in secret %s: %w", at, err)
	}
	return nil
}

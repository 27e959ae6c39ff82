// Package connect opens the connection of a pull member to its hub: it joins with a token, or continues with the stored certificate, which it
// renews before it expires. It trusts the hub by its CA, or by the hash of the CA's public key.
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Errors of Connect and Connection.Run, for use with errors.Is. The message says what to do.
var (
	// ErrNoCredential means that there is neither a usable certificate nor a token.
	ErrNoCredential = errors.New("no credential for the hub")
	// ErrUnauthorized means that the hub does not know the token or the certificate (401).
	ErrUnauthorized = errors.New("the hub does not accept the credential")
	// errUntrusted means that the hub's certificate is not signed by the given CA.
	errUntrusted = errors.New("the hub's identity could not be verified")
	// errUnreachable means that the hub's address does not answer.
	errUnreachable = errors.New("the hub can't be reached")
	// errDenied means that the hub refused to sign.
	errDenied = errors.New("the hub refused to sign the certificate")
	// errExpired means that the certificate expired before it could be renewed.
	errExpired = errors.New("the certificate for the hub expired")
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
	// restart. Token may be nil or return "", both of which mean that there is no token.
	Token func() (string, error)

	// Reader reads from the member's apiserver without a cache, with the agent's permissions. Required.
	Reader client.Reader
	// SecretClient reads and writes the Secret without a cache; the agent's own account has no permissions on Secrets. Required.
	SecretClient client.Client
	// Namespace is the namespace of the Secret: the namespace the member itself runs in. Required.
	Namespace string
	// Release is called while there is no usable certificate. It may remove the binding to the hub; then it returns link.ErrLeft. An error ends
	// the attempt. Nil does nothing.
	Release func(context.Context) error

	// Clock is the real clock, except in tests. Required. It is compared with the dates in certificates.
	Clock clock.WithTicker
}

func (o Options) complete() (Options, error) {
	if o.Release == nil {
		o.Release = func(context.Context) error { return nil }
	}
	switch {
	case o.Cluster == "":
		return o, invalidOptions("this cluster's name on the hub is missing")
	case len(o.CA) == 0 && o.CAHash == "":
		return o, invalidOptions("the hub's CA is missing: provide the CA or its hash")
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

// Connect returns a connection with a usable certificate: the stored one, or a new one that it requests with the token. In the latter case it
// blocks until the hub has signed it. The error is an *Error or an error from the member's apiserver, and contains no credential.
func Connect(ctx context.Context, o Options) (*Connection, error) {
	c, err := connect(ctx, o)
	if err != nil {
		connectFailures.WithLabelValues(o.Cluster, failureReason(err)).Inc()
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
		if err := o.Release(ctx); err != nil {
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
		if err := o.Release(ctx); err != nil {
			return c.orClose(err)
		}
	}
	err = c.join(ctx)
	if refused != nil && errors.Is(err, ErrNoCredential) {
		err = refused // The problem is the certificate, not that there is no token as well.
	}
	return c.orClose(err)
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
		return invalidOptions("the hub's CA contains no PEM certificate: check hub.ca")
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
		return nil // The agent finds out whether this cluster is unknown, not accepted or has left.
	}
	return c.options.explain(err, credential{description: "the stored certificate; if this is a new hub, provide a new token"})
}

// use presents cert from now on, and closes connections that were opened with another certificate.
func (c *Connection) use(cert *tls.Certificate) {
	c.current.Store(cert)
	c.dialer.CloseAll()
	certificateEnds.WithLabelValues(c.options.Cluster).Set(float64(cert.Leaf.NotAfter.Unix()))
}

package agent

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
)

// defaultTTLSeconds is asked for where the MemberCluster does not say; the same default stands in its schema.
const defaultTTLSeconds = 86400

// signPatience is how long one attempt waits for the hub to sign.
const signPatience = 10 * time.Minute

func checkURL(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("the hub's address: %w", err)
	}
	if u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("the hub's address %q: it must be https://HOST[:PORT]", address)
	}
	return nil
}

// join asks for the first certificate, with the token.
func (c *Connection) join(ctx context.Context) error {
	o, text := c.options, ""
	if o.Token != nil {
		var err error
		if text, err = o.Token(); err != nil {
			return err
		}
	}
	if text == "" {
		return fmt.Errorf("%w: secret %s/%s holds no usable certificate of cluster %q; get a token on the hub with \"kubectl kruise cluster token %s\"",
			ErrNoCredential, o.Namespace, o.Secret, o.Cluster, o.Cluster)
	}
	token := &rest.Config{
		Host: o.URL, BearerToken: text, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca}, QPS: -1, UserAgent: c.Config.UserAgent,
		Dial: c.dialer.DialContext,
	}
	return c.request(ctx, token, fmt.Sprintf("the token: it is used, expired or of another hub; get a new one with \"kubectl kruise cluster token %s\"", o.Cluster))
}

// renew asks for the next certificate, with the present one.
func (c *Connection) renew(ctx context.Context) error {
	return c.request(ctx, c.Config, "the certificate")
}

// request makes a key, has it signed, keeps both and uses them. credential names what cfg shows, for people.
func (c *Connection) request(ctx context.Context, cfg *rest.Config, credential string) error {
	hub, err := hubClient(cfg)
	if err != nil {
		return err
	}
	ttl, err := c.ttl(ctx, hub)
	if err != nil {
		return c.options.explain(err, credential)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	csr, err := newRequest(c.options.Cluster, c.clusterUID, key, ttl)
	if err != nil {
		return err
	}
	signed, err := sign(ctx, hub, csr)
	if err != nil {
		return c.options.explain(err, credential)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	cert, err := tls.X509KeyPair(signed, keyPEM)
	if err != nil {
		return fmt.Errorf("the hub signed something else than was asked: %w", err)
	}
	if err := c.store(ctx, signed, keyPEM); err != nil {
		return err
	}
	c.renewed.Store(&metav1.Time{Time: c.options.Clock.Now().Truncate(time.Second)})
	c.use(&cert)
	return nil
}

// ttl is the life to ask for. A hub that does not let the agent read its MemberCluster yet gets the default.
func (c *Connection) ttl(ctx context.Context, hub client.Client) (int32, error) {
	mc := &fleetv1alpha1.MemberCluster{}
	err := hub.Get(ctx, client.ObjectKey{Name: c.options.Cluster}, mc)
	if apierrors.IsForbidden(err) {
		return defaultTTLSeconds, nil
	}
	if err != nil {
		return 0, fmt.Errorf("get member cluster %s: %w", c.options.Cluster, err)
	}
	if mc.Spec.Pull == nil || mc.Spec.Pull.CertTTLSeconds == 0 {
		return defaultTTLSeconds, nil
	}
	return mc.Spec.Pull.CertTTLSeconds, nil
}

// newRequest is the request, exactly as the hub's approver wants it.
func newRequest(cluster, clusterUID string, key crypto.Signer, ttl int32) (*certificatesv1.CertificateSigningRequest, error) {
	user := fleetv1alpha1.User(cluster)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: user, Organization: []string{fleetv1alpha1.Group, user}},
	}, key)
	if err != nil {
		return nil, fmt.Errorf("write the certificate request: %w", err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fleetv1alpha1.RequestName(cluster),
			Annotations: map[string]string{link.AnnotationClusterUID: clusterUID},
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName:        certificatesv1.KubeAPIServerClientSignerName,
			ExpirationSeconds: new(ttl),
			Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, nil
}

// sign sends a request in place of a former one and waits, by a watch, until it is signed or refused.
func sign(ctx context.Context, hub client.WithWatch, csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, signPatience)
	defer cancel()
	former := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: csr.Name}}
	if err := hub.Delete(ctx, former); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("delete the former certificate request %s: %w", csr.Name, err)
	}
	if err := hub.Create(ctx, csr); err != nil {
		return nil, fmt.Errorf("create certificate request %s: %w", csr.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Asked hub for certificate", "name", csr.Name)
	for {
		signed, err := await(ctx, hub, csr)
		if signed != nil || err != nil {
			return signed, err
		}
		// The watch ended, as watches do. Go on from what is there now.
		uid := csr.UID
		if err := hub.Get(ctx, client.ObjectKeyFromObject(csr), csr); err != nil {
			return nil, fmt.Errorf("get certificate request %s: %w", csr.Name, err)
		}
		if csr.UID != uid {
			return nil, fmt.Errorf("certificate request %s was replaced by another agent of this cluster", csr.Name)
		}
	}
}

// await watches one request from the state that csr has. It returns neither certificate nor error when the watch ends.
func await(ctx context.Context, hub client.WithWatch, csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	if signed, err := outcome(csr); signed != nil || err != nil {
		return signed, err
	}
	w, err := hub.Watch(ctx, &certificatesv1.CertificateSigningRequestList{}, &client.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", csr.Name),
		Raw:           &metav1.ListOptions{ResourceVersion: csr.ResourceVersion},
	})
	if err != nil {
		return nil, fmt.Errorf("watch certificate request %s: %w", csr.Name, err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the hub to sign certificate request %s: %w", csr.Name, ctx.Err())
		case e, open := <-w.ResultChan():
			if !open || e.Type == watch.Error {
				return nil, nil
			}
			if e.Type == watch.Deleted {
				return nil, fmt.Errorf("certificate request %s was deleted before it was signed", csr.Name)
			}
			now, ok := e.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok {
				continue
			}
			if signed, err := outcome(now); signed != nil || err != nil {
				return signed, err
			}
		}
	}
}

// outcome is what became of a request; neither certificate nor error while that is open.
func outcome(csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for _, c := range csr.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return nil, fmt.Errorf("%w: %s: %s", ErrDenied, c.Reason, c.Message)
		}
	}
	if len(csr.Status.Certificate) > 0 {
		return csr.Status.Certificate, nil
	}
	return nil, nil
}

// hubClient is a client for what joining needs. It knows its two kinds by itself: the bootstrap account may not be
// allowed to ask what else there is.
func hubClient(cfg *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{certificatesv1.AddToScheme, corev1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make a scheme: %w", err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), meta.RESTScopeRoot)
	mapper.Add(fleetv1alpha1.GroupVersion.WithKind("MemberCluster"), meta.RESTScopeRoot)
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("make a client of the hub: %w", err)
	}
	return c, nil
}

// explain says which of the usual mistakes an error is. credential names what was shown, and what to do if that is it.
func (o Options) explain(err error, credential string) error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var dial *net.OpError
	var dns *net.DNSError
	switch {
	case err == nil, errors.Is(err, ErrDenied), errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w %s: %w", ErrUnauthorized, credential, err)
	case errors.As(err, &unknown), errors.As(err, &invalid), errors.As(err, &host):
		return fmt.Errorf("%w: %s shows a certificate that the given CA does not vouch for; check the hub's CA and address: %w", ErrUntrusted, o.URL, err)
	case errors.As(err, &dns), errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w at %s; check the address and the network: %w", ErrUnreachable, o.URL, err)
	default:
		return err
	}
}

// failure is the reason of an error for the metrics.
func failure(err error) string {
	for reason, sentinel := range map[string]error{
		"NoCredential": ErrNoCredential, "Unauthorized": ErrUnauthorized, "Untrusted": ErrUntrusted,
		"Unreachable": ErrUnreachable, "Denied": ErrDenied, "Expired": ErrExpired,
	} {
		if errors.Is(err, sentinel) {
			return reason
		}
	}
	return "Other"
}

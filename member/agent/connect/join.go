package connect

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
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// defaultTTLSeconds is requested if the MemberCluster specifies no lifetime; its schema has the same default.
const defaultTTLSeconds = 86400

const (
	// signTimeout is how long one attempt waits for the hub to sign.
	signTimeout = 10 * time.Minute
	// callTimeout is how long an attempt waits for a single response.
	callTimeout = 30 * time.Second
)

// checkURL does not repeat the address in its error, because it may contain a password.
func checkURL(address string) error {
	if !link.PlainURL(address) {
		return invalidOptions("the hub's address must be https://HOST[:PORT] without user, query or fragment: check hub.url")
	}
	return nil
}

// join requests the first certificate with the token.
func (c *Connection) join(ctx context.Context) error {
	o, text := c.options, ""
	if o.Token != nil {
		var err error
		if text, err = o.Token(); err != nil {
			return err
		}
	}
	if text == "" {
		return &Error{Reason: reasonNoCredential, kind: ErrNoCredential, Message: fmt.Sprintf(
			"%s: secret %s/%s has no usable certificate for cluster %q; get a token on the hub with \"kubectl kruise cluster token %s\"",
			ErrNoCredential, o.Namespace, credentialSecret, o.Cluster, o.Cluster)}
	}
	token := &rest.Config{
		Host: o.URL, BearerToken: text, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca}, QPS: -1, UserAgent: c.Config.UserAgent,
		Dial: c.dialer.DialContext,
	}
	return c.request(ctx, token, credential{secret: text, description: fmt.Sprintf(
		"the token: it was already used, has expired or is from another hub; get a new one with \"kubectl kruise cluster token %s\"", o.Cluster)})
}

// renew requests the next certificate with the current one.
func (c *Connection) renew(ctx context.Context) error {
	return c.request(ctx, c.Config, credential{description: "the certificate"})
}

// request creates a key, has it signed, stores the key and the certificate, and uses them. presented is the credential of cfg.
func (c *Connection) request(ctx context.Context, cfg *rest.Config, presented credential) error {
	hub, err := hubClient(cfg)
	if err != nil {
		return err
	}
	user, ttl, err := c.subject(ctx, hub)
	if err != nil {
		return c.options.explain(err, presented)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate a key: %w", err)
	}
	csr, err := newRequest(c.options.Cluster, user, c.clusterUID, key, ttl)
	if err != nil {
		return err
	}
	signed, err := sign(ctx, hub, csr)
	if err != nil {
		return c.options.explain(err, presented)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	cert, err := tls.X509KeyPair(signed, keyPEM)
	if err != nil {
		return fmt.Errorf("the hub signed something other than what was requested: %w", err)
	}
	if err := c.store(ctx, signed, keyPEM); err != nil {
		return err
	}
	c.renewed.Store(&metav1.Time{Time: c.options.Clock.Now().Truncate(time.Second)})
	c.use(&cert)
	return nil
}

// subject returns the user and the lifetime to request, according to the MemberCluster. While the agent isn't allowed to read the MemberCluster, it
// requests the user of the current certificate.
func (c *Connection) subject(ctx context.Context, hub client.Client) (user string, ttl int32, err error) {
	mc := &fleetv1alpha1.MemberCluster{}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = hub.Get(ctx, client.ObjectKey{Name: c.options.Cluster}, mc)
	if current := c.current.Load(); apierrors.IsForbidden(err) && current != nil {
		return current.Leaf.Subject.CommonName, defaultTTLSeconds, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("get member cluster %s: %w", c.options.Cluster, err)
	}
	user, ttl = fleetv1alpha1.User(mc.Name, mc.UID), defaultTTLSeconds
	if mc.Spec.Pull != nil && mc.Spec.Pull.CertTTLSeconds > 0 {
		ttl = mc.Spec.Pull.CertTTLSeconds
	}
	return user, ttl, nil
}

// newRequest returns the request in the only form that the hub's approver accepts.
func newRequest(cluster, user, clusterUID string, key crypto.Signer, ttl int32) (*certificatesv1.CertificateSigningRequest, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: user, Organization: []string{fleetv1alpha1.Group, user}},
	}, key)
	if err != nil {
		return nil, fmt.Errorf("create the certificate request: %w", err)
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

// sign replaces an earlier request and watches the new one until it is signed or denied.
func sign(ctx context.Context, hub client.WithWatch, csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	former := &certificatesv1.CertificateSigningRequest{}
	err := hub.Get(ctx, client.ObjectKeyFromObject(csr), former)
	if err == nil {
		err = hub.Delete(ctx, former, client.Preconditions{UID: &former.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("delete the previous certificate request %s: %w", csr.Name, err)
	}
	if err := hub.Create(ctx, csr); err != nil {
		return nil, fmt.Errorf("create certificate request %s: %w", csr.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Requested certificate from hub", "name", csr.Name)
	for {
		signed, err := await(ctx, hub, csr)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = errors.Join(errNotSigned, err)
		}
		if signed != nil || err != nil {
			return signed, err
		}
		// The watch ended: continue from the current state.
		uid := csr.UID
		if err := hub.Get(ctx, client.ObjectKeyFromObject(csr), csr); err != nil {
			return nil, fmt.Errorf("get certificate request %s: %w", csr.Name, err)
		}
		if csr.UID != uid {
			return nil, fmt.Errorf("certificate request %s was replaced by another agent of this cluster", csr.Name)
		}
	}
}

// await watches one request from the resource version of csr. It returns neither a certificate nor an error when the watch ends.
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

// outcome returns the certificate or the denial of a request, or neither while it is pending.
func outcome(csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for _, c := range csr.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return nil, &Error{Reason: reasonRequestDenied, kind: errDenied, Message: fmt.Sprintf("%s: %s: %s", errDenied, c.Reason, c.Message)}
		}
	}
	if len(csr.Status.Certificate) > 0 {
		return csr.Status.Certificate, nil
	}
	return nil, nil
}

// hubClient returns a client for joining. Its mapper is static, because the bootstrap account might not be allowed to use discovery.
func hubClient(cfg *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{certificatesv1.AddToScheme, corev1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("create a scheme: %w", err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), meta.RESTScopeRoot)
	mapper.Add(fleetv1alpha1.GroupVersion.WithKind("MemberCluster"), meta.RESTScopeRoot)
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("create a client for the hub: %w", err)
	}
	return c, nil
}

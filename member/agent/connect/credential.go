package connect

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// credentialSecret is the name of the Secret that holds the client certificate for the hub. Its keys are as in a Secret of type kubernetes.io/tls.
const credentialSecret = "flotilla-hub-credential" //nolint:gosec // A Secret's name, not its content.

const (
	// renewAfter is the fraction of a certificate's lifetime after which it is renewed.
	renewAfter = 0.7
	// renewJitter spreads the renewals of many members. It is the largest fraction of the lifetime by which a renewal happens earlier.
	renewJitter = 0.05
	// A failed renewal is retried after a wait that doubles, up to longestRenewWait.
	firstRenewWait   = time.Second
	longestRenewWait = time.Minute
	// soonestRenewal limits how often a member renews if its clock is so far ahead of the hub's that each new certificate already looks old.
	soonestRenewal = 30 * time.Second
)

// Run renews the certificate until ctx ends, which is not an error. It returns an error if the certificate has expired because the hub did not
// sign in time; Connect then needs a new token. At the end it drops the metrics of the cluster.
func (c *Connection) Run(ctx context.Context) error {
	defer forgetMetrics(c.options.Cluster)
	wait, log := firstRenewWait, ctrl.LoggerFrom(ctx).WithValues("cluster", c.options.Cluster)
	at := c.renewAt(rand.Float64()) //nolint:gosec // Jitter needs no secrecy.
	for {
		if !c.sleepUntil(ctx, at) {
			return nil
		}
		err := c.renew(ctx)
		if ctx.Err() != nil {
			return nil // The end of ctx is not an error, whatever it interrupted.
		}
		if err == nil {
			log.Info("Renewed certificate", "until", c.current.Load().Leaf.NotAfter)
			wait, at = firstRenewWait, c.renewAt(rand.Float64()) //nolint:gosec // Jitter needs no secrecy.
			if soonest := c.options.Clock.Now().Add(soonestRenewal); at.Before(soonest) {
				at = soonest
			}
			continue
		}
		connectFailures.WithLabelValues(c.options.Cluster, failureReason(err)).Inc()
		now := c.options.Clock.Now()
		if ends := c.current.Load().Leaf.NotAfter; !now.Before(ends) {
			return fmt.Errorf("%w at %s, provide a new token: %w", errExpired, ends.Format(time.RFC3339), err)
		}
		log.Error(err, "Failed to renew certificate", "after", wait)
		at, wait = now.Add(wait), min(2*wait, longestRenewWait)
	}
}

// renewAt returns when to renew: after renewAfter of the certificate's lifetime, or up to 5 % of the lifetime earlier, depending on jitter (0
// to 1).
func (c *Connection) renewAt(jitter float64) time.Time {
	leaf := c.current.Load().Leaf
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	return leaf.NotBefore.Add(time.Duration(float64(life) * (renewAfter - renewJitter*jitter)))
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
	secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: c.options.Namespace, Name: credentialSecret}
	err := c.options.SecretClient.Get(ctx, key, secret)
	if err == nil {
		err = c.options.SecretClient.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete secret %s: %w", key, err)
	}
	return nil
}

// load returns the stored certificate, or nil if there is no valid one for this cluster.
func (c *Connection) load(ctx context.Context) (*tls.Certificate, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.options.Namespace, Name: credentialSecret}
	err := c.options.SecretClient.Get(ctx, key, secret)
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
	cluster, _ := fleetv1alpha1.ParseUser(cert.Leaf.Subject.CommonName)
	switch {
	case cluster != c.options.Cluster:
		ctrl.LoggerFrom(ctx).Info("Ignored stored certificate", "reason", "it was issued for another cluster name")
		return nil, nil
	case !c.options.Clock.Now().Before(cert.Leaf.NotAfter):
		ctrl.LoggerFrom(ctx).Info("Ignored stored certificate", "reason", "it has expired")
		return nil, nil
	}
	// The time of issue is not stored. NotBefore is close enough: signers backdate it by a few minutes.
	c.renewed.Store(&metav1.Time{Time: cert.Leaf.NotBefore})
	return &cert, nil
}

// store saves a certificate before it is used, so that a crash does not lose it.
func (c *Connection) store(ctx context.Context, certificate, key []byte) error {
	secret := &corev1.Secret{}
	secretKey := client.ObjectKey{Namespace: c.options.Namespace, Name: credentialSecret}
	err := c.options.SecretClient.Get(ctx, secretKey, secret)
	found := err == nil
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get secret %s: %w", secretKey, err)
	}
	secret.Namespace, secret.Name = secretKey.Namespace, secretKey.Name
	secret.Data = map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}
	if found {
		err = c.options.SecretClient.Update(ctx, secret)
	} else {
		secret.Type = corev1.SecretTypeTLS
		err = c.options.SecretClient.Create(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("store the certificate in secret %s: %w", secretKey, err)
	}
	return nil
}

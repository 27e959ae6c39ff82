//go:build integration

package cert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionreviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

var patience = testtimeout.Scale(2 * time.Minute)

// TestIntegrationRotationFailsNoRequest runs two replicas behind one address through a rotation of CA and certificate that takes seconds instead
// of years, while an API server calls them on a new connection for each request.
func TestIntegrationRotationFailsNoRequest(t *testing.T) {
	t.Parallel()
	c := controlPlane(t)
	balancer := listen(t)
	address := "https://" + balancer.Addr().String()
	options := Options{
		Secret: types.NamespacedName{Namespace: "default", Name: "hook"}, URL: address, Validating: []string{"hook"},
		ServingValidity: 9 * time.Second, CAValidity: 28 * time.Second, Settle: 2 * time.Second, Clock: clock.RealClock{},
	}
	require.NoError(t, c.Create(t.Context(), configuration("hook")))
	one, two := replica(t, c, options), replica(t, c, options)
	balance(t, balancer, one.address, two.address)
	eventually(t, "both replicas are ready", func() bool { return one.keeper.Ready(nil) == nil && two.keeper.Ready(nil) == nil })
	require.Equal(t, one.leaf(t).Raw, two.leaf(t).Raw, "replicas share one certificate")

	first := bundle(t, c, options.Secret)
	require.Len(t, first, 1)
	stop := make(chan struct{})
	var calls atomic.Int64
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "asked"}}, client.DryRunAll)
				if err != nil {
					t.Errorf("a request was refused while the certificate rotated: %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}
	overlapped := false
	eventually(t, "the first CA is gone", func() bool {
		now := bundle(t, c, options.Secret)
		overlapped = overlapped || len(now) > 1
		return !slices.ContainsFunc(now, first[0].Equal)
	})
	eventually(t, "both replicas serve a certificate of a later CA", func() bool {
		return one.leaf(t).CheckSignatureFrom(first[0]) != nil && two.leaf(t).CheckSignatureFrom(first[0]) != nil
	})
	close(stop)
	callers.Wait()
	require.True(t, overlapped, "old and new CA must be in the bundle together for a while")
	require.Greater(t, calls.Load(), int64(50))
	require.Positive(t, one.calls.Load(), "the first replica was never called")
	require.Positive(t, two.calls.Load(), "the second replica was never called")
	t.Logf("%d requests, none refused", calls.Load())
}

// TestIntegrationEverythingThatCallsUsIsPointedAtUs covers targets that are missing at first, removed, or pointed elsewhere.
func TestIntegrationEverythingThatCallsUsIsPointedAtUs(t *testing.T) {
	t.Parallel()
	c := controlPlane(t)
	options := Options{
		Secret: types.NamespacedName{Namespace: "default", Name: "hook"}, Service: Service{Namespace: "default", Name: "hook", Port: 443},
		Mutating: []string{"late"}, Validating: []string{"hook"}, CRDs: []string{"things.example.com"}, Clock: clock.RealClock{},
	}
	require.NoError(t, c.Create(t.Context(), configuration("hook")))
	require.NoError(t, c.Create(t.Context(), crd()))
	k := replica(t, c, options).keeper
	eventually(t, "missing objects are named", func() bool {
		err := k.Ready(nil)
		return err != nil && err.Error() == "not there yet: MutatingWebhookConfiguration late"
	})
	path := "/mutate-thing"
	late := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Webhooks: []admissionv1.MutatingWebhook{{
		Name: "thing.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
		ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "elsewhere", Name: "other", Path: &path}},
	}}}
	require.NoError(t, c.Create(t.Context(), late))
	eventually(t, "all callers are configured", func() bool { return k.Ready(nil) == nil })

	want := bundle(t, c, options.Secret)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(late), late))
	require.Equal(t, want, readCertificates(late.Webhooks[0].ClientConfig.CABundle))
	require.Equal(t, "default", late.Webhooks[0].ClientConfig.Service.Namespace)
	require.Equal(t, path, *late.Webhooks[0].ClientConfig.Service.Path)
	thing := crd()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(thing), thing))
	require.Equal(t, want, readCertificates(thing.Spec.Conversion.Webhook.ClientConfig.CABundle))
	require.Equal(t, convertPath, *thing.Spec.Conversion.Webhook.ClientConfig.Service.Path)

	late.Webhooks[0].ClientConfig.CABundle = nil
	require.NoError(t, c.Update(t.Context(), late))
	eventually(t, "a removed bundle is restored", func() bool {
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(late), late))
		return len(late.Webhooks[0].ClientConfig.CABundle) > 0
	})
	require.NoError(t, c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hook"}}))
	eventually(t, "a deleted Secret is created again, and its bundle is in force", func() bool {
		secret := &corev1.Secret{}
		if c.Get(t.Context(), options.Secret, secret) != nil {
			return false
		}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(late), late))
		now := Read(secret.Data)
		return !now.Authorities[0].Equal(want[0]) && string(now.Bundle()) == string(late.Webhooks[0].ClientConfig.CABundle)
	})
}

func controlPlane(t *testing.T) client.WithWatch {
	t.Helper()
	cfg, err := lab.StartT(t, lab.Config{ControlPlaneOnly: true}).REST()
	require.NoError(t, err)
	cfg.QPS = -1
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)))
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// configuration returns a webhook configuration for one ConfigMap, in which only the path of the webhook is set.
func configuration(name string) *admissionv1.ValidatingWebhookConfiguration {
	path := "/validate"
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name:                    "asked.example.com",
		AdmissionReviewVersions: []string{"v1"},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		ClientConfig:            admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "hook", Path: &path}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
		MatchConditions: []admissionv1.MatchCondition{{Name: "asked", Expression: "object.metadata.name == 'asked'"}},
	}}}
}

func crd() *apiextensionsv1.CustomResourceDefinition {
	version := func(name string, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: stored,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v1alpha1", false)},
		},
	}
}

// running is one replica: a Keeper, and a server that closes each connection after one request, so that each connection is verified.
type running struct {
	keeper  *Keeper
	address string
	calls   *atomic.Int64
}

func (r running) leaf(t *testing.T) *x509.Certificate {
	t.Helper()
	pair, err := r.keeper.GetCertificate(nil)
	require.NoError(t, err)
	return pair.Leaf
}

func replica(t *testing.T, c client.WithWatch, o Options) running {
	t.Helper()
	k, err := New(c, o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	go func() { kept <- k.Start(ctx) }()

	calls := &atomic.Int64{}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	k.TLS(config)
	server := &http.Server{
		TLSConfig: config, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			review := &admissionreviewv1.AdmissionReview{}
			if json.NewDecoder(r.Body).Decode(review) != nil || review.Request == nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			review.Response = &admissionreviewv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
			_ = json.NewEncoder(w).Encode(review)
		}),
	}
	server.SetKeepAlivesEnabled(false)
	listener := listen(t)
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-kept)
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return running{keeper: k, address: listener.Addr().String(), calls: calls}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// balance distributes connections to the replicas round-robin, as a Service does.
func balance(t *testing.T, l net.Listener, replicas ...string) {
	t.Helper()
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; ; i++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			to := replicas[i%len(replicas)]
			work.Go(func() { pipe(client, to) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		work.Wait()
	})
}

func pipe(client net.Conn, to string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", to) //nolint:noctx // Both ends are closed when the first one is done.
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close()
	<-done
}

func bundle(t *testing.T, c client.Client, key types.NamespacedName) []*x509.Certificate {
	t.Helper()
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), key, secret))
	return Read(secret.Data).Authorities
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	require.Eventually(t, done, patience, 50*time.Millisecond, what)
}

package cert

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keeper(t *testing.T, change func(*Options)) *Keeper {
	t.Helper()
	o := Options{
		Secret:   types.NamespacedName{Namespace: "ns", Name: "hook-certificate"},
		Service:  Service{Namespace: "ns", Name: "hook", Port: 443},
		Mutating: []string{"hooks"}, Validating: []string{"hooks"}, CRDs: []string{"things.example.com"},
		Clock: clocktesting.NewFakeClock(noon),
	}
	if change != nil {
		change(&o)
	}
	k, err := New(nil, o)
	require.NoError(t, err)
	return k
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		options Options
		want    string
	}{
		{"a CA that doesn't outlive three serving certificates", Options{CAValidity: 3 * day, ServingValidity: day}, "must outlive"},
		{"a serving certificate that doesn't outlive two settling times", Options{ServingValidity: 9 * time.Minute}, "must outlive twice"},
		{"a URL of another scheme", Options{URL: "http://127.0.0.1:9443"}, "must be https://host:port"},
		{"a URL without a port", Options{URL: "https://127.0.0.1"}, "must be https://host:port"},
		{"a URL with a path", Options{URL: "https://127.0.0.1:9443/hooks"}, "must be https://host:port"},
		{"a URL with a user", Options{URL: "https://me@127.0.0.1:9443"}, "must be https://host:port"},
		{"a URL with port 0", Options{URL: "https://127.0.0.1:0"}, "must be https://host:port"},
		{"a URL without a host", Options{URL: "https://:9443"}, "must be https://host:port"},
		{"an invalid URL", Options{URL: "https://%zz:1"}, "webhook URL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := New(nil, tc.options)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestNamesAreThoseOfServiceOrURL(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"hook.ns.svc"}, keeper(t, nil).policy.Names)
	byURL := keeper(t, func(o *Options) { o.URL = "https://[0:0::1]:9443" })
	require.Equal(t, []string{"::1"}, byURL.policy.Names)
}

func TestTargetsAreDirectedAtUs(t *testing.T) {
	t.Parallel()
	bundle := []byte("bundle")
	chart := func() []client.Object {
		service := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{
			Namespace: "elsewhere", Name: "hook", Path: new("/mutate-thing"), Port: new(int32(443)),
		}}
		byURL := admissionv1.WebhookClientConfig{URL: new("https://10.0.0.1:9443/validate-thing"), CABundle: []byte("old")}
		return []client.Object{
			&admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{{Name: "m", ClientConfig: service}}},
			&admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{{Name: "v", ClientConfig: byURL}}},
			&apiextensionsv1.CustomResourceDefinition{},
		}
	}
	for _, tc := range []struct {
		name string
		url  string
	}{{"by Service", ""}, {"by URL", "https://127.0.0.1:9443"}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k := keeper(t, func(o *Options) { o.URL = tc.url })
			targets := chart()
			stale := k.stale(targets, bundle)
			require.Len(t, stale, 3)
			require.Equal(t, chart(), targets, "the observed object must not be modified")

			mutating := stale[0].want.(*admissionv1.MutatingWebhookConfiguration).Webhooks[0].ClientConfig
			validating := stale[1].want.(*admissionv1.ValidatingWebhookConfiguration).Webhooks[0].ClientConfig
			conversion := stale[2].want.(*apiextensionsv1.CustomResourceDefinition).Spec.Conversion
			require.Equal(t, bundle, mutating.CABundle)
			require.Equal(t, bundle, validating.CABundle)
			require.Equal(t, bundle, conversion.Webhook.ClientConfig.CABundle)
			require.Equal(t, apiextensionsv1.WebhookConverter, conversion.Strategy)
			if tc.url != "" {
				require.Nil(t, mutating.Service)
				require.Equal(t, tc.url+"/mutate-thing", *mutating.URL)
				require.Equal(t, tc.url+"/validate-thing", *validating.URL)
				require.Equal(t, tc.url+"/convert", *conversion.Webhook.ClientConfig.URL)
			} else {
				require.Nil(t, validating.URL)
				require.Equal(t, "ns", mutating.Service.Namespace)
				require.Equal(t, "/mutate-thing", *mutating.Service.Path)
				require.Equal(t, "/validate-thing", *validating.Service.Path)
				require.Equal(t, "/convert", *conversion.Webhook.ClientConfig.Service.Path)
			}
			var done []client.Object
			for _, s := range stale {
				done = append(done, s.want)
			}
			require.Empty(t, k.stale(done, bundle), "a correct object is not written again")
		})
	}
}

func TestReadyReturnsWhatIsMissing(t *testing.T) {
	t.Parallel()
	k := keeper(t, nil)
	require.ErrorIs(t, k.Ready(nil), ErrNoCertificate)

	s := after(t, k.policy, noon, Start)
	k.remember(observed{state: s, absent: []string{"ValidatingWebhookConfiguration hooks"}}, true, noon)
	require.ErrorContains(t, k.Ready(nil), "not there yet: ValidatingWebhookConfiguration hooks")
	k.remember(observed{state: s}, false, noon)
	require.ErrorContains(t, k.Ready(nil), "not in every webhook configuration")
	k.remember(observed{state: s}, true, noon)
	require.NoError(t, k.Ready(nil))
}

// A replica that can't read the configurations has learned nothing about them, and requests still reach it.
func TestAReplicaStaysReadyWhileTheAPIServerFails(t *testing.T) {
	t.Parallel()
	k := keeper(t, func(o *Options) { o.Validating, o.CRDs = nil, nil })
	hooks := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Webhooks: []admissionv1.MutatingWebhook{{Name: "hook"}},
	}
	var fails error
	k.client = interceptor.NewClient(fake.NewClientBuilder().WithObjects(hooks).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, isSecret := o.(*corev1.Secret); !isSecret && fails != nil {
				return fails
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	fails = errors.New("etcd is away")
	_, err := k.reconcile(t.Context())
	require.ErrorContains(t, err, "etcd is away")
	require.ErrorIs(t, k.Ready(nil), ErrNoCertificate, "nobody can call it yet")
	fails = nil
	for range 3 {
		_, err = k.reconcile(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, k.Ready(nil))
	require.NotZero(t, k.since)

	fails = errors.New("etcd is away")
	_, err = k.reconcile(t.Context())
	require.ErrorContains(t, err, "etcd is away")
	require.NoError(t, k.Ready(nil))
	require.Zero(t, k.since, "a new CA must not be used before the bundle has been seen everywhere")
}

func TestSinceCountsOneBundleInForce(t *testing.T) {
	t.Parallel()
	k := keeper(t, nil)
	one := observed{state: after(t, k.policy, noon, Start)}
	two := observed{state: after(t, k.policy, noon, Start)}
	k.remember(one, true, noon)
	k.remember(one, true, noon.Add(time.Minute))
	require.Equal(t, noon, k.since, "the same bundle keeps its time")
	k.remember(two, true, noon.Add(2*time.Minute))
	require.Equal(t, noon.Add(2*time.Minute), k.since, "another bundle starts the time again")
	k.remember(two, false, noon.Add(3*time.Minute))
	require.Zero(t, k.since, "a bundle that is not everywhere doesn't count")
}

func TestServerServesTheNewestCertificate(t *testing.T) {
	t.Parallel()
	k := keeper(t, func(o *Options) { o.URL = "https://127.0.0.1:9443" })
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	k.TLS(config)
	srv := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		TLSConfig:         config,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})

	call := func(bundle []byte, at time.Time) error {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		transport := &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: roots, MinVersion: tls.VersionTLS12, Time: func() time.Time { return at },
		}}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String(), http.NoBody)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}

	require.Error(t, call(nil, noon), "no handshake succeeds without a certificate")
	first := after(t, k.policy, noon, Start)
	k.remember(observed{state: first}, true, noon)
	require.NoError(t, call(first.Bundle(), noon))

	added, err := Take(Step{Act: AddCA, Names: k.policy.Names}, first, k.policy, noon)
	require.NoError(t, err)
	k.remember(observed{state: added}, true, noon)
	require.NoError(t, call(first.Bundle(), noon), "a new CA in the bundle doesn't change the serving certificate")
	require.NoError(t, call(added.Bundle(), noon))

	second := reissued(t, added, k.policy, noon)
	k.remember(observed{state: second}, true, noon)
	require.NoError(t, call(second.Bundle(), noon))
	require.Error(t, call(first.Bundle(), noon), "the serving certificate must be signed by the new CA")

	k.remember(observed{}, false, noon)
	require.NoError(t, call(second.Bundle(), noon), "a deleted Secret doesn't remove the certificate")
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	k := keeper(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	k.wake <- struct{}{}
	require.True(t, k.sleep(ctx, 0))
	cancel()
	require.False(t, k.sleep(ctx, time.Hour))
}

// TestCertificatesOfOthersAreServedAndNotWritten gives a Keeper Secrets as cert-manager writes them: with RSA keys, signed by an authority or
// self-signed.
func TestCertificatesOfOthersAreServedAndNotWritten(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		data map[string][]byte
		want string
	}{
		{"signed by an authority", foreign(t, "hook.ns.svc", true, noon.Add(day)), ""},
		{"signed by itself", foreign(t, "hook.ns.svc", false, noon.Add(day)), ""},
		{"no Secret yet", nil, "Secret ns/hook-certificate, which is not written by this program: it does not exist"},
		{"no authority", map[string][]byte{"tls.crt": []byte("x")}, "ca.crt has no certificate"},
		{"another name", foreign(t, "other.ns.svc", true, noon.Add(day)), "the certificate in tls.crt does not name [hook.ns.svc]"},
		{"expired", foreign(t, "hook.ns.svc", true, noon.Add(-time.Minute)), "the serving certificate is not valid: x509: certificate has expired"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k := keeper(t, func(o *Options) { o.External, o.Validating, o.CRDs = true, nil, nil })
			hooks := &admissionv1.MutatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Webhooks: []admissionv1.MutatingWebhook{{Name: "hook"}},
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hook-certificate"}, Data: tc.data}
			b := fake.NewClientBuilder().WithObjects(hooks)
			if tc.data != nil {
				b.WithObjects(secret)
			}
			k.client = b.Build()
			_, err := k.reconcile(t.Context())
			require.NoError(t, k.client.Get(t.Context(), client.ObjectKeyFromObject(hooks), hooks))
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				require.ErrorContains(t, k.Ready(nil), tc.want)
				require.Empty(t, hooks.Webhooks[0].ClientConfig.CABundle)
				return
			}
			require.NoError(t, err)
			require.Equal(t, string(tc.data["ca.crt"]), string(hooks.Webhooks[0].ClientConfig.CABundle))
			_, err = k.reconcile(t.Context())
			require.NoError(t, err)
			require.NoError(t, k.Ready(nil))
			require.NoError(t, k.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
			require.Equal(t, tc.data, secret.Data)
		})
	}
}

// TestAWriterWhoTakesTheBundleAwayIsWrittenBackLessAndLess: another writer removes the bundle each time, as does a GitOps tool that doesn't know
// about it.
func TestAWriterWhoTakesTheBundleAwayIsWrittenBackLessAndLess(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(noon)
	k := keeper(t, func(o *Options) { o.Validating, o.CRDs, o.Clock = nil, nil, clock })
	hooks := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Webhooks: []admissionv1.MutatingWebhook{{Name: "hook"}},
	}
	writes := 0
	k.client = interceptor.NewClient(fake.NewClientBuilder().WithObjects(hooks).Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, o, p, opts...)
		},
	})
	read := func() *admissionv1.MutatingWebhookConfiguration {
		require.NoError(t, k.client.Get(t.Context(), client.ObjectKeyFromObject(hooks), hooks))
		return hooks
	}
	for range 10 * 60 { // Ten minutes with an event each second.
		_, err := k.reconcile(t.Context())
		require.NoError(t, err)
		c := read()
		c.Webhooks[0].ClientConfig.CABundle = nil
		require.NoError(t, k.client.Update(t.Context(), c))
		clock.Step(time.Second)
	}
	require.LessOrEqual(t, writes, 18)
	wait, err := k.reconcile(t.Context())
	require.NoError(t, err)
	require.Positive(t, wait, "no event is needed")
	require.NoError(t, k.Ready(nil), "others still call this server")

	c := read()
	c.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	require.NoError(t, k.client.Update(t.Context(), c))
	clock.Step(time.Hour)
	_, err = k.reconcile(t.Context())
	require.NoError(t, err)
	c = read()
	require.NotEmpty(t, c.Webhooks[0].ClientConfig.CABundle)
	require.Len(t, c.Webhooks[0].NamespaceSelector.MatchExpressions, 1, "exclusions of others stay")
}

// foreign is the data of a Secret that isn't ours.
func foreign(t *testing.T, name string, authority bool, end time.Time) map[string][]byte {
	t.Helper()
	sign := func(c, parent *x509.Certificate, signer *rsa.PrivateKey) (*x509.Certificate, *rsa.PrivateKey) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		if parent == nil {
			parent, signer = c, key
		}
		c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), end.Add(-2*day), end
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
		require.NoError(t, err)
		c, err = x509.ParseCertificate(der)
		require.NoError(t, err)
		return c, key
	}
	var ca *x509.Certificate
	var signer *rsa.PrivateKey
	if authority {
		ca, signer = sign(&x509.Certificate{
			Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}, nil, nil)
	}
	leaf, key := sign(&x509.Certificate{
		DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, signer)
	if ca == nil {
		ca = leaf
	}
	return map[string][]byte{
		"ca.crt": writeCertificate(ca), "tls.crt": writeCertificate(leaf),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}
}

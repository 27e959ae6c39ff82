//go:build integration

package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/capi"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

const (
	hubUser      = "system:serviceaccount:flotilla-system:flotilla-hub"
	hubNamespace = "flotilla-system"
	look         = 100 * time.Millisecond
)

var settleTimeout = testtimeout.Scale(30 * time.Second)

// hub is a real control plane with this package's controllers, which run with only the permissions from the markers.
type hub struct {
	client.Client
	cfg     *rest.Config
	port    int
	serving *tls.Certificate
	ca      []byte
	stop    func()
	// capiNamespaces are the namespaces with Clusters of Cluster API.
	capiNamespaces []string
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(s))
	require.NoError(t, apiextensionsv1.AddToScheme(s))
	require.NoError(t, fleetv1alpha1.AddToScheme(s))
	require.NoError(t, capi.AddToScheme(s))
	return s
}

// startHub starts a hub that reads Cluster API Clusters in these namespaces.
func startHub(t *testing.T, capiNamespaces ...string) *hub {
	t.Helper()
	control := lab.StartT(t, lab.Config{})
	cfg, err := control.REST()
	require.NoError(t, err)
	port, err := control.Port(t.Context(), "webhook")
	require.NoError(t, err)
	c, err := client.New(cfg, client.Options{Scheme: testScheme(t)})
	require.NoError(t, err)
	h := &hub{Client: c, cfg: cfg, port: port, capiNamespaces: capiNamespaces}
	h.serving, h.ca = servingCertificate(t)
	h.install(t)
	h.run(t)
	h.installWebhooks(t, fmt.Sprintf("https://127.0.0.1:%d", port), h.ca)
	return h
}

// run starts the hub's manager, as the user that the chart creates for it. h.stop stops it.
func (h *hub) run(t *testing.T) {
	t.Helper()
	hubCfg := rest.CopyConfig(h.cfg)
	hubCfg.Impersonate = rest.ImpersonationConfig{
		UserName: hubUser, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + hubNamespace, "system:authenticated"},
	}
	mgr, err := ctrl.NewManager(hubCfg, ctrl.Options{
		Scheme: h.Scheme(), Cache: cache.Options{ByObject: CacheByObject()},
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		// Controller names are unique in a process, but several hubs share this one.
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: h.port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.serving, nil }
		}}}),
	})
	require.NoError(t, err)
	require.NoError(t, setUp(t.Context(), mgr, Options{
		Clock: clock.RealClock{}, RunAgent: fakeAgent, SecretNamespaces: []string{hubNamespace},
		ClusterAPINamespaces: h.capiNamespaces, Identity: "hub-0", Version: "v0.3.0",
		Registry: prometheus.NewRegistry(), Beat: time.Second, RowsDebounce: 100 * time.Millisecond,
	}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	h.stop = sync.OnceFunc(func() {
		stop()
		require.NoError(t, <-ended)
	})
	t.Cleanup(h.stop)
}

// servingCertificate returns a self-signed certificate for 127.0.0.1.
func servingCertificate(t *testing.T) (*tls.Certificate, []byte) {
	t.Helper()
	key, now := newKey(t), clock.RealClock{}.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// installWebhooks registers this package's webhooks, as the chart does.
func (h *hub) installWebhooks(t *testing.T, url string, ca []byte) {
	t.Helper()
	hook := func(name, path string, rule admissionregistrationv1.Rule, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name: name, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(url + path), CABundle: ca},
			Rules:        []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: rule}},
		}
	}
	clusters := hook("memberclusters.fleet.kruise.io", "/validate-fleet-kruise-io-membercluster", admissionregistrationv1.Rule{
		APIGroups: []string{"fleet.kruise.io"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"memberclusters"},
	}, admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete)
	namespaces := hook("namespaces.fleet.kruise.io", admit.ValidatePath(corev1.SchemeGroupVersion.WithKind("Namespace")), admissionregistrationv1.Rule{
		APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"},
	}, admissionregistrationv1.Delete)
	namespaces.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: keys.FleetCluster, Operator: metav1.LabelSelectorOpExists},
	}}
	require.NoError(t, h.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "flotilla-hub"},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{clusters, namespaces},
	}))
	// The configuration is in effect once an invalid object is refused.
	require.Eventually(t, func() bool {
		mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
		mc.Spec.Identity = &fleetv1alpha1.ClusterIdentity{ClusterUID: "NOT A UID"}
		return apierrors.IsInvalid(h.Create(t.Context(), mc, client.DryRunAll))
	}, settleTimeout, look)
}

// install creates the CRDs, the namespaces and the chart's static roles, and the roles generated from the markers.
func (h *hub) install(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("../../charts/hub/files/crds/fleet.*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, ns := range []string{fleetv1alpha1.SystemNamespace, hubNamespace} {
		require.NoError(t, h.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	}
	var manifests bytes.Buffer
	for _, f := range files {
		manifests.WriteString("---\n")
		manifests.Write(readFile(t, f))
	}
	generated, err := generatedRoles()
	require.NoError(t, err)
	manifests.WriteString("\n---\n")
	manifests.Write(generated)
	manifests.WriteString(staticRoles)
	if len(h.capiNamespaces) > 0 {
		manifests.WriteString(capiRoles)
	}
	for _, ns := range h.capiNamespaces {
		require.NoError(t, h.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
		fmt.Fprintf(&manifests, capiNamespaceRoles, ns)
	}
	h.apply(t, manifests.Bytes())
	require.Eventually(t, func() bool {
		return h.List(t.Context(), &fleetv1alpha1.MemberClusterList{}) == nil && h.List(t.Context(), &fleetv1alpha1.MemberWorkList{}) == nil
	}, settleTimeout, look)
}

// generatedRoles returns the roles generated from the markers, which are the same for each hub.
var generatedRoles = sync.OnceValues(func() ([]byte, error) {
	gen := exec.Command("go", "tool", "-modfile=../../e2e/tools/go.mod", "controller-gen",
		"rbac:roleName=flotilla-hub", "paths=.", "output:stdout")
	gen.Env = append(os.Environ(), "CGO_ENABLED=0") // Like make generate, so that the build is cached.
	return gen.Output()
})

func (h *hub) apply(t *testing.T, manifests []byte) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(u); err != nil {
			require.EqualError(t, err, "EOF")
			return
		}
		if len(u.Object) > 0 {
			require.NoError(t, h.Create(t.Context(), u), u.GetName())
		}
	}
}

const staticRoles = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: flotilla-member-rows}
rules:
- {apiGroups: [fleet.kruise.io], resources: [memberworks], verbs: [get, list, watch]}
- {apiGroups: [fleet.kruise.io], resources: [memberworks/status], verbs: [get, update, patch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [member], verbs: [get, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: flotilla-member-content}
rules:
- {apiGroups: [fleet.kruise.io], resources: [workcontents], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: flotilla-hub}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: flotilla-hub}
subjects: [{kind: ServiceAccount, name: flotilla-hub, namespace: flotilla-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: flotilla-hub, namespace: fleet-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: flotilla-hub}
subjects: [{kind: ServiceAccount, name: flotilla-hub, namespace: flotilla-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: flotilla-hub, namespace: flotilla-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: flotilla-hub}
subjects: [{kind: ServiceAccount, name: flotilla-hub, namespace: flotilla-system}]
`

// accept creates an accepted MemberCluster with short times.
func (h *hub) accept(t *testing.T, name string, change func(*fleetv1alpha1.MemberCluster)) {
	t.Helper()
	mc := &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: fleetv1alpha1.MemberClusterSpec{
			Accepted:  true,
			Heartbeat: fleetv1alpha1.Heartbeat{LeaseSeconds: 2, FailAfterSeconds: 4, RecoverAfterSeconds: 2},
		},
	}
	if change != nil {
		change(mc)
	}
	require.NoError(t, h.Create(t.Context(), mc))
}

func (h *hub) member(t *testing.T, name string) *fleetv1alpha1.MemberCluster {
	t.Helper()
	mc := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, h.Get(t.Context(), client.ObjectKey{Name: name}, mc))
	return mc
}

// awaitPhase waits for a phase, and prints the status if it is not reached.
func (h *hub) awaitPhase(t *testing.T, name string, want fleetv1alpha1.ClusterPhase) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		mc := &fleetv1alpha1.MemberCluster{}
		require.NoError(c, h.Get(t.Context(), client.ObjectKey{Name: name}, mc))
		require.Equal(c, want, mc.Status.Phase, "%+v", mc.Status.Conditions)
	}, settleTimeout, look)
}

func (h *hub) awaitThere(t *testing.T, o client.Object) {
	t.Helper()
	require.Eventually(t, func() bool { return h.Get(t.Context(), client.ObjectKeyFromObject(o), o) == nil }, settleTimeout, look,
		"%T %s", o, client.ObjectKeyFromObject(o))
}

func (h *hub) awaitGone(t *testing.T, o client.Object) {
	t.Helper()
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(h.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	}, settleTimeout, look, "%T %s", o, client.ObjectKeyFromObject(o))
}

// token returns a configuration with a join token for a cluster, as kubectl kruise cluster token creates it.
func (h *hub) token(t *testing.T, cluster string) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name: fleetv1alpha1.BootstrapAccount(cluster), Namespace: fleetv1alpha1.Namespace(cluster),
	}}
	h.awaitThere(t, account)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(600))}}
	require.NoError(t, h.SubResource("token").Create(t.Context(), account, request))
	cfg := rest.AnonymousClientConfig(h.cfg)
	cfg.BearerToken = request.Status.Token
	return cfg
}

// requestCertificate sends the certificate request for a cluster with that credential, once it has the permissions.
func (h *hub) requestCertificate(t *testing.T, cfg *rest.Config, cluster, uid string, key *ecdsa.PrivateKey) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: h.Scheme()})
	require.NoError(t, err)
	a := validRequest(t)
	a.key = key
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{UID: "00000000"}} // for a cluster that does not exist
	require.NoError(t, client.IgnoreNotFound(h.Get(t.Context(), client.ObjectKey{Name: cluster}, mc)))
	user := fleetv1alpha1.User(cluster, mc.UID)
	a.template.Subject.CommonName, a.template.Subject.Organization = user, []string{fleetv1alpha1.Group, user}
	a.csr.Name = fleetv1alpha1.RequestName(cluster)
	a.csr.Annotations[link.AnnotationClusterUID] = uid
	csr := a.build(t)
	csr.Spec.Username, csr.Spec.UID = "", ""
	require.Eventually(t, func() bool {
		err := c.Create(t.Context(), csr.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			require.NoError(t, c.Delete(t.Context(), csr.DeepCopy()))
		}
		return err == nil
	}, settleTimeout, look, "the bootstrap role allows the request")
	require.Eventually(t, func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(csr), csr) == nil &&
			(len(csr.Status.Certificate) > 0 || answered(csr, certificatesv1.CertificateDenied) != nil)
	}, settleTimeout, look, "the request is answered and signed")
	return csr
}

// join goes through all steps of a join and returns a client with the member's certificate.
func (h *hub) join(t *testing.T, cluster string) client.Client {
	t.Helper()
	key := newKey(t)
	csr := h.requestCertificate(t, h.token(t, cluster), cluster, cluster+"-uid", key)
	require.NotEmpty(t, csr.Status.Certificate, "%+v", csr.Status.Conditions)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	cfg := rest.AnonymousClientConfig(h.cfg)
	cfg.CertData = csr.Status.Certificate
	cfg.KeyData = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	c, err := client.New(cfg, client.Options{Scheme: h.Scheme()})
	require.NoError(t, err)
	return c
}

// renew renews the Lease once, like an agent.
func renew(ctx context.Context, c client.Client, cluster string) error {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.Namespace(cluster), Name: fleetv1alpha1.MemberLease}
	if err := c.Get(ctx, key, lease); err != nil {
		return err
	}
	lease.Spec.RenewTime, lease.Spec.HolderIdentity = new(metav1.NowMicro()), new("agent")
	return c.Update(ctx, lease)
}

// reportConditions writes conditions to the status like an agent.
func reportConditions(ctx context.Context, c client.Client, cluster string, conditions ...string) error {
	var list []any
	for _, kind := range conditions {
		list = append(list, map[string]any{
			"type": kind, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
		})
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": map[string]any{"name": cluster},
		"status": map[string]any{"conditions": list},
	}}
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(link.AgentManager), client.ForceOwnership)
}

// fakeAgent is an agent that renews its Lease and binds its member until its context ends, or records that it follows a tombstone.
func fakeAgent(ctx context.Context, l link.Link) error {
	if l.Left {
		return followTombstone(ctx, l)
	}
	c, mc := l.Hub.GetClient(), &fleetv1alpha1.MemberCluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: l.Cluster}, mc); err != nil {
		return err
	}
	if !report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionOwnedByThisHub) {
		if err := reportConditions(ctx, c, l.Cluster, fleetv1alpha1.ConditionOwnedByThisHub); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		lease := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": fleetv1alpha1.MemberLease, "namespace": l.Namespace()},
			"spec":     map[string]any{"renewTime": metav1.NowMicro().UTC().Format(metav1.RFC3339Micro), "holderIdentity": l.Identity},
		}}
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(lease), client.FieldOwner(link.AgentManager), client.ForceOwnership); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// followTombstone acts like an agent that follows a tombstone, and records it in ConfigMap followed.
func followTombstone(ctx context.Context, l link.Link) error {
	system, stone := &corev1.Namespace{}, &corev1.ConfigMap{}
	if err := l.Member.GetAPIReader().Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.TombstoneName(string(system.UID))}
	if err := l.Hub.GetAPIReader().Get(ctx, key, stone); err != nil {
		return err
	}
	err := l.Hub.GetClient().Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "followed", Namespace: key.Namespace},
		Data:       map[string]string{"cluster": l.Cluster, "policy": stone.Data[link.TombstonePolicy]},
	})
	if err != nil {
		return err
	}
	return link.ErrLeft
}

// keepAlive renews the Lease in the background until stop is called.
func keepAlive(t *testing.T, c client.Client, cluster string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			_ = renew(ctx, c, cluster) // a renewal may be lost, and in some tests it is
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (h *hub) addRow(t *testing.T, cluster string) {
	t.Helper()
	row := &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{
			Name: "row", Namespace: fleetv1alpha1.Namespace(cluster), Finalizers: []string{keys.FleetRow},
			Labels: map[string]string{keys.FleetCluster: cluster},
		},
		Spec: fleetv1alpha1.MemberWorkSpec{
			Source:  fleetv1alpha1.WorkSource{APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment", Name: "web", UID: "u"},
			Content: fleetv1alpha1.WorkContentSource{Ref: "c-1"},
		},
	}
	require.NoError(t, h.Create(t.Context(), row))
}

func TestIntegrationPullMember(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.accept(t, "east", nil)
	h.accept(t, "west", nil)
	h.awaitPhase(t, "east", fleetv1alpha1.ClusterJoining)
	bootstrap := h.token(t, "east")
	east := h.join(t, "east")

	// The token is not valid for another cluster. It is valid again for this one only until the member renews its Lease, because its agent may
	// crash before it stores the certificate.
	again := h.requestCertificate(t, bootstrap, "east", "east-uid", newKey(t))
	require.NotNil(t, answered(again, certificatesv1.CertificateApproved))
	other := h.requestCertificate(t, bootstrap, "east", "other-uid", newKey(t))
	require.Equal(t, reasonWrongIdentity, answered(other, certificatesv1.CertificateDenied).Reason)
	require.Equal(t, "east-uid", h.member(t, "east").Spec.Identity.ClusterUID)
	bootstrapClient, err := client.New(bootstrap, client.Options{Scheme: h.Scheme()})
	require.NoError(t, err)
	require.True(t, apierrors.IsForbidden(bootstrapClient.Get(t.Context(), client.ObjectKey{Name: "west"}, &fleetv1alpha1.MemberCluster{})))

	h.awaitEvent(t, "MemberCluster", "east", eventRequestDenied)
	unknown := h.requestCertificate(t, h.cfg, "nowhere", "some-uid", newKey(t))
	require.Equal(t, reasonUnknownCluster, answered(unknown, certificatesv1.CertificateDenied).Reason)
	h.awaitEvent(t, "CertificateSigningRequest", "fleet-nowhere", eventRequestDenied)

	// The certificate works for the member's own objects, and not for the objects of others.
	h.addRow(t, "east")
	h.addRow(t, "west")
	require.NoError(t, east.List(t.Context(), &fleetv1alpha1.MemberWorkList{}, client.InNamespace("fleet-east")))
	require.NoError(t, east.Get(t.Context(), client.ObjectKey{Name: "east"}, &fleetv1alpha1.MemberCluster{}))
	for name, err := range map[string]error{
		"rows of west":            east.List(t.Context(), &fleetv1alpha1.MemberWorkList{}, client.InNamespace("fleet-west")),
		"rows of all":             east.List(t.Context(), &fleetv1alpha1.MemberWorkList{}),
		"west":                    east.Get(t.Context(), client.ObjectKey{Name: "west"}, &fleetv1alpha1.MemberCluster{}),
		"all member clusters":     east.List(t.Context(), &fleetv1alpha1.MemberClusterList{}),
		"contents":                east.List(t.Context(), &fleetv1alpha1.WorkContentList{}, client.InNamespace(fleetv1alpha1.SystemNamespace)),
		"Secrets":                 east.List(t.Context(), &corev1.SecretList{}, client.InNamespace("fleet-east")),
		"the Lease of west":       renew(t.Context(), east, "west"),
		"the status of west":      reportConditions(t.Context(), east, "west", "APIHealthy"),
		"the spec of its own row": east.Delete(t.Context(), &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{Name: "row", Namespace: "fleet-east"}}),
		"its own MemberCluster":   east.Delete(t.Context(), &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}),
	} {
		require.True(t, apierrors.IsForbidden(err), "%s: %v", name, err)
	}

	// The cluster is ready once its Lease is renewed. The token's account is deleted.
	stop := keepAlive(t, east, "east")
	require.NoError(t, reportConditions(t.Context(), east, "east", fleetv1alpha1.ConditionOwnedByThisHub))
	h.awaitPhase(t, "east", fleetv1alpha1.ClusterReady)
	h.awaitGone(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-east", Namespace: "fleet-east"}})
	h.awaitGone(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: bootstrapRole("east")}})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		mc := &fleetv1alpha1.MemberCluster{}
		require.NoError(c, h.Get(t.Context(), client.ObjectKey{Name: "east"}, mc))
		require.NotNil(c, mc.Status.Rows)
		require.EqualValues(c, 1, mc.Status.Rows.Total)
		require.True(c, report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReady))
	}, settleTimeout, look)

	// Nothing is written while nothing changes.
	before := h.member(t, "east").ResourceVersion
	require.Never(t, func() bool { return h.member(t, "east").ResourceVersion != before }, 3*time.Second, look)

	// Nor is anything written when the hub restarts (I9).
	h.stop()
	h.run(t)
	require.Never(t, func() bool { return h.member(t, "east").ResourceVersion != before }, 5*time.Second, look)

	// Deleted objects are created again.
	bound := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: roleRows, Namespace: "fleet-east"}}
	require.NoError(t, h.Delete(t.Context(), bound))
	h.awaitThere(t, bound)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.MemberLease, Namespace: "fleet-east"}}
	require.NoError(t, h.Delete(t.Context(), lease))
	h.awaitThere(t, lease)

	// Without renewals the cluster is frozen, but nothing more. It recovers.
	stop()
	h.awaitPhase(t, "east", fleetv1alpha1.ClusterUnreachable)
	require.NoError(t, h.Get(t.Context(), client.ObjectKey{Namespace: "fleet-east", Name: "row"}, &fleetv1alpha1.MemberWork{}))
	stop = keepAlive(t, east, "east")
	defer func() { stop() }()
	h.awaitPhase(t, "east", fleetv1alpha1.ClusterReady)

	// When it is no longer accepted, it loses its permissions and keeps its rows. When it is accepted again, it continues.
	h.setAccepted(t, "east", false)
	h.awaitPhase(t, "east", fleetv1alpha1.ClusterPending)
	require.Eventually(t, func() bool {
		return apierrors.IsForbidden(east.List(t.Context(), &fleetv1alpha1.MemberWorkList{}, client.InNamespace("fleet-east")))
	}, settleTimeout, look)
	require.NoError(t, h.Get(t.Context(), client.ObjectKey{Namespace: "fleet-east", Name: "row"}, &fleetv1alpha1.MemberWork{}))
	h.setAccepted(t, "east", true)
	h.awaitPhase(t, "east", fleetv1alpha1.ClusterReady)

	// It leaves. The row is withdrawn according to the policy, and everything is deleted once the agent has removed its binding.
	require.NoError(t, h.Delete(t.Context(), h.member(t, "east")))
	row := &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{Name: "row", Namespace: "fleet-east"}}
	require.Eventually(t, func() bool {
		return h.Get(t.Context(), client.ObjectKeyFromObject(row), row) == nil &&
			!row.DeletionTimestamp.IsZero() && row.Spec.DeletionPolicy == fleetv1alpha1.LeaveOrphan
	}, settleTimeout, look)
	testkit.Change(t, h.Client, row, func(w *fleetv1alpha1.MemberWork) {
		controllerutil.RemoveFinalizer(w, keys.FleetRow) // like hub/row when the agent has reported
	})
	require.NoError(t, reportConditions(t.Context(), east, "east", fleetv1alpha1.ConditionOwnedByThisHub, fleetv1alpha1.ConditionReleased))
	h.awaitNothing(t, "east")
	h.awaitGone(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "left-east-uid", Namespace: fleetv1alpha1.SystemNamespace}})
}

func (h *hub) awaitEvent(t *testing.T, kind, name, reason string) {
	t.Helper()
	require.Eventually(t, func() bool {
		all := &corev1.EventList{}
		require.NoError(t, h.List(t.Context(), all))
		return slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && e.Reason == reason
		})
	}, settleTimeout, look, "%s %s %s", kind, name, reason)
}

func (h *hub) setAccepted(t *testing.T, name string, accepted bool) {
	t.Helper()
	mc := h.member(t, name)
	next := mc.DeepCopy()
	next.Spec.Accepted = accepted
	require.NoError(t, h.Patch(t.Context(), next, client.MergeFrom(mc)))
}

// awaitNothing waits until only the tombstone of a cluster is left.
func (h *hub) awaitNothing(t *testing.T, cluster string) {
	t.Helper()
	h.awaitGone(t, &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}})
	h.awaitGone(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.Namespace(cluster)}})
	for _, list := range []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}} {
		require.NoError(t, h.List(t.Context(), list, client.MatchingLabels{keys.FleetCluster: cluster}))
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
		require.NoError(t, err)
		require.Empty(t, raw["items"])
	}
}

// TestIntegrationOneHub runs the tests that can share a hub. The other tests have their own hub, because they restart its manager or delete
// its epoch.
func TestIntegrationOneHub(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	for name, test := range map[string]func(*testing.T, *hub){
		"a member that does not answer leaves a tombstone": testMemberThatDoesNotAnswer,
		"a push member that can't join reports why":        testPushMemberThatCanNotJoin,
		"webhooks protect acceptance, identity and rows":   testWebhooks,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}

func testMemberThatDoesNotAnswer(t *testing.T, h *hub) {
	t.Helper()
	h.accept(t, "north", func(mc *fleetv1alpha1.MemberCluster) {
		mc.Spec.Leave = fleetv1alpha1.Leave{Policy: fleetv1alpha1.LeaveDelete, TimeoutSeconds: 1}
	})
	north := h.join(t, "north")
	h.addRow(t, "north")
	require.NoError(t, h.Delete(t.Context(), h.member(t, "north")))
	h.awaitNothing(t, "north")

	stone := &corev1.ConfigMap{}
	require.NoError(t, north.Get(t.Context(), client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: "left-north-uid"}, stone),
		"the old certificate reads the tombstone")
	require.Equal(t, "Delete", stone.Data[link.TombstonePolicy])
	require.True(t, apierrors.IsForbidden(north.Get(t.Context(), client.ObjectKey{Name: "north"}, &fleetv1alpha1.MemberCluster{})))

	// When the cluster joins again its tombstone is deleted. Otherwise its agent would follow it later.
	h.accept(t, "north", nil)
	h.join(t, "north")
	h.awaitGone(t, stone)
}

func TestIntegrationPushMember(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	token := h.memberToken(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "west-kubeconfig", Namespace: hubNamespace},
		Data:       map[string][]byte{"value": h.kubeconfig(t, token, func(u *clientcmdapi.AuthInfo) { u.TokenFile = "/etc/passwd" })},
	}
	h.accept(t, "west", func(mc *fleetv1alpha1.MemberCluster) {
		mc.Spec.Mode = fleetv1alpha1.ModePush
		mc.Spec.Push = &fleetv1alpha1.PushAccess{KubeconfigSecretRef: &fleetv1alpha1.SecretKeyRef{Namespace: hubNamespace, Name: secret.Name}}
	})
	h.awaitCredential(t, "west", reasonSecretNotFound)
	require.NoError(t, h.Create(t.Context(), secret))
	h.awaitCredential(t, "west", reasonKubeconfigRefused)

	good := h.kubeconfig(t, token, nil)
	testkit.Change(t, h.Client, secret, func(s *corev1.Secret) { s.Data["value"] = good })
	h.awaitCredential(t, "west", reasonKubeconfigValid)
	h.awaitPhase(t, "west", fleetv1alpha1.ClusterReady)
	system := &corev1.Namespace{}
	require.NoError(t, h.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system))
	require.Equal(t, string(system.UID), h.member(t, "west").Spec.Identity.ClusterUID)

	// A restart of the hub writes nothing (I9).
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.True(c, report.IsConditionTrue(h.member(t, "west").Status.Conditions, fleetv1alpha1.ConditionReady))
	}, settleTimeout, look)
	before := h.member(t, "west").ResourceVersion
	h.stop()
	h.run(t)
	require.Never(t, func() bool { return h.member(t, "west").ResourceVersion != before }, 5*time.Second, look)

	require.NoError(t, h.Delete(t.Context(), h.member(t, "west")))
	require.NoError(t, reportConditions(t.Context(), h, "west", fleetv1alpha1.ConditionOwnedByThisHub, fleetv1alpha1.ConditionReleased))
	h.awaitNothing(t, "west")
}

// A kubeconfig with one mistake after another: each has its own reason, and nothing changes in the member. Then the same cluster under a
// second name, and incompatible versions.
func testPushMemberThatCanNotJoin(t *testing.T, h *hub) {
	t.Helper()
	token := h.memberToken(t)
	edit := func(edit func(*clientcmdapi.Config)) []byte {
		cfg, err := clientcmd.Load(h.kubeconfig(t, token, nil))
		require.NoError(t, err)
		edit(cfg)
		raw, err := clientcmd.Write(*cfg)
		require.NoError(t, err)
		return raw
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "west-kubeconfig", Namespace: hubNamespace}}
	require.NoError(t, h.Create(t.Context(), secret))
	asPush := func(mc *fleetv1alpha1.MemberCluster) {
		mc.Spec.Mode = fleetv1alpha1.ModePush
		mc.Spec.Push = &fleetv1alpha1.PushAccess{KubeconfigSecretRef: &fleetv1alpha1.SecretKeyRef{Namespace: hubNamespace, Name: secret.Name}}
	}
	h.accept(t, "west", asPush)
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for _, c := range []struct {
		name, kind, reason string
		kubeconfig         []byte
	}{
		{"a wrong token", fleetv1alpha1.ConditionCredentialValid, "Unauthorized", h.kubeconfig(t, "not-a-token", nil)},
		{"a wrong CA", fleetv1alpha1.ConditionCredentialValid, "UnknownAuthority", edit(func(cfg *clientcmdapi.Config) {
			cfg.Clusters["west"].CertificateAuthorityData = h.ca
		})},
		{"an address without a server", fleetv1alpha1.ConditionHeartbeatFresh, "ConnectionRefused", edit(func(cfg *clientcmdapi.Config) {
			cfg.Clusters["west"].Server = "https://" + closed.Addr().String()
		})},
		{"a name that is not in the certificate", fleetv1alpha1.ConditionCredentialValid, "WrongName", edit(func(cfg *clientcmdapi.Config) {
			cfg.Clusters["west"].TLSServerName = "other.example"
		})},
	} {
		testkit.Change(t, h.Client, secret, func(s *corev1.Secret) { s.Data = map[string][]byte{"value": c.kubeconfig} })
		h.awaitReason(t, "west", c.kind, c.reason)
		h.awaitReason(t, "west", fleetv1alpha1.ConditionReady, c.reason)
		for _, condition := range h.member(t, "west").Status.Conditions {
			require.NotContains(t, condition.Message, token, c.name)
			require.NotContains(t, condition.Message, "not-a-token", c.name)
		}
	}
	testkit.Change(t, h.Client, secret, func(s *corev1.Secret) { s.Data["value"] = h.kubeconfig(t, token, nil) })
	h.awaitReason(t, "west", fleetv1alpha1.ConditionReady, reasonReady)

	h.accept(t, "second", asPush)
	h.awaitCredential(t, "second", reasonIdentityTaken)
	require.Contains(t, report.GetCondition(h.member(t, "second").Status.Conditions, fleetv1alpha1.ConditionReady).Message, "west")
	require.Nil(t, h.member(t, "second").Spec.Identity)
	h.awaitReason(t, "west", fleetv1alpha1.ConditionReady, reasonReady)

	for _, c := range []struct{ agent, reason string }{{"v0.1.0", reasonVersionSkew}, {"v0.2.0", reasonReady}, {"v0.5.0", reasonVersionSkew}} {
		testkit.ChangeStatus(t, h.Client, h.member(t, "west"), func(mc *fleetv1alpha1.MemberCluster) { mc.Status.AgentVersion = c.agent })
		h.awaitReason(t, "west", fleetv1alpha1.ConditionReady, c.reason)
	}
	require.Equal(t, "v0.3.0", h.member(t, "west").Status.Hub.Version)
}

// awaitReason waits for the reason of a condition.
func (h *hub) awaitReason(t *testing.T, name, kind, reason string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		mc := &fleetv1alpha1.MemberCluster{}
		require.NoError(c, h.Get(t.Context(), client.ObjectKey{Name: name}, mc))
		found := report.GetCondition(mc.Status.Conditions, kind)
		require.NotNil(c, found)
		require.Equal(c, reason, found.Reason, "%+v", mc.Status.Conditions)
	}, settleTimeout, look)
}

// A push member's apiserver is down when the hub releases the cluster, and is back after the hub was restarted (I12).
func TestIntegrationPushMemberThatWasAwayFollowsItsTombstone(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	west := lab.StartT(t, lab.Config{Name: "west", ControlPlaneOnly: true})
	cfg, err := west.REST()
	require.NoError(t, err)
	c, err := client.New(cfg, client.Options{Scheme: testScheme(t)})
	require.NoError(t, err)
	m := &hub{Client: c, cfg: cfg}
	require.NoError(t, m.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubNamespace}}))
	system := &corev1.Namespace{}
	require.NoError(t, m.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "west-kubeconfig", Namespace: hubNamespace},
		Data:       map[string][]byte{"value": m.kubeconfig(t, m.memberToken(t), nil)},
	}
	require.NoError(t, h.Create(t.Context(), secret))
	for _, policy := range []fleetv1alpha1.LeavePolicy{fleetv1alpha1.LeaveDelete, fleetv1alpha1.LeaveOrphan} {
		h.accept(t, "west", func(mc *fleetv1alpha1.MemberCluster) {
			mc.Spec.Mode = fleetv1alpha1.ModePush
			mc.Spec.Push = &fleetv1alpha1.PushAccess{KubeconfigSecretRef: &fleetv1alpha1.SecretKeyRef{Namespace: hubNamespace, Name: secret.Name}}
			mc.Spec.Leave = fleetv1alpha1.Leave{Policy: policy, TimeoutSeconds: 1}
		})
		h.awaitPhase(t, "west", fleetv1alpha1.ClusterReady)
		h.addRow(t, "west")

		require.NoError(t, west.StopComponent(t.Context(), "kube-apiserver"))
		require.NoError(t, h.Delete(t.Context(), h.member(t, "west")))
		h.awaitNothing(t, "west")
		stone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: fleetv1alpha1.TombstoneName(string(system.UID)), Namespace: fleetv1alpha1.SystemNamespace,
		}}
		h.awaitThere(t, stone)
		require.NotContains(t, fmt.Sprint(stone.Data), m.cfg.Host, "nothing of the kubeconfig is in it")
		h.awaitEvent(t, "ConfigMap", stone.Name, eventTombstoneWaits)

		h.stop()
		h.run(t)
		require.NoError(t, west.StartComponent(t.Context(), "kube-apiserver"))
		h.awaitGone(t, stone)
		followed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.SystemNamespace, Name: "followed"}}
		h.awaitThere(t, followed)
		require.Equal(t, map[string]string{"cluster": "west", "policy": string(policy)}, followed.Data)
		h.awaitEvent(t, "ConfigMap", stone.Name, eventTombstoneObeyed)
		require.NoError(t, h.Delete(t.Context(), followed))
	}
}

// A hub that lost its epoch doesn't invent one. It reports that and waits for its administrator.
func TestIntegrationHubThatLostItsEpoch(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.accept(t, "east", nil)
	h.awaitPhase(t, "east", fleetv1alpha1.ClusterJoining)
	bound := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: roleRows, Namespace: "fleet-east"}}
	h.awaitThere(t, bound)
	// The status is written after the RoleBinding. It doesn't contain an epoch that was lost before that.
	require.Eventually(t, func() bool { return h.member(t, "east").Status.Hub != nil }, settleTimeout, look)
	epoch := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.EpochConfigMap}}
	require.NoError(t, h.Delete(t.Context(), epoch.DeepCopy()))
	ready := func(c *assert.CollectT) *metav1.Condition {
		mc := &fleetv1alpha1.MemberCluster{}
		require.NoError(c, h.Get(t.Context(), client.ObjectKey{Name: "east"}, mc))
		require.NotNil(c, mc.Status.Hub)
		require.EqualValues(c, 1, mc.Status.Hub.Epoch, "the status keeps the last epoch")
		condition := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionReady)
		require.NotNil(c, condition)
		return condition
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, reasonHubIncomplete, ready(c).Reason) }, settleTimeout, look)
	h.awaitEvent(t, "MemberCluster", "east", eventHubIncomplete)

	h.stop()
	h.run(t)
	require.NoError(t, h.Delete(t.Context(), bound))
	// Never may return while its last check still runs, so the check shares nothing with what follows.
	boundKey, epochMap := client.ObjectKeyFromObject(bound), client.ObjectKeyFromObject(epoch)
	require.Never(t, func() bool {
		return h.Get(t.Context(), boundKey, &rbacv1.RoleBinding{}) == nil || h.Get(t.Context(), epochMap, &corev1.ConfigMap{}) == nil
	}, 3*time.Second, look, "the hub does not act after a restart or when a member is missing")

	epoch.Data = map[string]string{epochKey: "2"}
	require.NoError(t, h.Create(t.Context(), epoch))
	h.awaitThere(t, bound)
	require.Eventually(t, func() bool { return h.member(t, "east").Status.Hub.Epoch == 2 }, settleTimeout, look)
}

func testWebhooks(t *testing.T, h *hub) {
	t.Helper()
	h.accept(t, "east", nil)
	h.join(t, "east")
	h.addRow(t, "east")

	// This user may edit member clusters but lacks the verb accept.
	require.NoError(t, h.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "editor"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"fleet.kruise.io"}, Resources: []string{"memberclusters"}, Verbs: []string{"get", "create", "update", "patch"},
		}},
	}))
	require.NoError(t, h.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "editor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "editor"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "editor"}},
	}))
	cfg := rest.CopyConfig(h.cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "editor"}
	editor, err := client.New(cfg, client.Options{Scheme: h.Scheme()})
	require.NoError(t, err)

	change := func(c client.Client, f func(*fleetv1alpha1.MemberCluster)) error {
		mc := h.member(t, "east")
		next := mc.DeepCopy()
		f(next)
		return c.Patch(t.Context(), next, client.MergeFrom(mc), client.DryRunAll)
	}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"an editor may change fields other than acceptance", change(editor, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Region = "r" }), ""},
		{"an editor may not revoke the acceptance", change(editor, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Accepted = false }), `needs the verb "accept"`},
		{"an administrator may revoke the acceptance", change(h, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Accepted = false }), ""},
		{"an editor may create a cluster", editor.Create(t.Context(), &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, client.DryRunAll), ""},
		{"an editor may not create one that is accepted", editor.Create(t.Context(), &fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: fleetv1alpha1.MemberClusterSpec{Accepted: true},
		}, client.DryRunAll), `needs the verb "accept"`},
		{"the identity can't be changed", change(h, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Identity.ClusterUID = "another" }), "has joined with UID east-uid"},
		{"the identity can't be removed", change(h, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Identity = nil }), "has joined with UID east-uid"},
		{"the mode can't be changed", change(h, func(mc *fleetv1alpha1.MemberCluster) {
			mc.Spec.Mode, mc.Spec.Pull = fleetv1alpha1.ModePush, nil
			mc.Spec.Push = &fleetv1alpha1.PushAccess{KubeconfigSecretRef: &fleetv1alpha1.SecretKeyRef{Namespace: hubNamespace, Name: "x"}}
		}), "has joined in mode Pull"},
		{"a Secret outside the allowed namespaces is not read", h.Create(t.Context(), &fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: fleetv1alpha1.MemberClusterSpec{
				Mode: fleetv1alpha1.ModePush,
				Push: &fleetv1alpha1.PushAccess{KubeconfigSecretRef: &fleetv1alpha1.SecretKeyRef{Namespace: "kube-system", Name: "x"}},
			},
		}, client.DryRunAll), "supported values: \"flotilla-system\""},
		{"a namespace with rows is not deleted", h.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-east"}}), "delete the MemberCluster instead"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.want == "" {
				require.NoError(t, c.err)
				return
			}
			require.ErrorContains(t, c.err, c.want)
		})
	}
}

func (h *hub) awaitCredential(t *testing.T, name, reason string) {
	t.Helper()
	h.awaitReason(t, name, fleetv1alpha1.ConditionCredentialValid, reason)
}

// memberToken creates an account with the agent's permissions, in the cluster that acts as the member: the hub itself.
func (h *hub) memberToken(t *testing.T) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: hubNamespace}}
	require.NoError(t, h.Create(t.Context(), account))
	require.NoError(t, h.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "agent", Namespace: hubNamespace}},
	}))
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, h.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

func (h *hub) kubeconfig(t *testing.T, token string, change func(*clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	user := &clientcmdapi.AuthInfo{Token: token}
	if change != nil {
		change(user)
	}
	ca := h.cfg.CAData
	if len(ca) == 0 {
		ca = readFile(t, h.cfg.CAFile)
	}
	raw, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"west": {Server: h.cfg.Host, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"agent": user},
		Contexts:       map[string]*clientcmdapi.Context{"west": {Cluster: "west", AuthInfo: "agent"}},
		CurrentContext: "west",
	})
	require.NoError(t, err)
	return raw
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	return content
}

package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionregv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// Long is how long a step of a rollout may take.
var Long = testtimeout.Scale(90 * time.Second) //nolint:gochecknoglobals // A constant of this machine.

// Poll is the polling interval.
const Poll = 100 * time.Millisecond

// Config is what a test needs from a cluster.
type Config struct {
	// Scheme adds types beyond those of Kubernetes.
	Scheme func(*runtime.Scheme) error
	// Own requests a separate cluster for the test, because the test changes what others rely on. It has the CRDs of both charts too.
	Own *lab.Config
	// NoDefaulter means that the kind under test has no defaulting webhook.
	NoDefaulter bool
}

// Env is a part of a cluster: the namespaces whose names have its prefix. Its controllers and webhooks don't see others. So Envs with
// different controllers, or with different configurations of one controller, can share a cluster.
type Env struct {
	client.WithWatch
	// Cluster is the lab cluster.
	Cluster *lab.Cluster

	name        string
	rest        *rest.Config
	noDefaulter bool
}

// REST returns a client configuration for a cluster admin.
func (s *Env) REST() *rest.Config { return rest.CopyConfig(s.rest) }

// envLabel is the namespace label with the name of the Env.
const envLabel = "lab.flotilla.io/site"

// discardLogs discards the logs of controller-runtime. Its logger is global, so concurrent tests would race to set it.
var discardLogs = sync.OnceFunc(func() { ctrl.SetLogger(logr.Discard()) }) //nolint:gochecknoglobals // It guards a global.

// Start returns an Env in the cluster that all tests share, or in its own cluster, which is removed after the test.
func Start(t *testing.T, c Config) *Env {
	t.Helper()
	discardLogs()
	s := &Env{name: "t" + strings.ToLower(rand.Text()[:6]), noDefaulter: c.NoDefaulter}
	var err error
	if c.Own == nil {
		s.Cluster, err = plane.get(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { s.Cluster.LogFailure(t) })
	} else {
		s.Cluster = lab.StartT(t, *c.Own)
	}
	s.rest, err = s.Cluster.REST()
	require.NoError(t, err)
	connections := connrotation.NewDialer((&net.Dialer{}).DialContext)
	s.rest.Dial = connections.DialContext
	t.Cleanup(connections.CloseAll) // The cluster may outlive the process, which must not leak goroutines.
	if c.Own != nil {
		require.NoError(t, installCRDs(s.rest))
	}
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	if c.Scheme != nil {
		require.NoError(t, c.Scheme(scheme))
	}
	s.WithWatch, err = client.NewWithWatch(s.rest, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return s
}

// Namespace creates a namespace, which is deleted when the test ends: the nodes only have room for the pods of some tests.
func (s *Env) Namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: s.name + "-" + strings.ToLower(rand.Text()[:6]), Labels: map[string]string{envLabel: s.name},
	}}
	require.NoError(t, s.Create(t.Context(), ns))
	t.Cleanup(func() { // The test's own context has ended by now.
		require.NoError(t, client.IgnoreNotFound(s.Delete(context.WithoutCancel(t.Context()), ns)))
	})
	return ns.Name
}

// Run starts a manager with what add adds to it, and with the webhooks of a kind. It stops the manager before the cluster is removed. agent
// is the user agent of its requests, which identifies its writes.
func (s *Env) Run(t *testing.T, agent string, kind schema.GroupVersionKind, add func(ctrl.Manager)) {
	t.Helper()
	hooks := webhooks(kind, s.name)
	if s.noDefaulter {
		hooks.MutatingWebhooks = nil
	}
	require.NoError(t, hooks.Install(s.rest))
	t.Cleanup(func() { require.NoError(t, hooks.Cleanup()) })
	cfg := rest.CopyConfig(s.rest)
	cfg.UserAgent = agent
	mgr, err := event.NewManager(cfg, ctrl.Options{
		Scheme: s.Scheme(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}, // As in package option.
		Cache:      cache.Options{DefaultTransform: cache.TransformStripManagedFields(), NewInformer: s.informer},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir,
		}),
	})
	require.NoError(t, err)
	add(mgr)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	require.Eventually(t, func() bool { return mgr.GetWebhookServer().StartedChecker()(nil) == nil }, Long, Poll)
}

// webhooks returns the two webhook configurations of a kind for an Env, with their own certificate and port.
func webhooks(kind schema.GroupVersionKind, site string) *envtest.WebhookInstallOptions {
	name := strings.ToLower(kind.Kind)
	namespaces := &metav1.LabelSelector{MatchLabels: map[string]string{envLabel: site}}
	rules := []admissionregv1.RuleWithOperations{{
		Operations: []admissionregv1.OperationType{admissionregv1.Create, admissionregv1.Update},
		Rule: admissionregv1.Rule{
			APIGroups: []string{kind.Group}, APIVersions: []string{kind.Version}, Resources: []string{name + "s"},
		},
	}}
	// A namespace selector doesn't restrict cluster-scoped objects.
	own := []admissionregv1.MatchCondition{{
		Name: "own", Expression: fmt.Sprintf("request.?namespace.orValue('') != '' || object.metadata.?name.orValue('').startsWith('%s-')", site),
	}}
	call := func(path string) admissionregv1.WebhookClientConfig {
		return admissionregv1.WebhookClientConfig{Service: &admissionregv1.ServiceReference{Namespace: "x", Name: "x", Path: &path}}
	}
	return &envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionregv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "mutate-" + name + "-" + site},
			Webhooks: []admissionregv1.MutatingWebhook{{
				Name: "mutate." + name + ".kruise.io", ClientConfig: call(admit.MutatePath(kind)), Rules: rules,
				NamespaceSelector: namespaces, MatchConditions: own,
				SideEffects: ptr.To(admissionregv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		}},
		ValidatingWebhooks: []*admissionregv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "validate-" + name + "-" + site},
			Webhooks: []admissionregv1.ValidatingWebhook{{
				Name: "validate." + name + ".kruise.io", ClientConfig: call(admit.ValidatePath(kind)), Rules: rules,
				NamespaceSelector: namespaces, MatchConditions: own,
				SideEffects: ptr.To(admissionregv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		}},
	}
}

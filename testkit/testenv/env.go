package testenv

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionregv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

const (
	// Long is how long a step of a rollout may take on a busy machine.
	Long = 90 * time.Second
	// Poll is how often it is looked at.
	Poll = 100 * time.Millisecond
)

// Config is what a cluster has.
type Config struct {
	// Lab is the cluster itself.
	Lab lab.Config
	// CRDs are files.
	CRDs []string
	// Scheme adds the types beyond those of Kubernetes.
	Scheme func(*runtime.Scheme) error
}

// Site is a cluster in which controllers and their webhooks run.
type Site struct {
	client.WithWatch
	// Cluster is the lab's.
	Cluster *lab.Cluster

	rest *rest.Config
}

// silence discards what controller-runtime logs. Its logger is that of the whole process, and tests that begin at a time would
// race to set it.
var silence = sync.OnceFunc(func() { ctrl.SetLogger(logr.Discard()) }) //nolint:gochecknoglobals // It is about a global.

// Start starts a cluster, which ends with the test.
func Start(t *testing.T, c Config) *Site {
	t.Helper()
	silence()
	s := &Site{Cluster: lab.StartT(t, c.Lab)}
	var err error
	s.rest, err = s.Cluster.REST()
	require.NoError(t, err)
	s.rest.QPS = -1
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, c.Scheme(scheme))
	s.WithWatch, err = client.NewWithWatch(s.rest, client.Options{Scheme: scheme})
	require.NoError(t, err)
	_, err = envtest.InstallCRDs(s.rest, envtest.CRDInstallOptions{Paths: c.CRDs, ErrorIfPathMissing: true})
	require.NoError(t, err)
	return s
}

// Run starts a manager with what add puts into it, and with the webhooks of a kind, and stops it before the cluster goes.
// Its requests carry agent, so that its writes can be told from those of others.
func (s *Site) Run(t *testing.T, agent string, kind schema.GroupVersionKind, add func(ctrl.Manager)) {
	t.Helper()
	hooks := webhooks(kind)
	require.NoError(t, hooks.Install(s.rest))
	t.Cleanup(func() { require.NoError(t, hooks.Cleanup()) })
	cfg := rest.CopyConfig(s.rest)
	cfg.UserAgent = agent
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: s.Scheme(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}, // As in package option.
		Cache:      cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
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

// webhooks are the two configurations of a kind, with a certificate and a port of their own.
func webhooks(kind schema.GroupVersionKind) *envtest.WebhookInstallOptions {
	name := strings.ToLower(kind.Kind)
	rules := []admissionregv1.RuleWithOperations{{
		Operations: []admissionregv1.OperationType{admissionregv1.Create, admissionregv1.Update},
		Rule: admissionregv1.Rule{
			APIGroups: []string{kind.Group}, APIVersions: []string{kind.Version}, Resources: []string{name + "s"},
		},
	}}
	call := func(path string) admissionregv1.WebhookClientConfig {
		return admissionregv1.WebhookClientConfig{Service: &admissionregv1.ServiceReference{Namespace: "x", Name: "x", Path: &path}}
	}
	return &envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionregv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "mutate-" + name},
			Webhooks: []admissionregv1.MutatingWebhook{{
				Name: "mutate." + name + ".kruise.io", ClientConfig: call(admit.MutatePath(kind)), Rules: rules,
				SideEffects: ptr.To(admissionregv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		}},
		ValidatingWebhooks: []*admissionregv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "validate-" + name},
			Webhooks: []admissionregv1.ValidatingWebhook{{
				Name: "validate." + name + ".kruise.io", ClientConfig: call(admit.ValidatePath(kind)), Rules: rules,
				SideEffects: ptr.To(admissionregv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		}},
	}
}

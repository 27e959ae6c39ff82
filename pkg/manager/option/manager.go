package option

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-io/flotilla/pkg/manager/cert"
)

// Version is what --version prints and agents report. The build sets it.
var Version = "v0.0.0" //nolint:gochecknoglobals // The linker can set nothing else.

// Manager are the options that every manager has.
type Manager struct {
	// Name is the program's name, used for its Lease, its user agent and its webhook configurations. No flag sets it.
	Name string

	// Kubeconfig is a file; empty means the ServiceAccount of our own pod.
	Kubeconfig string
	// Namespace is our own namespace, which holds the Lease and the Secrets.
	Namespace string
	// QPS and Burst limit requests to the API server. QPS 0 means no limit: the API server has priority and fairness, and few requests run at the
	// same time.
	QPS   float32
	Burst int

	// LeaderElection is disabled only for a single replica under a debugger.
	LeaderElection bool
	LeaseDuration  time.Duration
	RenewDeadline  time.Duration
	RetryPeriod    time.Duration
	// Yield is the Lease of another manager that runs the same kinds: while it is being renewed, no replica of ours leads. Empty means none. No
	// flag in this group sets it.
	Yield types.NamespacedName

	// MetricsAddr, HealthAddr and PprofAddr are host:port; "0" or empty means off.
	MetricsAddr, HealthAddr, PprofAddr string

	// CacheSyncTimeout is how long a controller waits for its first list before the manager ends with an error.
	CacheSyncTimeout time.Duration
	// ShutdownTimeout is how long running reconciles have to finish.
	ShutdownTimeout time.Duration

	// LogLevel is the highest V level that is logged; LogFormat is json or console.
	LogLevel  int
	LogFormat string

	// Webhook holds the options of the webhook server.
	Webhook Webhook
}

// Webhook is where the webhook server listens, how it is called, and where its certificate is stored.
type Webhook struct {
	// BindAddr is host:port to listen on; empty means the one in URL, or port 9876 on all addresses.
	BindAddr string
	// URL is https://host:port when we run outside the cluster.
	URL string
	// Service and ServicePort are how the cluster's API server calls us if there is no URL.
	Service     string
	ServicePort int32
	// Secret is the name of the Secret that holds the certificate, in Manager.Namespace.
	Secret string
	// External: another component creates and renews the contents of the Secret.
	External bool
	// CAValidity and CertValidity are how long new certificates are valid; Settle is how long API servers may have stale configurations.
	CAValidity, CertValidity, Settle time.Duration
}

// defaultWebhookPort is the container's port in the charts.
const defaultWebhookPort = 9876

const (
	formatJSON    = "json"
	formatConsole = "console"
	maxLogLevel   = 10
)

// NewManager returns the defaults for the program with that name.
func NewManager(name string) *Manager {
	return &Manager{
		Name: name, Namespace: "flotilla-system", Burst: 600,
		LeaderElection: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		MetricsAddr: ":8080", HealthAddr: ":8000",
		CacheSyncTimeout: 2 * time.Minute, ShutdownTimeout: 30 * time.Second,
		LogFormat: formatJSON,
		Webhook: Webhook{
			Service: name, ServicePort: 443, Secret: name + "-webhook",
			CAValidity: cert.DefaultCAValidity, CertValidity: cert.DefaultServingValidity, Settle: cert.DefaultSettle,
		},
	}
}

// AddFlags binds m to flags; their defaults are the values of m.
func (m *Manager) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&m.Kubeconfig, "kubeconfig", m.Kubeconfig, "File with the address and credential of the apiserver. "+
		"If empty, the ServiceAccount of the pod that this runs in is used.")
	f.StringVar(&m.Namespace, "namespace", m.Namespace, "Namespace of this manager, its Lease and its Secrets. "+
		"Unlike OpenKruise's flag of this name, it does NOT limit which namespaces are served: all of them are.")
	f.Float32Var(&m.QPS, "rest-config-qps", m.QPS, "Average requests per second to the apiserver. "+
		"0 leaves limits to the apiserver's priority and fairness.")
	f.IntVar(&m.Burst, "rest-config-burst", m.Burst, "Requests to the apiserver that may be sent in a burst, "+
		"with --rest-config-qps.")

	f.BoolVar(&m.LeaderElection, "enable-leader-election", m.LeaderElection,
		"Let only one replica at a time reconcile. All replicas serve webhooks.")
	f.DurationVar(&m.LeaseDuration, "leader-election-lease-duration", m.LeaseDuration,
		"Time without a renewal after which another replica takes over.")
	f.DurationVar(&m.RenewDeadline, "leader-election-renew-deadline", m.RenewDeadline,
		"Time without a successful renewal after which the leader exits.")
	f.DurationVar(&m.RetryPeriod, "leader-election-retry-period", m.RetryPeriod, "Time between attempts to acquire or renew the Lease.")

	f.StringVar(&m.MetricsAddr, "metrics-addr", m.MetricsAddr, "host:port that serves /metrics over HTTP; 0 disables it.")
	f.StringVar(&m.HealthAddr, "health-probe-addr", m.HealthAddr, "host:port that serves /healthz and /readyz; 0 disables it.")
	f.StringVar(&m.PprofAddr, "pprof-addr", m.PprofAddr,
		"host:port that serves /debug/pprof, such as localhost:8090. Empty disables it: anyone who can connect sees the memory of the process.")

	f.DurationVar(&m.CacheSyncTimeout, "controller-cache-sync-timeout", m.CacheSyncTimeout,
		"Exit with an error if a controller's first list takes longer.")
	f.DurationVar(&m.ShutdownTimeout, "shutdown-timeout", m.ShutdownTimeout, "Time that running reconciles have to finish at shutdown.")
	f.IntVarP(&m.LogLevel, "v", "v", m.LogLevel,
		"Log level: 0 logs what changed, 1 also why something waits and each admission, 4 also data.")
	f.StringVar(&m.LogFormat, "logging-format", m.LogFormat, "json, or console for human readers.")
	m.Webhook.addFlags(f)
}

func (w *Webhook) addFlags(f *pflag.FlagSet) {
	f.StringVar(&w.BindAddr, "webhook-bind-addr", w.BindAddr, fmt.Sprintf(
		"host:port that the webhook server listens on. If empty, the one of --webhook-url is used, or else :%d.", defaultWebhookPort))
	f.StringVar(&w.URL, "webhook-url", w.URL, "https://host:port at which the apiserver reaches the webhook server, "+
		"when this manager runs outside the cluster. If empty, the Service is used.")
	f.StringVar(&w.Service, "webhook-service", w.Service, "Service of the webhook server, in --namespace.")
	f.Int32Var(&w.ServicePort, "webhook-service-port", w.ServicePort, "Port of that Service.")
	f.StringVar(&w.Secret, "webhook-secret", w.Secret,
		"Secret in --namespace with the webhook certificate. The replicas create and rotate it together.")
	f.BoolVar(&w.External, "webhook-external-cert", w.External, "The certificate in --webhook-secret is created and renewed by another program, "+
		"such as cert-manager: ca.crt, tls.crt and tls.key. The manager never writes it, but copies its CA to whatever calls the webhooks.")
	f.DurationVar(&w.CAValidity, "webhook-ca-validity", w.CAValidity,
		"How long a new CA is valid; must be more than three times --webhook-cert-validity.")
	f.DurationVar(&w.CertValidity, "webhook-cert-validity", w.CertValidity, "How long a new webhook certificate is valid.")
	f.DurationVar(&w.Settle, "webhook-settle-time", w.Settle, "How long apiservers may take to trust a new CA, which signs nothing before.")
}

// Validate returns all invalid values.
func (m *Manager) Validate() error {
	var errs []error
	refuse := func(bad bool, flag string, value any, want string) {
		if bad {
			errs = append(errs, fmt.Errorf("--%s=%v: %s", flag, value, want))
		}
	}
	refuse(len(validation.IsDNS1123Label(m.Namespace)) > 0, "namespace", m.Namespace,
		"must be the name of the namespace that this manager runs in; the served namespaces can't be limited")
	refuse(m.QPS < 0, "rest-config-qps", m.QPS, "must not be negative; 0 is no limit")
	refuse(m.Burst < 1, "rest-config-burst", m.Burst, "must be at least 1")
	refuse(m.RetryPeriod <= 0, "leader-election-retry-period", m.RetryPeriod, "must be above 0")
	refuse(float64(m.RenewDeadline) <= 1.2*float64(m.RetryPeriod), "leader-election-renew-deadline", m.RenewDeadline,
		"must be more than 1.2 times --leader-election-retry-period")
	refuse(m.LeaseDuration <= m.RenewDeadline, "leader-election-lease-duration", m.LeaseDuration,
		"must be longer than --leader-election-renew-deadline")
	for _, a := range []struct{ flag, value string }{
		{"metrics-addr", m.MetricsAddr},
		{"health-probe-addr", m.HealthAddr},
		{"pprof-addr", m.PprofAddr},
		{"webhook-bind-addr", m.Webhook.BindAddr},
	} {
		_, _, err := splitAddr(a.value)
		refuse(err != nil && !off(a.value), a.flag, a.value, "must be host:port or :port")
	}
	refuse(m.CacheSyncTimeout <= 0, "controller-cache-sync-timeout", m.CacheSyncTimeout, "must be above 0")
	refuse(m.ShutdownTimeout < 0, "shutdown-timeout", m.ShutdownTimeout, "must not be negative")
	refuse(m.LogLevel < 0 || m.LogLevel > maxLogLevel, "v", m.LogLevel, "must be 0 to 10")
	refuse(!slices.Contains([]string{formatJSON, formatConsole}, m.LogFormat), "logging-format", m.LogFormat, "must be json or console")
	return errors.Join(append(errs, m.Webhook.validate())...)
}

func (w *Webhook) validate() error {
	var errs []error
	if w.URL != "" {
		if _, err := cert.ParseURL(w.URL); err != nil {
			errs = append(errs, fmt.Errorf("--webhook-url: %w", err))
		}
	}
	if len(validation.IsDNS1035Label(w.Service)) > 0 {
		errs = append(errs, fmt.Errorf("--webhook-service=%s: must be the name of a Service", w.Service))
	}
	if len(validation.IsDNS1123Subdomain(w.Secret)) > 0 {
		errs = append(errs, fmt.Errorf("--webhook-secret=%s: must be the name of a Secret", w.Secret))
	}
	if w.ServicePort < 1 || w.ServicePort > 65535 {
		errs = append(errs, fmt.Errorf("--webhook-service-port=%d: must be 1 to 65535", w.ServicePort))
	}
	if w.CertValidity <= 0 || w.CAValidity <= 3*w.CertValidity {
		errs = append(errs, fmt.Errorf("--webhook-ca-validity=%s: must be more than three times --webhook-cert-validity=%s, "+
			"which must be above 0", w.CAValidity, w.CertValidity))
	}
	if w.Settle <= 0 || w.CertValidity < 2*w.Settle {
		errs = append(errs, fmt.Errorf("--webhook-settle-time=%s: must be above 0, and not more than half of --webhook-cert-validity=%s",
			w.Settle, w.CertValidity))
	}
	return errors.Join(errs...)
}

// namespaceFile contains the namespace of the pod that this process runs in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// checkNamespace returns an error if file names a different namespace than ours. Our Service is in that namespace too and only selects pods
// there, so nothing could work. With a kubeconfig or a URL of our own, this may be a pod in another cluster.
func (m *Manager) checkNamespace(file string) error {
	text, err := os.ReadFile(file) //nolint:gosec // A constant, but for tests.
	own := strings.TrimSpace(string(text))
	if err != nil || m.Kubeconfig != "" || m.Webhook.URL != "" || own == m.Namespace {
		return nil //nolint:nilerr // Outside a pod there is no file.
	}
	return fmt.Errorf("--namespace=%s: this pod runs in namespace %s: set --namespace=%s. The flag names the namespace of the Lease and "+
		"Secrets of this manager; with OpenKruise it limits the namespaces that are served, which is not possible here",
		m.Namespace, own, own)
}

// RESTConfig returns the client configuration for the API server.
func (m *Manager) RESTConfig() (*rest.Config, error) {
	var cfg *rest.Config
	var err error
	if m.Kubeconfig == "" {
		if cfg, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("find the apiserver: %w; outside a cluster, set --kubeconfig", err)
		}
	} else if cfg, err = clientcmd.BuildConfigFromFlags("", m.Kubeconfig); err != nil {
		return nil, fmt.Errorf("read --kubeconfig=%s: %w", m.Kubeconfig, err)
	}
	if cfg.QPS, cfg.Burst = m.QPS, m.Burst; m.QPS == 0 {
		cfg.QPS = -1 // client-go replaces 0 with its default of 5.
	}
	cfg.UserAgent = m.Name + "/" + Version
	return cfg, nil
}

// Options returns the controller-runtime manager options that m determines. The caller adds Scheme, Cache and WebhookServer.
func (m *Manager) Options() ctrl.Options {
	return ctrl.Options{
		LeaderElection:          m.LeaderElection,
		LeaderElectionID:        m.Name,
		LeaderElectionNamespace: m.Namespace,
		LeaseDuration:           &m.LeaseDuration,
		RenewDeadline:           &m.RenewDeadline,
		RetryPeriod:             &m.RetryPeriod,
		// The process ends when the manager does, so the next leader need not wait for the Lease to expire.
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       server.Options{BindAddress: m.MetricsAddr},
		HealthProbeBindAddress:        m.HealthAddr,
		PprofBindAddress:              m.PprofAddr,
		GracefulShutdownTimeout:       &m.ShutdownTimeout,
		Controller: config.Controller{
			CacheSyncTimeout: m.CacheSyncTimeout,
			// Its workers may hang when the manager ends (controller-runtime#3538), and then the Lease isn't released.
			UsePriorityQueue: new(false),
		},
	}
}

// Certificate returns the options of the Keeper for the webhook configurations with our name and for the conversion of crds.
func (m *Manager) Certificate(crds ...string) cert.Options {
	return cert.Options{
		Secret:     types.NamespacedName{Namespace: m.Namespace, Name: m.Webhook.Secret},
		External:   m.Webhook.External,
		Service:    cert.Service{Namespace: m.Namespace, Name: m.Webhook.Service, Port: m.Webhook.ServicePort},
		URL:        m.Webhook.URL,
		Mutating:   []string{m.Name},
		Validating: []string{m.Name},
		CRDs:       crds,
		CAValidity: m.Webhook.CAValidity, ServingValidity: m.Webhook.CertValidity, Settle: m.Webhook.Settle,
	}
}

// Listen returns the host and port of the webhook server. Validate must have passed.
func (w *Webhook) Listen() (host string, port int, err error) {
	switch {
	case w.BindAddr != "":
		return splitAddr(w.BindAddr)
	case w.URL != "":
		u, err := url.Parse(w.URL)
		if err != nil {
			return "", 0, err
		}
		return splitAddr(u.Host)
	}
	return "", defaultWebhookPort, nil
}

func off(addr string) bool { return addr == "" || addr == "0" }

func splitAddr(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || strings.ContainsAny(host, "/ ") {
		return "", 0, fmt.Errorf("address %q is not host:port", addr)
	}
	return host, int(n), nil
}

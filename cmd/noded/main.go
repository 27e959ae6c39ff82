// Command flotilla-noded is the node daemon. For the pods of one node, it does what needs access to the node's container runtime.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-io/flotilla/member/node"
	"github.com/flotilla-io/flotilla/member/node/image"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/option"
	"github.com/flotilla-io/flotilla/pkg/noded/credentialprovider"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
)

// nodeName is the env variable that the downward API sets.
const nodeName = "NODE_NAME"

// flags holds the settings from the command line and the environment.
type flags struct {
	// manager holds what the daemon shares with managers. It has no webhooks and no leader election.
	manager *option.Manager
	gates   *feature.Gates
	node    string
	// addr serves metrics and health. pprof serves profiles.
	addr        string
	enablePprof bool
	// dir is where the host's /run is mounted. file is the runtime's socket below it.
	dir, file string
	// pulls is the maximum number of concurrent image pulls. 0 or less means no limit. Default image.DefaultLimit.
	pulls int
	// pluginConfig and pluginDir locate the node's credential provider plugins.
	pluginConfig, pluginDir string
}

func main() {
	cmd, err := command()
	if err == nil {
		err = cmd.ExecuteContext(ctrl.SetupSignalHandler())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, node.Component+":", err)
		os.Exit(1)
	}
}

func command() (*cobra.Command, error) {
	gates, err := feature.New(feature.All()...)
	if err != nil {
		return nil, err
	}
	f := &flags{manager: option.NewManager(node.Component), gates: gates, node: os.Getenv(nodeName)}
	f.manager.QPS, f.manager.Burst = 5, 10
	cmd := &cobra.Command{
		Use: node.Component, Short: "Restart and stop containers on one node and report on them", Version: option.Version,
		Long: "Flotilla-noded runs on each node of a member cluster. It carries out ContainerRecreateRequests for the pods of\n" +
			"its node. It restarts containers whose environment comes from\n" +
			"labels or annotations that an in-place update has changed, through the node's container runtime, and reports the\n" +
			"values they were started with. While it works, it renews a Lease, which the member manager watches. With gate\n" +
			"SidecarTerminator, it stops the sidecars of Jobs whose other containers have ended; with gate ImagePullJobGate, it\n" +
			"pulls the images of the node's NodeImage; with gate PodProbeMarkerGate or EnhancedLivenessProbe, it runs the probes of\n" +
			"its NodePodProbe.\n\n" +
			"Environment variable NODE_NAME is the name of the node.",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	f.add(cmd.Flags())
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(statusCommand(clock.RealClock{}))
	return cmd, nil
}

func (f *flags) add(s *pflag.FlagSet) {
	m := f.manager
	s.StringVar(&m.Kubeconfig, "kubeconfig", "", "File with the address and credential of the apiserver. "+
		"If empty, the ServiceAccount of the pod that this runs in is used.")
	s.StringVar(&m.Namespace, "namespace", m.Namespace, "Namespace of the release, which contains the node's Lease.")
	s.StringVar(&f.addr, "addr", ":10221", "host:port that serves /metrics, /healthz and /readyz over HTTP.")
	s.BoolVar(&f.enablePprof, "enable-pprof", false, "Serve profiles at --pprof-addr.")
	s.StringVar(&m.PprofAddr, "pprof-addr", "localhost:10222", "host:port that serves /debug/pprof.")
	f.addSockets(s)
	s.IntVar(&f.pulls, "max-workers-for-pull-image", image.DefaultLimit, "How many images are pulled at once on the node; 0 or less means any number. "+
		"A namespace gets another pull only while as many slots stay free for others.")
	s.StringVar(&f.pluginConfig, "plugin-config-file", "/kruise/CredentialProviderPlugin.yaml", "CredentialProviderConfig of the kubelet: "+
		"its plugins provide the credentials for pulling images. If the file does not exist, there are none.")
	s.StringVar(&f.pluginDir, "plugin-bin-dir", "/kruise/plugins", "Directory of the plugins that --plugin-config-file names.")
	s.Float32Var(&m.QPS, "rest-config-qps", m.QPS, "Average requests per second to the apiserver.")
	s.IntVar(&m.Burst, "rest-config-burst", m.Burst, "Requests to the apiserver that may be sent in a burst.")
	s.IntVarP(&m.LogLevel, "v", "v", 0, "Log level: 0 logs what changed, 1 also why something waits, 4 also data.")
	s.StringVar(&m.LogFormat, "logging-format", m.LogFormat, "json, or console for human readers.")
	f.gates.AddFlags(s)
}

// addSockets adds the flags for finding runtimes.
func (f *flags) addSockets(s *pflag.FlagSet) {
	s.StringVar(&f.dir, "socket-dir", "/hostvarrun", "Directory where the node's /run is mounted.")
	s.StringVar(&f.file, "socket-file", "", "Socket of the container runtime below --socket-dir. "+
		"If empty, those of containerd, CRI-O and cri-dockerd are tried.")
}

func (f *flags) validate() error {
	errs := []error{f.manager.Validate()}
	if len(validation.IsDNS1123Subdomain(f.node)) > 0 {
		errs = append(errs, fmt.Errorf("%s=%s: must be the name of the node that this runs on", nodeName, f.node))
	}
	if _, _, err := net.SplitHostPort(f.addr); err != nil {
		errs = append(errs, fmt.Errorf("--addr=%s: must be host:port or :port", f.addr))
	}
	return errors.Join(errs...)
}

// run runs the daemon until ctx ends.
func (f *flags) run(ctx context.Context) error {
	if err := f.validate(); err != nil {
		return err
	}
	log := f.manager.Logger().WithValues("node", f.node)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	ctx = ctrl.LoggerInto(ctx, log)
	for _, note := range f.gates.Notes() {
		log.Info("Feature gate has no effect", "reason", note)
	}
	mgr, err := f.setup(ctx)
	if err != nil {
		return err
	}
	log.Info("Started "+node.Component, "version", option.Version)
	return mgr.Start(ctx)
}

// setup creates the manager with everything that the daemon runs.
func (f *flags) setup(ctx context.Context) (ctrl.Manager, error) {
	cfg, err := f.manager.RESTConfig()
	if err != nil {
		return nil, err
	}
	scheme, err := node.Scheme()
	if err != nil {
		return nil, err
	}
	runtimes := cri.New(f.dir, f.file)
	check := func(c healthz.Checker) http.Handler { return healthz.CheckHandler{Checker: c} }
	identity, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this process: %w", err)
	}
	options := node.Options{
		Node: f.node, Namespace: f.manager.Namespace, Identity: identity, Runtimes: runtimes,
		Env: f.gates.Enabled(feature.InPlaceUpdateEnvFromMetadata), Images: feature.PullsImages(f.gates), PullLimit: max(0, f.pulls),
		Recreate: true, Terminator: f.gates.Enabled(feature.SidecarTerminator),
		Probes: f.gates.Enabled(feature.PodProbeMarker) || f.gates.Enabled(feature.EnhancedLiveness), Clock: clock.RealClock{},
	}
	if options.Images {
		if options.Providers, err = credentialprovider.Load(f.pluginConfig, f.pluginDir, clock.RealClock{}); err != nil {
			return nil, err
		}
		for _, why := range options.Providers.Skipped {
			ctrl.Log.Info("Credential provider is not used", "reason", why)
		}
	}
	o := node.Restrict(f.manager.Options(), options)
	o.Scheme, o.LeaderElection, o.HealthProbeBindAddress = scheme, false, "0"
	o.Metrics = server.Options{BindAddress: f.addr, ExtraHandlers: map[string]http.Handler{
		"/healthz": check(healthz.Ping), "/readyz": check(node.Ready(runtimes)),
	}}
	if !f.enablePprof {
		o.PprofBindAddress = ""
	}
	mgr, err := event.NewManager(cfg, o)
	if err != nil {
		return nil, err
	}
	return mgr, node.Setup(ctx, mgr, options)
}

// Command flotilla-member runs the workload controllers and webhooks of one cluster, and the agent for the hub that it joins.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/cmd/checkup"
	"github.com/flotilla-io/flotilla/member"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/member/agent/connect"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/pkg/manager/option"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

const name = "flotilla-member"

// openKruise is the name of the Lease of OpenKruise's manager.
const openKruise = "kruise-manager"

// flags are the command line's flags.
type flags struct {
	*option.Program
	kinds    setup.Kinds
	hub      *option.Hub
	localHub bool
	// webhooksOnly serves admission and conversion while another manager reconciles.
	webhooksOnly bool
	openKruise   openKruiseNamespace
	parallel     parallelWrites
	pods         podWebhook
	pullSecrets  pullSecrets
}

// parallelWrites is a group with one flag.
type parallelWrites int

// AddFlags adds the flag.
func (p *parallelWrites) AddFlags(f *pflag.FlagSet) {
	f.IntVar((*int)(p), "parallel-writes", int(*p), "Number of parallel writes to pods for one object.")
}

// Validate returns an error if the value is out of range.
func (p *parallelWrites) Validate() error {
	if *p < 1 || *p > 1000 {
		return fmt.Errorf("--parallel-writes=%d: must be 1 to 1000", *p)
	}
	return nil
}

// podWebhook is a group of flags: what is sent to the pod webhook, and what a failed call means.
type podWebhook struct {
	setup.PodWebhook

	features []string
}

// AddFlags adds the flags.
func (p *podWebhook) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&p.Exempt, "pod-webhook-exempt-namespaces", p.Exempt, "Namespaces whose pods are never sent to the pod webhook, "+
		"in addition to the manager's own. Pods of other namespaces are sent while an object there needs it.")
	f.StringSliceVar(&p.Ignore, "pod-webhook-ignore-failures", p.Ignore, "Features that pods are created without if no replica "+
		"answers or the feature fails, instead of being rejected: "+strings.Join(p.features, ", ")+".")
}

// Validate returns an error if a value is invalid.
func (p *podWebhook) Validate() error {
	for _, n := range p.Exempt {
		if len(validation.IsDNS1123Label(n)) > 0 {
			return fmt.Errorf("--pod-webhook-exempt-namespaces=%s: must be names of namespaces", n)
		}
	}
	for _, f := range p.Ignore {
		if !slices.Contains(p.features, f) {
			return fmt.Errorf("--pod-webhook-ignore-failures=%s: must be any of %s", f, strings.Join(p.features, ", "))
		}
	}
	return nil
}

// pullSecrets is a group with one flag: the Secrets that ImagePullJobs may name.
type pullSecrets []string

// AddFlags adds the flag.
func (s *pullSecrets) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar((*[]string)(s), "imagepulljob-secrets", nil, "Names of the Secrets with registry credentials that ImagePullJobs "+
		"may name: those for which this manager has rights.")
}

// Validate returns an error if a value is invalid.
func (s *pullSecrets) Validate() error {
	for _, name := range *s {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("--imagepulljob-secrets=%s: must be names of Secrets", name)
		}
	}
	return nil
}

// openKruiseNamespace is a group with one flag.
type openKruiseNamespace string

// AddFlags adds the flag.
func (n *openKruiseNamespace) AddFlags(f *pflag.FlagSet) {
	f.StringVar((*string)(n), "openkruise-namespace", string(*n), "Namespace of OpenKruise's manager. While it renews its "+
		"Lease "+openKruise+" there, no replica reconciles. If empty, this is not checked.")
}

// Validate returns an error if the value is invalid.
func (n *openKruiseNamespace) Validate() error {
	if *n != "" && len(validation.IsDNS1123Label(string(*n))) > 0 {
		return fmt.Errorf("--openkruise-namespace=%s: must be the name of a namespace, or empty", *n)
	}
	return nil
}

func main() {
	cmd, err := command()
	if err == nil {
		err = cmd.ExecuteContext(ctrl.SetupSignalHandler())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

func command() (*cobra.Command, error) {
	kinds := member.Kinds()
	gates, err := feature.New(member.Gates()...)
	if err != nil {
		return nil, err
	}
	f := &flags{
		Program: option.NewProgram(name, gates, kinds.Reconciled()...), kinds: kinds, hub: option.NewHub(), parallel: control.Parallel,
		openKruise: "kruise-system",
		pods:       podWebhook{PodWebhook: setup.PodWebhook{Exempt: []string{"kube-system"}}, features: kinds.Features()},
	}
	f.Replaced = replaced()
	cmd := f.Command("Run the workload controllers and webhooks of one cluster",
		"Flotilla-member runs the workload kinds in one cluster: controllers in one replica at a time, and admission\n"+
			"and conversion webhooks in all replicas. It works without a hub. With --hub-url, the cluster joins a hub as\n"+
			"--cluster-name and runs what that hub requests.\n\n"+
			"It creates and rotates its webhook certificate itself. Outside a cluster, set --kubeconfig and --webhook-url.",
		f.setup, f.hub, &f.parallel, &f.openKruise, &f.pods, &f.pullSecrets)
	kinds.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&f.localHub, "local-hub", false, "This cluster also runs flotilla-hub: UnitedDeployments here may "+
		"name clusters, and the hub runs those.")
	cmd.Flags().BoolVar(&f.webhooksOnly, "webhooks-only", false, "Serve admission and conversion, but reconcile nothing, during the "+
		"time that OpenKruise's manager still runs.")
	cmd.AddCommand(checkup.Command(name, member.Scheme, probe))
	return cmd, nil
}

// setup creates the manager with everything that a member runs.
func (f *flags) setup(ctx context.Context) (ctrl.Manager, error) {
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	scheme, err := member.Scheme()
	if err != nil {
		return nil, err
	}
	if f.webhooksOnly { // Only a replica that reconciles needs the Lease.
		f.Manager.LeaderElection = false
	}
	if f.openKruise != "" {
		f.Manager.Yield = types.NamespacedName{Namespace: string(f.openKruise), Name: openKruise}
	}
	if !f.webhooksOnly { // With --webhooks-only, OpenKruise's CRDs are installed and may lack versions.
		if err := f.Manager.AwaitCRDs(ctx, f.kinds.ConvertedCRDs()...); err != nil {
			return nil, err
		}
	}
	mgr, err := f.Manager.Build(scheme, member.Restrict, f.Manager.Certificate(f.kinds.ConvertedCRDs()...))
	if err != nil {
		return nil, err
	}
	return mgr, member.Setup(ctx, mgr, o)
}

// options converts the flags to the options of Setup.
func (f *flags) options() (member.Options, error) {
	o := member.Options{
		Options: setup.Options{
			Workers: f.Workers.Map(), ParallelWrites: int(f.parallel), ExpectationTimeout: f.ExpectationTimeout,
			Gates: f.Gates, Namespace: f.Manager.Namespace, PodWebhook: f.pods.PodWebhook, LocalHub: f.localHub, WebhooksOnly: f.webhooksOnly, Clock: clock.RealClock{},
			PullSecrets: f.pullSecrets,
		},
		Name: name, Kinds: f.kinds,
	}
	if f.hub.URL == "" {
		return o, nil
	}
	identity, err := os.Hostname()
	if err != nil {
		return o, fmt.Errorf("name this process: %w", err)
	}
	ca, _, err := f.hub.Read()
	kinds, kerr := link.ParseResources(f.hub.Kinds)
	namespaces := f.hub.Namespaces
	namespaces.Denied = append(slices.Clone(namespaces.Denied), f.Manager.Namespace)
	o.Hub = &agent.Options{
		Options: connect.Options{
			Cluster: f.hub.Cluster, URL: f.hub.URL, CA: ca, CAHash: f.hub.CAHash, Namespace: f.Manager.Namespace,
			Token: func() (string, error) {
				_, token, err := f.hub.Read()
				return token, err
			},
		},
		Identity: identity, Version: option.Version, Namespaces: namespaces, Resources: &link.ResourceLimits{Further: kinds},
	}
	return o, errors.Join(err, kerr)
}

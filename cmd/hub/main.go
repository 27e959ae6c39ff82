// Command flotilla-hub runs the hub of a fleet: members join here, and work is divided over them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/hub"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/pkg/cert"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/option"
)

const name = "flotilla-hub"

// Kinds that have a flag for their workers.
const (
	memberCluster    = "membercluster"
	unitedDeployment = "uniteddeployment"
)

// flags are all that the command line says.
type flags struct {
	manager      *option.Manager
	workers      option.Workers
	gates        *feature.Gates
	localMember  bool
	expectations time.Duration
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
	gates, err := feature.New(feature.TemplateNoDefaults)
	if err != nil {
		return nil, err
	}
	f := &flags{manager: option.NewManager(name), workers: option.NewWorkers(memberCluster, unitedDeployment), gates: gates}
	cmd := &cobra.Command{
		Use:   name,
		Short: "Run the hub of a fleet",
		Long: "Flotilla-hub lets clusters in, watches them, and divides UnitedDeployments over them: controllers, in one\n" +
			"replica at a time, and admission and conversion webhooks, in all of them. It holds no connection to members that\n" +
			"join by pull; for those that are reached by push it runs their agents.\n\n" +
			"It makes and rotates the certificate of its webhooks itself. Outside a cluster, give --kubeconfig and --webhook-url.",
		Version:       option.Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	f.manager.AddFlags(cmd.Flags())
	f.workers.AddFlags(cmd.Flags())
	option.ExpectationTimeout(cmd.Flags(), &f.expectations)
	f.gates.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&f.localMember, "local-member", false, "The hub's cluster runs flotilla-member too: that one looks "+
		"after UnitedDeployments that name no cluster, and serves defaults and conversion of the kind.")
	return cmd, nil
}

// run works until ctx ends.
func (f *flags) run(ctx context.Context) error {
	if err := errors.Join(f.manager.Validate(), f.workers.Validate()); err != nil {
		return err
	}
	log := f.manager.Logger()
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	ctx = ctrl.LoggerInto(ctx, log)

	identity, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this process: %w", err)
	}
	scheme, err := hub.Scheme()
	if err != nil {
		return err
	}
	mgr, err := f.manager.Build(scheme, hub.Restrict, f.certificate())
	if err != nil {
		return err
	}
	err = hub.Setup(ctx, mgr, hub.Options{
		Namespace: f.manager.Namespace, LocalMember: f.localMember,
		KeepTemplates:           f.gates.Enabled(feature.TemplateNoDefaults),
		UnitedDeploymentWorkers: *f.workers[unitedDeployment], MemberClusterWorkers: *f.workers[memberCluster],
		ExpectationTimeout: f.expectations, RunAgent: agent.Run, ValidateCloneSet: cloneset.ValidateSpec,
		Identity: identity, Version: option.Version, Clock: clock.RealClock{},
	})
	if err != nil {
		return err
	}
	for _, note := range f.gates.Notes() {
		log.Info("Ignored a feature gate", "reason", note)
	}
	log.Info("Started "+name, "version", option.Version)
	return mgr.Start(ctx)
}

// certificate names what calls the hub. Where a member stack runs beside it, that one completes and converts
// UnitedDeployments.
func (f *flags) certificate() cert.Options {
	if f.localMember {
		c := f.manager.Certificate()
		c.Mutating = nil
		return c
	}
	return f.manager.Certificate(hub.CRDs()...)
}

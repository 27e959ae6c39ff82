// Command flotilla-member runs the workload controllers and webhooks of one cluster, and the agent of a hub that it joins.
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

	"github.com/flotilla-io/flotilla/member"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/option"
)

const name = "flotilla-member"

// Kinds that have a flag for their workers.
const (
	cloneSet         = "cloneset"
	unitedDeployment = "uniteddeployment"
)

// flags are all that the command line says.
type flags struct {
	manager      *option.Manager
	hub          *option.Hub
	workers      option.Workers
	gates        *feature.Gates
	localHub     bool
	skipParting  bool
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
	gates, err := feature.New(
		feature.TemplateNoDefaults, feature.CloneSetShortHash, feature.CloneSetPartitionRollback, feature.PreparingUpdateAsUpdate,
		feature.InPlaceWorkloadVerticalScaling, feature.InPlaceUpdateEnvFromMetadata, feature.RecreatePodWhenChangeVCTInCloneSet)
	if err != nil {
		return nil, err
	}
	f := &flags{
		manager: option.NewManager(name), hub: &option.Hub{}, workers: option.NewWorkers(cloneSet, unitedDeployment), gates: gates,
	}
	cmd := &cobra.Command{
		Use:   name,
		Short: "Run the workload controllers and webhooks of one cluster",
		Long: "Flotilla-member runs CloneSet and its kin in one cluster: controllers, in one replica at a time, and admission\n" +
			"and conversion webhooks, in all of them. Without a hub it is complete. With --hub-url the cluster joins a hub as\n" +
			"--cluster-name and runs what that hub asks for.\n\n" +
			"It makes and rotates the certificate of its webhooks itself. Outside a cluster, give --kubeconfig and --webhook-url.",
		Version:       option.Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	f.manager.AddFlags(cmd.Flags())
	f.hub.AddFlags(cmd.Flags())
	f.workers.AddFlags(cmd.Flags())
	option.ExpectationTimeout(cmd.Flags(), &f.expectations)
	f.gates.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&f.skipParting, "cloneset-scaling-exclude-preparing-delete", false, "CloneSets do not count pods "+
		"that are held by a preDelete hook when they scale, as if each had scaleStrategy.excludePreparingDelete.")
	cmd.Flags().BoolVar(&f.localHub, "local-hub", false, "This cluster runs flotilla-hub too: UnitedDeployments here may "+
		"name clusters, and the hub runs those.")
	return cmd, nil
}

// run works until ctx ends.
func (f *flags) run(ctx context.Context) error {
	if err := errors.Join(f.manager.Validate(), f.hub.Validate(), f.workers.Validate()); err != nil {
		return err
	}
	log := f.manager.Logger()
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	ctx = ctrl.LoggerInto(ctx, log)

	o, err := f.options()
	if err != nil {
		return err
	}
	scheme, err := member.Scheme()
	if err != nil {
		return err
	}
	mgr, err := f.manager.Build(scheme, member.Restrict, f.manager.Certificate(member.CRDs()...))
	if err != nil {
		return err
	}
	if err := member.Setup(ctx, mgr, o); err != nil {
		return err
	}
	for _, note := range f.gates.Notes() {
		log.Info("Ignored a feature gate", "reason", note)
	}
	log.Info("Started "+name, "version", option.Version)
	return mgr.Start(ctx)
}

// options turns flags into what Setup takes.
func (f *flags) options() (member.Options, error) {
	o := member.Options{
		CloneSetWorkers: *f.workers[cloneSet], UnitedDeploymentWorkers: *f.workers[unitedDeployment],
		ExpectationTimeout: f.expectations, KeepTemplates: f.gates.Enabled(feature.TemplateNoDefaults),
		CloneSet: cloneset.Gates{
			ShortHash:               f.gates.Enabled(feature.CloneSetShortHash),
			PartitionRollback:       f.gates.Enabled(feature.CloneSetPartitionRollback),
			PreparingUpdateAsUpdate: f.gates.Enabled(feature.PreparingUpdateAsUpdate),
			VerticalScaling:         f.gates.Enabled(feature.InPlaceWorkloadVerticalScaling),
			EnvFromMetadata:         f.gates.Enabled(feature.InPlaceUpdateEnvFromMetadata),
			RecreateOnClaimChange:   f.gates.Enabled(feature.RecreatePodWhenChangeVCTInCloneSet),
			ExcludePreparingDelete:  f.skipParting,
		},
		LocalHub: f.localHub, Version: option.Version, Clock: clock.RealClock{},
	}
	var err error
	if o.Identity, err = os.Hostname(); err != nil {
		return o, fmt.Errorf("name this process: %w", err)
	}
	if f.hub.URL == "" {
		return o, nil
	}
	ca, token, err := f.hub.Read()
	o.Hub = &agent.Options{
		Cluster: f.hub.Cluster, URL: f.hub.URL, CA: ca, CAHash: f.hub.CAHash, Token: token, Namespace: f.manager.Namespace,
	}
	return o, err
}

// Command flotilla-member runs the workload controllers and webhooks of one cluster, and the agent of a hub that it joins.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/cmd/checkup"
	"github.com/flotilla-io/flotilla/member"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/member/workload/statefulset"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/option"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
)

const name = "flotilla-member"

// Kinds that have a flag for their workers.
const (
	cloneSet         = "cloneset"
	daemonSet        = "daemonset"
	statefulSet      = "statefulset"
	unitedDeployment = "uniteddeployment"
)

// flags are all that the command line says.
type flags struct {
	*option.Program
	hub         *option.Hub
	localHub    bool
	skipParting bool
	parallel    parallelWrites
}

// parallelWrites is a group of one flag.
type parallelWrites int

// AddFlags binds it.
func (p *parallelWrites) AddFlags(f *pflag.FlagSet) {
	f.IntVar((*int)(p), "parallel-writes", int(*p), "Writes to pods that run at once for one object.")
}

// Validate returns what is wrong.
func (p *parallelWrites) Validate() error {
	if *p < 1 || *p > 1000 {
		return fmt.Errorf("--parallel-writes=%d: want 1 to 1000", *p)
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
	gates, err := feature.New(
		feature.TemplateNoDefaults, feature.CloneSetShortHash, feature.CloneSetPartitionRollback, feature.PreparingUpdateAsUpdate,
		feature.InPlaceWorkloadVerticalScaling, feature.InPlaceUpdateEnvFromMetadata, feature.RecreatePodWhenChangeVCTInCloneSet,
		feature.StatefulSetStartOrdinal, feature.StatefulSetAutoDeletePVC, feature.StatefulSetAutoResizePVC)
	if err != nil {
		return nil, err
	}
	f := &flags{
		Program: option.NewProgram(name, gates, cloneSet, daemonSet, statefulSet, unitedDeployment), hub: &option.Hub{}, parallel: podcontrol.Parallel,
	}
	cmd := f.Command("Run the workload controllers and webhooks of one cluster",
		"Flotilla-member runs CloneSet and its kin in one cluster: controllers, in one replica at a time, and admission\n"+
			"and conversion webhooks, in all of them. Without a hub it is complete. With --hub-url the cluster joins a hub as\n"+
			"--cluster-name and runs what that hub asks for.\n\n"+
			"It makes and rotates the certificate of its webhooks itself. Outside a cluster, give --kubeconfig and --webhook-url.",
		f.setup, f.hub, &f.parallel)
	cmd.Flags().BoolVar(&f.skipParting, "cloneset-scaling-exclude-preparing-delete", false, "CloneSets do not count pods "+
		"that are held by a preDelete hook when they scale, as if each had scaleStrategy.excludePreparingDelete.")
	cmd.Flags().BoolVar(&f.localHub, "local-hub", false, "This cluster runs flotilla-hub too: UnitedDeployments here may "+
		"name clusters, and the hub runs those.")
	cmd.AddCommand(checkup.Command(name, member.Scheme, probe))
	return cmd, nil
}

// setup makes the manager with all that a member runs.
func (f *flags) setup(ctx context.Context) (ctrl.Manager, error) {
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	scheme, err := member.Scheme()
	if err != nil {
		return nil, err
	}
	mgr, err := f.Manager.Build(scheme, member.Restrict, f.Manager.Certificate(member.CRDs()...))
	if err != nil {
		return nil, err
	}
	return mgr, member.Setup(ctx, mgr, o)
}

// options turns flags into what Setup takes.
func (f *flags) options() (member.Options, error) {
	o := member.Options{
		CloneSetWorkers: *f.Workers[cloneSet], DaemonSetWorkers: *f.Workers[daemonSet], StatefulSetWorkers: *f.Workers[statefulSet],
		UnitedDeploymentWorkers: *f.Workers[unitedDeployment],
		ParallelWrites:          int(f.parallel), ExpectationTimeout: f.ExpectationTimeout, KeepTemplates: f.Gates.Enabled(feature.TemplateNoDefaults),
		InPlace: inplace.Options{
			Resources: f.Gates.Enabled(feature.InPlaceWorkloadVerticalScaling),
			Env:       f.Gates.Enabled(feature.InPlaceUpdateEnvFromMetadata),
		},
		CloneSet: cloneset.Gates{
			ShortHash:               f.Gates.Enabled(feature.CloneSetShortHash),
			PartitionRollback:       f.Gates.Enabled(feature.CloneSetPartitionRollback),
			PreparingUpdateAsUpdate: f.Gates.Enabled(feature.PreparingUpdateAsUpdate),
			RecreateOnClaimChange:   f.Gates.Enabled(feature.RecreatePodWhenChangeVCTInCloneSet),
			ExcludePreparingDelete:  f.skipParting,
		},
		StatefulSet: statefulset.Gates{
			StartOrdinal: f.Gates.Enabled(feature.StatefulSetStartOrdinal),
			DeleteClaims: f.Gates.Enabled(feature.StatefulSetAutoDeletePVC),
			ResizeClaims: f.Gates.Enabled(feature.StatefulSetAutoResizePVC),
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
	ca, _, err := f.hub.Read()
	o.Hub = &agent.Options{
		Cluster: f.hub.Cluster, URL: f.hub.URL, CA: ca, CAHash: f.hub.CAHash, Namespace: f.Manager.Namespace,
		Token: func() (string, error) {
			_, token, err := f.hub.Read()
			return token, err
		},
	}
	return o, err
}

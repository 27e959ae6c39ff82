// Command flotilla-hub runs the hub of a fleet: it lets members join, and distributes work to them.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/cmd/checkup"
	"github.com/flotilla-io/flotilla/hub"
	"github.com/flotilla-io/flotilla/hub/propagation"
	hubspread "github.com/flotilla-io/flotilla/hub/workloadspread"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/member/pod/workloadspread"
	"github.com/flotilla-io/flotilla/member/resource/resourcedistribution"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/member/workload/statefulset"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/cert"
	"github.com/flotilla-io/flotilla/pkg/manager/option"
)

const name = "flotilla-hub"

// flags are the command line's flags.
type flags struct {
	*option.Program
	localMember          bool
	clusterAPINamespaces []string
	profileNamespace     string
	propagationKinds     []string
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
	kinds := hub.Kinds()
	gates, err := feature.New(kinds.Gates()...)
	if err != nil {
		return nil, err
	}
	f := &flags{Program: option.NewProgram(name, gates, kinds.Reconciled()...)}
	cmd := f.Command("Run the hub of a fleet",
		"Flotilla-hub accepts and watches clusters, and divides UnitedDeployments and the workloads of WorkloadSpreads among\n"+
			"them: controllers in one replica at a time, and admission and conversion webhooks in all replicas. It holds no\n"+
			"connection to members that join by pull; it runs the agents of push members.\n\n"+
			"It creates and rotates its webhook certificate itself. Outside a cluster, set --kubeconfig and --webhook-url.",
		f.setup)
	cmd.Flags().BoolVar(&f.localMember, "local-member", false, "The hub's cluster also runs flotilla-member, which looks "+
		"after objects that name no cluster and serves defaulting and conversion of their kinds.")
	cmd.Flags().StringSliceVar(&f.clusterAPINamespaces, "cluster-api-namespaces", nil, "Comma-separated namespaces with Clusters of "+
		"Cluster API that MemberClusters may name in push.capiClusterRef. The hub reads all Secrets there. Empty means none.")
	cmd.Flags().StringVar(&f.profileNamespace, "cluster-profile-namespace", "", "The namespace in which each MemberCluster is "+
		"published as a ClusterProfile of SIG Multicluster, if the hub's cluster serves these. Empty publishes none.")
	cmd.Flags().StringSliceVar(&f.propagationKinds, "propagation-kinds", nil, "Comma-separated resources, such as configmaps,"+
		"deployments.apps, whose objects Propagations and ClusterPropagations may place. The hub needs permission to get, list and "+
		"watch them. Empty means none.")
	cmd.AddCommand(checkup.Command(name, hub.Scheme, probe))
	return cmd, nil
}

// setup creates the manager with everything that the hub runs.
func (f *flags) setup(ctx context.Context) (ctrl.Manager, error) {
	propagated, err := propagation.ParseKinds(f.propagationKinds)
	if err != nil {
		return nil, fmt.Errorf("--propagation-kinds: %w", err)
	}
	identity, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this process: %w", err)
	}
	scheme, err := hub.Scheme()
	if err != nil {
		return nil, err
	}
	if err := f.Manager.AwaitCRDs(ctx, hub.Kinds().ConvertedCRDs()...); err != nil {
		return nil, err
	}
	mgr, err := f.Manager.Build(scheme, hub.Restrict, f.certificate())
	if err != nil {
		return nil, err
	}
	return mgr, hub.Setup(ctx, mgr, hub.Options{
		Namespace: f.Manager.Namespace, LocalMember: f.localMember, ClusterAPINamespaces: f.clusterAPINamespaces,
		ClusterProfileNamespace: f.profileNamespace, PropagationKinds: propagated, Gates: f.Gates, Workers: f.Workers.Map(),
		ExpectationTimeout: f.ExpectationTimeout, RunAgent: agent.Run, ValidateCloneSet: cloneset.ValidateSpec,
		ValidateStatefulSet: statefulset.ValidateSpec,
		// Each member has its own feature gates, which are not checked here.
		StatefulSetWarnings: statefulset.Gates{ResizePVCs: true, DeletePVCs: true}.Warnings,
		CloneSetWebhook: func(c client.Client, live client.Reader, keepTemplates bool) hubspread.CloneSetWebhook {
			return &cloneset.Webhook{Client: c, Live: live, KeepTemplates: keepTemplates, Hub: true}
		},
		WorkloadSpreadRules: func(c client.Client, live client.Reader) admission.Validator[*appsv1beta1.WorkloadSpread] {
			return &workloadspread.Webhook{Client: c, Live: live, AllowClusters: true}
		},
		ResourceDistributionRules: &resourcedistribution.Webhook{Hub: true},
		Identity:                  identity, Version: option.Version, Clock: clock.RealClock{},
	})
}

// certificate returns which callers of the hub's webhooks need its certificate. If a member stack runs beside the hub, the member stack
// converts the kinds in apps.kruise.io.
func (f *flags) certificate() cert.Options {
	if f.localMember {
		return f.Manager.Certificate()
	}
	return f.Manager.Certificate(hub.Kinds().ConvertedCRDs()...)
}

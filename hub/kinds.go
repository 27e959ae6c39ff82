package hub

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/hub/approval"
	"github.com/flotilla-io/flotilla/hub/cluster"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/propagation"
	"github.com/flotilla-io/flotilla/hub/resourcedistribution"
	"github.com/flotilla-io/flotilla/hub/uniteddeployment"
	"github.com/flotilla-io/flotilla/hub/workloadspread"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// Kinds returns the kinds that a hub runs. A new kind is a folder and an entry in kinds. Settings that come from the hub's flags are in
// Options.
func Kinds() setup.Kinds { return kinds(Options{}, nil) }

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=uniteddeployments.apps.kruise.io;workloadspreads.apps.kruise.io;clonesets.apps.kruise.io;resourcedistributions.apps.kruise.io,verbs=get;list;watch;patch

// kinds returns the kinds of a hub with these options. placed is what placed kinds share.
func kinds(o Options, placed *placement.Hub) setup.Kinds {
	return setup.Kinds{
		cluster.Registration(cluster.Options{
			RunAgent: o.RunAgent, SecretNamespaces: []string{o.Namespace}, ClusterAPINamespaces: o.ClusterAPINamespaces, Identity: o.Identity,
			Version: o.Version,
		}),
		unitedDeployments(o, placed),
		workloadspread.Registration(placed, o.WorkloadSpreadRules),
		workloadspread.CloneSetRegistration(placed, o.CloneSetWebhook),
		resourceDistributions(o, placed),
		propagation.Registration(placed, o.PropagationKinds, o.self),
		propagation.ClusterRegistration(placed, o.PropagationKinds, o.self),
		approval.Registration(),
	}
}

func unitedDeployments(o Options, placed *placement.Hub) setup.Kind {
	templates := united.Options{
		AllowClusters: true, CloneSet: o.ValidateCloneSet, StatefulSet: o.ValidateStatefulSet, StatefulSetWarnings: o.StatefulSetWarnings,
	}
	return uniteddeployment.Registration(placed, templates, func(ctx context.Context, c client.Client, namespace string) (string, error) {
		return propagation.RefusesDependencies(ctx, c, o.PropagationKinds, namespace)
	})
}

func resourceDistributions(o Options, placed *placement.Hub) setup.Kind {
	// Members usually run Flotilla in a namespace of the same name. By default they don't allow a hub to place anything there.
	return resourcedistribution.Registration(placed, []string{corev1.NamespaceNodeLease, o.Namespace}, o.ResourceDistributionRules)
}

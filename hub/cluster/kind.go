package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// Registration registers MemberCluster with a hub's manager.
func Registration(options Options) setup.Kind {
	const name = "membercluster"
	return setup.Kind{
		Name: name, CRD: "memberclusters.fleet.kruise.io",
		Types: runtime.SchemeBuilder{fleetv1alpha1.AddToScheme},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error { // This includes its webhooks.
			options.Clock, options.Workers = o.Clock, o.Workers[name]
			return setUp(ctx, mgr, options)
		},
	}
}

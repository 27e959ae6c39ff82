package resourcedistribution

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// Registration registers ResourceDistribution with a hub's manager. closed are the namespaces that get no copies in members unless the object
// names them. rules are the rules of members; if it is nil, they are not checked.
func Registration(hub *placement.Hub, closed []string, rules admission.Validator[*appsv1beta1.ResourceDistribution]) setup.Kind {
	const name = "resourcedistribution"
	return setup.Kind{
		Name: name, CRD: "resourcedistributions.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(ctx, mgr, Options{Options: hub.Options(mgr, o, name), ClosedNamespaces: closed})
		},
		Webhooks: func(mgr ctrl.Manager, _ setup.Options) error {
			w := &Webhook{Clusters: placement.ClusterRulesOf(mgr), LocalMember: hub.LocalMember}
			r := admit.Registration[*appsv1beta1.ResourceDistribution]{Object: &appsv1beta1.ResourceDistribution{}, Validator: w}
			if !hub.LocalMember { // Otherwise the member's manager in this cluster validates and converts too.
				w.Rules = rules
				r.Converter = conversion.NewHubSpokeConverter(&appsv1beta1.ResourceDistribution{}, conversion.NewSpokeConverter(
					&appsv1alpha1.ResourceDistribution{}, appsv1alpha1.ResourceDistributionFromHub, appsv1alpha1.ResourceDistributionToHub))
			}
			return admit.Register(mgr, r)
		},
		WebhookReads: []client.Object{&fleetv1alpha1.MemberCluster{}},
	}
}

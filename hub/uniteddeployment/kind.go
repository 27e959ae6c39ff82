package uniteddeployment

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// Registration registers UnitedDeployment with a hub's manager. templates has the rules for the workloads in templates. refuses says why the
// user of a request may not have the dependencies of pods in a namespace placed; "" if the user may.
func Registration(
	hub *placement.Hub, templates united.Options, refuses func(ctx context.Context, c client.Client, namespace string) (string, error),
) setup.Kind {
	const name = "uniteddeployment"
	return setup.Kind{
		Name: name, CRD: "uniteddeployments.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.TemplateNoDefaults},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(ctx, mgr, hub.Options(mgr, o, name))
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{
				Webhook: united.Webhook{
					Client: mgr.GetClient(), KeepTemplates: o.Gates.Enabled(feature.TemplateNoDefaults), Options: templates,
				},
				Clusters: placement.ClusterRulesOf(mgr), LocalMember: hub.LocalMember,
				RefusesDependencies: func(ctx context.Context, namespace string) (string, error) {
					return refuses(ctx, mgr.GetClient(), namespace)
				},
			}
			r := admit.Registration[*appsv1beta1.UnitedDeployment]{Object: &appsv1beta1.UnitedDeployment{}, Validator: w}
			if !hub.LocalMember { // Otherwise the member's manager in this cluster serves defaulting and conversion.
				r.Defaulter = w
				r.Converter = conversion.NewHubSpokeConverter(&appsv1beta1.UnitedDeployment{}, conversion.NewSpokeConverter(
					&appsv1alpha1.UnitedDeployment{}, appsv1alpha1.UnitedDeploymentFromHub, appsv1alpha1.UnitedDeploymentToHub))
			}
			return admit.Register(mgr, r)
		},
		WebhookReads: []client.Object{&fleetv1alpha1.MemberCluster{}},
	}
}

package propagation

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// Registration registers Propagation with a hub's manager. kinds are the resources whose objects may be placed, and self is the username of
// the hub.
func Registration(hub *placement.Hub, kinds []schema.GroupResource, self string) setup.Kind {
	k := registration(hub, kinds, self, "propagation", &fleetv1alpha1.Propagation{}, setUp)
	own := k.Webhooks
	k.Webhooks = func(mgr ctrl.Manager, o setup.Options) error {
		if err := own(mgr, o); err != nil {
			return err
		}
		if err := admit.Handle(mgr, templatePath, &templateWebhook{Reader: mgr.GetClient(), Labels: true}); err != nil {
			return err
		}
		return admit.Handle(mgr, unrunPath, &templateWebhook{Reader: mgr.GetClient()})
	}
	k.WebhookReads = append(k.WebhookReads, &fleetv1alpha1.Propagation{}, &fleetv1alpha1.ClusterPropagation{}, &appsv1beta1.WorkloadSpread{})
	return k
}

// ClusterRegistration registers ClusterPropagation.
func ClusterRegistration(hub *placement.Hub, kinds []schema.GroupResource, self string) setup.Kind {
	return registration(hub, kinds, self, "clusterpropagation", &fleetv1alpha1.ClusterPropagation{}, setupCluster)
}

// registration returns one of the two kinds. object is an empty object of the kind.
func registration[T client.Object](
	hub *placement.Hub, kinds []schema.GroupResource, self, name string, object T, start func(context.Context, ctrl.Manager, options) error,
) setup.Kind {
	return setup.Kind{
		Name: name, CRD: name + "s.fleet.kruise.io",
		Types: runtime.SchemeBuilder{fleetv1alpha1.AddToScheme},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return start(ctx, mgr, options{Options: hub.Options(mgr, o, name), Kinds: kinds})
		},
		Webhooks: func(mgr ctrl.Manager, _ setup.Options) error {
			return admit.Register(mgr, admit.Registration[T]{Object: object, Validator: &Webhook[T]{
				Clusters: placement.ClusterRulesOf(mgr), Mapper: mgr.GetRESTMapper(), Kinds: kinds, LocalMember: hub.LocalMember, Self: self,
			}})
		},
		WebhookReads: []client.Object{&fleetv1alpha1.MemberCluster{}},
	}
}

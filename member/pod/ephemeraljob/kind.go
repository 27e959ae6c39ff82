package ephemeraljob

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// +kubebuilder:webhook:path=/validate-apps-kruise-io-ephemeraljob,mutating=false,groups=apps.kruise.io,resources=ephemeraljobs,versions=v1alpha1,verbs=create;update,name=vephemeraljob.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// kind is the kind's name.
const kind = "EphemeralJob"

// Kind is the kind of the objects.
func Kind() schema.GroupVersionKind { return appsv1alpha1.GroupVersion.WithKind(kind) }

// Registration registers EphemeralJob with a member's manager.
func Registration() setup.Kind {
	const name = "ephemeraljob"
	return setup.Kind{
		Name: name, CRD: "ephemeraljobs.apps.kruise.io",
		Types:  runtime.SchemeBuilder{appsv1alpha1.AddToScheme},
		Fields: podset.FieldEphemeralContainers,
		Controller: func(_ context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(mgr, o.Pods(name))
		},
		Webhooks: func(mgr ctrl.Manager, _ setup.Options) error {
			return admit.Register(mgr, admit.Registration[*appsv1alpha1.EphemeralJob]{
				Object: &appsv1alpha1.EphemeralJob{}, Validator: &Webhook{Client: mgr.GetClient()},
			})
		},
	}
}

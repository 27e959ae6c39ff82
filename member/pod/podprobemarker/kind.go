package podprobemarker

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// kind is the kind's name.
const kind = "PodProbeMarker"

// +kubebuilder:webhook:path=/validate-apps-kruise-io-podprobemarker,mutating=false,groups=apps.kruise.io,resources=podprobemarkers,versions=v1alpha1,verbs=create;update,name=vpodprobemarker.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=NoneOnDryRun,admissionReviewVersions=v1

// Registration registers PodProbeMarker with a member's manager.
func Registration() setup.Kind {
	const name = "podprobemarker"
	return setup.Kind{
		Name: name, CRD: "podprobemarkers.apps.kruise.io", Types: runtime.SchemeBuilder{appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.PodProbeMarker, feature.PodProbeMarkerOnServerless, feature.PodWebhook},
		Controller: func(_ context.Context, mgr ctrl.Manager, o setup.Options) error {
			if !o.Gates.Enabled(feature.PodProbeMarker) {
				return nil
			}
			return Setup(mgr, o.Control(name))
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{Client: mgr.GetClient(), Off: !o.Gates.Enabled(feature.PodProbeMarker)}
			return admit.Register(mgr, admit.Registration[*appsv1alpha1.PodProbeMarker]{Object: &appsv1alpha1.PodProbeMarker{}, Validator: w, Admitted: o.Admitted})
		},
		WebhookReads: []client.Object{&appsv1alpha1.PodProbeMarker{}},
		Pods: func(o setup.Options) []podwebhook.Step {
			if o.Gates != nil && !o.Gates.Enabled(feature.PodProbeMarker) { // Without gates, setup only lists the features of steps.
				return nil
			}
			return []podwebhook.Step{step()}
		},
	}
}

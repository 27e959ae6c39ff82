package probedpod

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// Feature is the name in events, logs and metrics.
const Feature = "ProbedPod"

// Registration registers the controller with a member's manager. It has no CRD: PodProbeMarkers ask for it.
func Registration() setup.Kind {
	const name = "probedpod"
	return setup.Kind{
		Name: name, Types: runtime.SchemeBuilder{appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.PodProbeMarker, feature.PodProbeMarkerOnServerless},
		Controller: func(_ context.Context, mgr ctrl.Manager, o setup.Options) error {
			if !o.Gates.Enabled(feature.PodProbeMarker) {
				return nil
			}
			return Setup(mgr, Options{Options: o.Control(name), Serverless: o.Gates.Enabled(feature.PodProbeMarkerOnServerless)})
		},
	}
}

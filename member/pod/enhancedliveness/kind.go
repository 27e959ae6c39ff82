package enhancedliveness

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Registration registers the controllers and the step with a member's manager. They have no CRD: pods ask for them.
func Registration() setup.Kind {
	const name = "enhancedliveness"
	return setup.Kind{
		Name: name, Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates:  []featuregate.Feature{feature.EnhancedLiveness, feature.PodWebhook},
		Fields: podset.FieldNamedPorts,
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			if !o.Gates.Enabled(feature.EnhancedLiveness) {
				return nil
			}
			return setUp(ctx, mgr, options{Workers: o.Workers[name], Daemons: o.Daemons, Guards: o.Guards, Clock: o.Clock})
		},
		Pods: func(setup.Options) []podwebhook.Step { return []podwebhook.Step{step()} },
	}
}

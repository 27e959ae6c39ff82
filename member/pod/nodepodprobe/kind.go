package nodepodprobe

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// kind is the kind's name.
const kind = "NodePodProbe"

// Registration registers NodePodProbe with a member's manager. It has no webhook: only the manager and node daemons write it.
func Registration() setup.Kind {
	const name = "nodepodprobe"
	return setup.Kind{
		Name: name, CRD: "nodepodprobes.apps.kruise.io", Types: runtime.SchemeBuilder{appsv1alpha1.AddToScheme},
		Gates:  []featuregate.Feature{feature.PodProbeMarker, feature.EnhancedLiveness},
		Fields: podset.FieldNamedPorts,
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			options := options{
				Workers: o.Workers[name], Clock: o.Clock,
				Markers: o.Gates.Enabled(feature.PodProbeMarker), Liveness: o.Gates.Enabled(feature.EnhancedLiveness),
			}
			if !options.Markers && !options.Liveness {
				return nil
			}
			return setUp(ctx, mgr, options)
		},
	}
}

package predownload

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// Registration registers the controllers with a member's manager. They have no CRD of their own.
func Registration() setup.Kind {
	const name = "predownload"
	return setup.Kind{
		Name: name, Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme},
		Gates: []featuregate.Feature{feature.PreDownloadForInPlaceUpdate, feature.PreDownloadForDaemonSetUpdate},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(ctx, mgr, options{
				InPlace: o.Gates.Enabled(feature.PreDownloadForInPlaceUpdate), DaemonSets: o.Gates.Enabled(feature.PreDownloadForDaemonSetUpdate),
				Edits: o.InPlace, Secrets: o.PullSecrets, Options: o.Control(name),
			})
		},
	}
}

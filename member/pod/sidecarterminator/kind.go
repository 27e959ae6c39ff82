package sidecarterminator

import (
	"context"

	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// Registration registers the terminator with a member's manager. It has no CRD: containers ask for it.
func Registration() setup.Kind {
	const name = "sidecarterminator"
	return setup.Kind{
		Name: name, Gates: []featuregate.Feature{feature.SidecarTerminator},
		Controller: func(_ context.Context, mgr ctrl.Manager, o setup.Options) error {
			if !o.Gates.Enabled(feature.SidecarTerminator) {
				return nil
			}
			return setUp(mgr, o.Workers[name], o.Clock)
		},
	}
}

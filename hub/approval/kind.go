package approval

import (
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// Registration registers RolloutApproval with a hub's manager. It has no controller: the controllers of targets read approvals.
func Registration() setup.Kind {
	return setup.Kind{
		Name: "rolloutapproval", CRD: "rolloutapprovals.fleet.kruise.io",
		Types: runtime.SchemeBuilder{fleetv1alpha1.AddToScheme, appsv1beta1.AddToScheme},
		Webhooks: func(mgr ctrl.Manager, _ setup.Options) error {
			w := &Webhook{Live: mgr.GetAPIReader()}
			return admit.Register(mgr, admit.Registration[*fleetv1alpha1.RolloutApproval]{
				Object: &fleetv1alpha1.RolloutApproval{}, Defaulter: w, Validator: w,
			})
		},
	}
}

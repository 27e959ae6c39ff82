package protection

import (
	"fmt"

	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/feature"
)

// Paths of the webhooks. OpenKruise has one for each kind, none of them just for this.
const (
	pathValidate = "/validate-delete-protection"
	pathReport   = "/report-delete-protection"
)

// Gates returns the feature gates that the webhooks read. ResourcesDeletionProtection is for the chart, which registers them.
func Gates() []featuregate.Feature {
	return []featuregate.Feature{feature.ResourcesDeletionProtection, feature.DeletionProtectionForCRDCascading}
}

// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the webhooks to mgr, whatever the gates say. Otherwise a replica whose flags differ from the chart that registers the webhooks
// would refuse all deletions sent to it.
func Setup(mgr ctrl.Manager, gates *feature.Gates) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	r := report{events: event.New(mgr.GetEventRecorder("deletion-protection"))}
	w := &validator{live: mgr.GetAPIReader(), crds: gates.Enabled(feature.DeletionProtectionForCRDCascading), report: r}
	if err := admit.Handle(mgr, pathValidate, w); err != nil {
		return fmt.Errorf("serve %s: %w", pathValidate, err)
	}
	if err := admit.Handle(mgr, pathReport, &reporter{r}); err != nil {
		return fmt.Errorf("serve %s: %w", pathReport, err)
	}
	return nil
}

package resourcedistribution

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/placement"
)

// sourceKind is the kind of the objects that this controller reconciles, and of their slices.
const sourceKind = "ResourceDistribution"

// Options configures Setup.
type Options struct {
	placement.Options

	// ClosedNamespaces get no copies in members unless the object names them.
	ClosedNamespaces []string
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=resourcedistributions/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// setUp starts the controller.
func setUp(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return Kind(o).Setup(ctx, mgr, o.Options)
}

// Kind returns how ResourceDistributions are placed.
func Kind(options Options) placement.Kind[*observed, planned, appsv1beta1.ResourceDistributionStatus] {
	return placement.Kind[*observed, planned, appsv1beta1.ResourceDistributionStatus]{
		Name:    sourceKind,
		Object:  func() client.Object { return &appsv1beta1.ResourceDistribution{} },
		List:    func() client.ObjectList { return &appsv1beta1.ResourceDistributionList{} },
		Where:   func(o client.Object) []placement.Where { return where(o.(*appsv1beta1.ResourceDistribution)) },
		Metrics: measure,
		Observe: func(ctx context.Context, c placement.Client, key client.ObjectKey) (*observed, error) {
			return observe(ctx, c, key, options)
		},
		Plan: func(o *observed, _ time.Time) planned { return plan(o) },
		Status: func(o *observed, p planned, a placement.Summary, now time.Time) (before, after appsv1beta1.ResourceDistributionStatus) {
			return o.rd.Status, status(o, p, a, now)
		},
		Change: func(o *observed, before, after appsv1beta1.ResourceDistributionStatus) placement.Change {
			head := resourceOf(o.rd)
			return changed(o.rd.Generation, head.Kind+" "+head.Name, before, after)
		},
		Rows: emptied,
	}
}

package uniteddeployment

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/approval"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// sourceKind is the kind of the objects that this controller reconciles.
const sourceKind = "UnitedDeployment"

// begunDelay is how long the first status of a change is collected if every replica is in place and available, see hasJustBegun. It is longer
// than the agents' delay, so that a change that waits in both is written once. A change of a few pods completes before that, and costs one
// write.
const begunDelay = 15 * time.Second

// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// setUp starts the controller.
func setUp(ctx context.Context, mgr ctrl.Manager, o placement.Options) error {
	return Kind(o).Setup(ctx, mgr, o)
}

// Kind returns how UnitedDeployments are placed.
func Kind(options placement.Options) placement.Kind[*observed, planned, appsv1beta1.UnitedDeploymentStatus] {
	var times soaks
	return placement.Kind[*observed, planned, appsv1beta1.UnitedDeploymentStatus]{
		Name:    sourceKind,
		Object:  func() client.Object { return &appsv1beta1.UnitedDeployment{} },
		List:    func() client.ObjectList { return &appsv1beta1.UnitedDeploymentList{} },
		Where:   func(o client.Object) []placement.Where { return subsetsOf(o.(*appsv1beta1.UnitedDeployment)) },
		Metrics: measure,
		Observe: func(ctx context.Context, c placement.Client, key client.ObjectKey) (*observed, error) {
			return observe(ctx, c, key, options)
		},
		Plan: func(o *observed, now time.Time) planned {
			o.soaked = times.elapsed(o.ud, now)
			p := plan(o)
			times.planned(o.ud, p, now)
			return p
		},
		Status: func(o *observed, p planned, a placement.Summary, now time.Time) (before, after appsv1beta1.UnitedDeploymentStatus) {
			return o.ud.Status, status(o, p, a, now)
		},
		Require: func(ctx context.Context, c placement.Client, o *observed, p planned) error {
			if err := (history{c}).write(ctx, o, p); err != nil {
				return err
			}
			if p.rollout != nil && p.rollout.waves.begins() {
				return placement.ErrPlanAgain
			}
			return nil
		},
		Prepare: func(ctx context.Context, c placement.Client, o *observed, p planned) ([]placement.Problem, error) {
			problems, err := dependencies{c}.apply(ctx, o.ud, p.serves(o))
			return problems, errors.Join(err, history{c}.trim(ctx, o, p), approval.Remove(ctx, c.Client, approval.Obsolete(o.approvals, o.ud.UID, p.knows(o))))
		},
		Gone: func(ctx context.Context, c placement.Client, key client.ObjectKey) error {
			times.forget(key)
			return errors.Join(dependencies{c}.withdraw(ctx, key), withdrawApprovals(ctx, c, key))
		},
		Indexes: func(ctx context.Context, i client.FieldIndexer) error {
			return errors.Join(ownership.IndexByOwner(ctx, i, &appsv1.ControllerRevision{}), approval.Index(ctx, i))
		},
		Watch: func(b *builder.Builder) *builder.Builder {
			return watchDependencies(b).Owns(&appsv1.ControllerRevision{}).Owns(&fleetv1alpha1.RolloutApproval{})
		},
		Change: func(o *observed, before, after appsv1beta1.UnitedDeploymentStatus) placement.Change {
			return changed(ptr.Deref(o.ud.Spec.Replicas, 1), before, after)
		},
	}
}

// withdrawApprovals deletes the approvals for an object that is gone, because a hub may have no garbage collector.
func withdrawApprovals(ctx context.Context, c placement.Client, key client.ObjectKey) error {
	list, err := approval.List(ctx, c, fleetv1alpha1.RolloutUnitedDeployment, key)
	if err != nil || len(list) == 0 {
		return err //nolint:wrapcheck // It says what was read.
	}
	ud := &appsv1beta1.UnitedDeployment{}
	if _, err := ownership.Get(ctx, c.Live, key, ud); err != nil {
		return err //nolint:wrapcheck // As above.
	}
	obsolete := approval.Obsolete(list, ud.UID, func(string) bool { return true })
	return approval.Remove(ctx, c.Client, obsolete) //nolint:wrapcheck // It says what was deleted.
}

// subsetsOf returns where the subsets of an object are placed. A nil object has none.
func subsetsOf(ud *appsv1beta1.UnitedDeployment) []placement.Where {
	if ud == nil {
		return nil
	}
	out := make([]placement.Where, 0, len(ud.Spec.Topology.Subsets))
	for _, s := range ud.Spec.Topology.Subsets {
		out = append(out, placement.Where{Cluster: s.Cluster, Selector: s.ClusterSelector})
	}
	return out
}

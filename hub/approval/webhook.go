package approval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// Webhook stamps RolloutApprovals, and refuses those that would open nothing. Whether the user may approve is a question of RBAC. It is safe
// for concurrent use.
type Webhook struct {
	// Live reads targets from the apiserver: the revision that the status names may be new, and approvals are rare.
	Live client.Reader
}

var (
	_ admission.Defaulter[*fleetv1alpha1.RolloutApproval] = &Webhook{}
	_ admission.Validator[*fleetv1alpha1.RolloutApproval] = &Webhook{}
)

// Default implements admission.Defaulter. A new approval gets the user of the request and the UID of its target, which becomes its owner. An
// update keeps them, so that a manifest may be applied again without them.
func (w *Webhook) Default(ctx context.Context, a *fleetv1alpha1.RolloutApproval) error {
	old, err := admit.Old[fleetv1alpha1.RolloutApproval](ctx)
	if err != nil {
		return err //nolint:wrapcheck // It says what failed.
	}
	if old != nil {
		a.Spec.User, a.Spec.Target.UID = old.Spec.User, old.Spec.Target.UID
		return nil
	}
	if a.Spec.User, err = user(ctx); err != nil {
		return err
	}
	a.Spec.Target.UID, a.OwnerReferences = "", nil
	ud, err := w.target(ctx, a)
	if ud == nil || err != nil {
		return err // The validation refuses an approval without a target.
	}
	owner := ownership.ControllerRef(ud, appsv1beta1.GroupVersion.WithKind(string(fleetv1alpha1.RolloutUnitedDeployment)))
	a.Spec.Target.UID, a.OwnerReferences = string(ud.UID), []metav1.OwnerReference{owner}
	return nil
}

// user returns the user of the request.
func user(ctx context.Context) (string, error) {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return "", fmt.Errorf("read the request's user: %w", err)
	}
	return req.UserInfo.Username, nil
}

// target reads the target of an approval. It returns nil if the target does not exist.
func (w *Webhook) target(ctx context.Context, a *fleetv1alpha1.RolloutApproval) (*appsv1beta1.UnitedDeployment, error) {
	if a.Spec.Target.Kind != fleetv1alpha1.RolloutUnitedDeployment || a.Spec.Target.Name == "" {
		return nil, nil // The schema refuses it.
	}
	ud := &appsv1beta1.UnitedDeployment{}
	key := client.ObjectKey{Namespace: admit.Namespace(ctx, a), Name: a.Spec.Target.Name}
	if err := w.Live.Get(ctx, key, ud); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get UnitedDeployment %s: %w", key, err)
	}
	return ud, nil
}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, a *fleetv1alpha1.RolloutApproval) (admission.Warnings, error) {
	by, err := user(ctx)
	if err != nil {
		return nil, err
	}
	ud, err := w.target(ctx, a)
	if err != nil {
		return nil, err
	}
	spec := field.NewPath("spec")
	var faults field.ErrorList
	if a.Spec.User != by {
		faults = append(faults, field.Invalid(spec.Child("user"), a.Spec.User,
			fmt.Sprintf("the request is made by %q: leave user out, and the hub fills it in", by)))
	}
	if fault := validateTarget(a, ud, admit.Namespace(ctx, a), spec); fault != nil {
		faults = append(faults, fault)
	} else {
		faults = append(faults, validateGate(a, ud, spec)...)
	}
	return nil, admit.Invalid(fleetv1alpha1.GroupVersion.WithKind("RolloutApproval"), cmp.Or(a.Name, a.GenerateName), faults)
}

// validateTarget refuses a target that has no gates.
func validateTarget(a *fleetv1alpha1.RolloutApproval, ud *appsv1beta1.UnitedDeployment, namespace string, spec *field.Path) *field.Error {
	at, name := spec.Child("target", "name"), a.Spec.Target.Name
	switch {
	case ud == nil:
		return field.Invalid(at, name, fmt.Sprintf("there is no such %s in namespace %s: create the approval in the namespace of its target, on the hub",
			cmp.Or(a.Spec.Target.Kind, fleetv1alpha1.RolloutUnitedDeployment), namespace))
	case string(ud.UID) != a.Spec.Target.UID:
		return field.Invalid(spec.Child("target", "uid"), a.Spec.Target.UID,
			fmt.Sprintf("the UID of UnitedDeployment %s is %s: leave uid out, and the hub fills it in", name, ud.UID))
	case !ud.DeletionTimestamp.IsZero():
		return field.Invalid(at, name, "it is being deleted, so nothing is rolled out")
	case !united.Waves(ud):
		return field.Invalid(at, name, fmt.Sprintf("its updateStrategy.type is %s, which has no gates: only a rollout of type %s waits for approvals",
			cmp.Or(ud.Spec.UpdateStrategy.Type, appsv1beta1.ManualUpdateStrategyType), appsv1beta1.WavesUpdateStrategyType))
	case ud.Spec.UpdateStrategy.Rollout == nil || len(ud.Spec.UpdateStrategy.Rollout.Waves) == 0:
		return field.Invalid(at, name, "it has no waves, so its rollout doesn't wait for approvals: add them to updateStrategy.rollout.waves")
	}
	return nil
}

// validateGate refuses an approval of a gate that the target doesn't have, and of a revision that is not rolled out.
func validateGate(a *fleetv1alpha1.RolloutApproval, ud *appsv1beta1.UnitedDeployment, spec *field.Path) field.ErrorList {
	var faults field.ErrorList
	plan := ud.Spec.UpdateStrategy.Rollout
	list := func(waves []string) string { return strings.Join(waves, ", ") }
	all, gated := names(plan), waits(plan)
	switch wave := a.Spec.Wave; {
	case !slices.Contains(all, wave):
		faults = append(faults, field.Invalid(spec.Child("wave"), wave,
			fmt.Sprintf("UnitedDeployment %s has no such wave: name one of %s", ud.Name, list(all))))
	case len(gated) == 0:
		faults = append(faults, field.Invalid(spec.Child("wave"), wave, fmt.Sprintf(
			"no wave of UnitedDeployment %s has a gate of type Approval: add one to its gates, or to rollout.gates for all waves", ud.Name)))
	case !slices.Contains(gated, wave):
		faults = append(faults, field.Invalid(spec.Child("wave"), wave, fmt.Sprintf(
			"this wave of UnitedDeployment %s has no gate of type Approval: add one to its gates, or name one of %s", ud.Name, list(gated))))
	}
	now := ""
	if ud.Status.Rollout != nil {
		now = ud.Status.Rollout.Revision
	}
	switch {
	case now == "":
		faults = append(faults, field.Invalid(spec.Child("revision"), a.Spec.Revision, fmt.Sprintf(
			"no rollout of UnitedDeployment %s with waves is in progress: wait until its status.rollout.revision names this revision", ud.Name)))
	case a.Spec.Revision != now:
		faults = append(faults, field.Invalid(spec.Child("revision"), a.Spec.Revision, fmt.Sprintf(
			"UnitedDeployment %s is rolled out to revision %s: name that one, which is in its status.rollout.revision", ud.Name, now)))
	}
	return faults
}

// ValidateUpdate implements admission.Validator. The schema refuses all changes of the spec.
func (w *Webhook) ValidateUpdate(context.Context, *fleetv1alpha1.RolloutApproval, *fleetv1alpha1.RolloutApproval) (admission.Warnings, error) {
	return nil, nil
}

// ValidateDelete implements admission.Validator.
func (w *Webhook) ValidateDelete(context.Context, *fleetv1alpha1.RolloutApproval) (admission.Warnings, error) {
	return nil, nil
}

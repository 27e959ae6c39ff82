package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/pkg/plan/overlay"
	"github.com/flotilla-io/flotilla/pkg/plan/protect"
)

// apply executes a plan. An error is worth a retry; a permanent refusal by the member is returned in applied.
func (r *rowReconciler) apply(ctx context.Context, o observed, p planned) (applied, error) {
	a := applied{line: o.line, live: o.live}
	switch p.action {
	case actNothing:
		a.gone = p.withdrawn
		return a, nil
	case actApply:
		return r.applyObject(ctx, o, p)
	case actDelete, actOrphan, actForget:
		left, err := r.writer.withdraw(ctx, o.line, o.live, p.action)
		if err != nil {
			return a, err
		}
		a.live, a.gone = left, left == nil
		return a, nil
	}
	return a, nil
}

// applyObject writes the ledger, the object, and the ledger again, so that after a crash our own object is not mistaken for a foreign one.
func (r *rowReconciler) applyObject(ctx context.Context, o observed, p planned) (applied, error) {
	a := applied{line: o.line, live: o.live}
	if p.line != nil {
		line, err := r.ledger.put(ctx, o.row.Name, *p.line)
		if err != nil {
			return a, err
		}
		a.line = line
	}
	result, err := r.writer.apply(ctx, o.want, o.live, applyOptions{
		takeFields: o.live == nil || adoption(o.row) != fleetv1alpha1.AdoptOwnFields,
		unchanged:  p.adopts && adoption(o.row) == fleetv1alpha1.AdoptIfEqual,
	})
	if a.problem = permanentProblem(err); a.problem != nil {
		return a, nil
	}
	if err != nil {
		return a, fmt.Errorf("apply %s: %w", describe(o.want.object), err)
	}
	applies.WithLabelValues(r.link.Cluster, o.want.object.GetKind()).Inc()
	ctrl.LoggerFrom(ctx).Info("Applied object", "kind", o.want.object.GetKind(), "reason", p.why)
	a.live = result.object
	next := appliedLine(o, result.object)
	next.Left = result.left
	switch {
	case !p.drift:
	case o.live == nil:
		a.drift = []string{"metadata.uid"}
	case len(result.taken) > 0:
		a.drift = result.taken
	default:
		a.drift = overlay.Paths(o.live.Object, withoutLeftFields(next, o.want).Object)
	}
	line, err := r.ledger.put(ctx, o.row.Name, next)
	if err != nil {
		return a, err
	}
	a.line = line
	return a, nil
}

// permanentProblem returns the problem if the same request would fail again. It returns nil if a retry may succeed: server errors, throttling,
// time-outs.
func permanentProblem(err error) *problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errForeign):
		return blocked(fleetv1alpha1.ReasonForeignObject, "%v", err)
	case notServed(err):
		return blocked(fleetv1alpha1.ReasonKindNotServed, "this cluster no longer serves it: %v", err)
	case apierrors.IsMethodNotSupported(err): // This is the answer while a CRD is being deleted.
		return blocked(fleetv1alpha1.ReasonKindNotServed, "this cluster doesn't allow objects of its kind to be created: %v", err)
	case errors.Is(err, errOthersOwn):
		return blocked(fleetv1alpha1.ReasonForeignObject, "%v", err)
	case errors.Is(err, errDuplicateKeys):
		return blocked(fleetv1alpha1.ReasonInvalid, "%v", err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), isUndeclaredField(err):
		return blocked(fleetv1alpha1.ReasonInvalid, "this cluster refused it: %v", err)
	case apierrors.IsForbidden(err):
		return blocked(fleetv1alpha1.ReasonForbidden, "this cluster refused it: %v", err)
	default:
		return nil
	}
}

// isUndeclaredField reports whether an apply failed on a field that the server's CRD does not have, usually because the chart there is older than
// ours. Kubernetes 1.36 answers with status 500, and only the text says why.
func isUndeclaredField(err error) bool {
	return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && strings.Contains(err.Error(), "field not declared in schema")
}

// errForeign means that the apply conflicts with fields that others own in an object that is not ours.
var errForeign = errors.New("another client created an object with that name")

// writer writes to the member.
type writer struct {
	client client.Client
	reader client.Reader
	find   finder
	ledger *ledger
}

// errOthersOwn means that others own fields of an object, too many or too important to leave to them.
var errOthersOwn = errors.New("other field managers own fields of the object that can't be left to them (choose an adoption policy other than OwnFields)")

// applyOptions say how an object is applied.
type applyOptions struct {
	// takeFields means that fields of other managers are taken; otherwise they are left to them.
	takeFields bool
	// unchanged means that the object must not have changed since it was read.
	unchanged bool
}

// applyResult is the result of an apply.
type applyResult struct {
	// object is the object after the apply.
	object *unstructured.Unstructured
	// taken lists the fields that were taken from other managers, left those that were left to them.
	taken, left []string
}

// apply applies want over live, which is nil if the object doesn't exist.
func (w writer) apply(ctx context.Context, want *rendered, live *unstructured.Unstructured, o applyOptions) (applyResult, error) {
	obj := want.object.DeepCopy()
	if live != nil {
		var err error
		if live, err = w.moveToApplyEntry(ctx, live); err != nil {
			return applyResult{}, err
		}
		obj.SetUID(live.GetUID()) // A precondition: applying to another object with the same name fails.
		carried, err := keepIgnored(obj, live, want.ignored)
		if err != nil {
			return applyResult{}, err
		}
		if carried || o.unchanged { // Otherwise, a change made since would be reverted.
			obj.SetResourceVersion(live.GetResourceVersion())
		}
	}
	var left []string
	if !o.takeFields {
		var err error
		if left, err = leaveToOwners(obj, live); err != nil {
			return applyResult{}, err
		}
		if len(left) > leftPaths || slices.ContainsFunc(left, func(p string) bool { return len(p) > leftLength }) {
			return applyResult{}, fmt.Errorf("%w: %d fields, such as %s", errOthersOwn, len(left), left[0])
		}
	}
	retry := obj.DeepCopy()
	err := w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(link.AgentManager))
	conflicts := conflictingFields(err)
	switch {
	case ownership.IsOtherUID(err): // The object was replaced since it was read.
		return applyResult{}, apierrors.NewConflict(schema.GroupResource{Resource: obj.GetKind()}, obj.GetName(), err)
	case hasDuplicateKeys(err) && len(left) > 0:
		return applyResult{}, fmt.Errorf("%w: %w", errDuplicateKeys, err)
	case hasDuplicateKeys(err):
		object, err := w.createOrPatch(ctx, retry, live, want.ignored)
		return applyResult{object: object}, err
	case len(conflicts) == 0:
		return applyResult{object: obj, left: left}, err
	case live == nil:
		return applyResult{}, fmt.Errorf("%w: %w", errForeign, err)
	case !o.takeFields:
		return applyResult{}, fmt.Errorf("%w: %w", errOthersOwn, err)
	}
	err = w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(retry), client.FieldOwner(link.AgentManager), client.ForceOwnership)
	return applyResult{object: retry, taken: conflicts}, err
}

// conflictingFields lists the fields owned by other managers, taken from the error of a server-side apply. Other conflicts, such as a UID
// mismatch, list none.
func conflictingFields(err error) []string {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var paths []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			paths = append(paths, cause.Field)
		}
	}
	return limitPaths(paths)
}

// withdraw deletes or orphans an object and deletes its ledger line. live is nil if the object doesn't exist. While a finalizer holds the
// object, withdraw returns it and keeps the line.
func (w writer) withdraw(
	ctx context.Context, line *fleetv1alpha1.AppliedWork, live *unstructured.Unstructured, how action,
) (*unstructured.Unstructured, error) {
	switch how {
	case actDelete:
		left, err := w.deleteByUID(ctx, live)
		if left != nil || err != nil {
			return left, err
		}
	case actOrphan:
		if err := w.orphan(ctx, live); err != nil {
			return nil, err
		}
	case actNothing, actApply, actForget:
	}
	if err := w.ledger.deleteLine(ctx, line.Name); err != nil {
		return nil, err
	}
	ctrl.LoggerFrom(ctx).Info("Withdrew object", "kind", line.Spec.Object.Kind,
		"namespace", line.Spec.Object.Namespace, "name", line.Spec.Object.Name, "reason", how)
	return nil, nil
}

// deleteByUID deletes the object by UID and returns it if it still exists.
func (w writer) deleteByUID(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if live.GetDeletionTimestamp() == nil {
		err := w.client.Delete(ctx, live,
			client.Preconditions{UID: new(live.GetUID())}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("delete %s: %w", describe(live), err)
		}
	}
	left := &unstructured.Unstructured{}
	left.SetGroupVersionKind(live.GroupVersionKind())
	err := w.reader.Get(ctx, client.ObjectKeyFromObject(live), left)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s after its deletion: %w", describe(live), err)
	case left.GetUID() != live.GetUID():
		return nil, nil
	default:
		return left, nil
	}
}

// orphan removes our annotation and our managedFields entries from the object and changes nothing else.
func (w writer) orphan(ctx context.Context, live *unstructured.Unstructured) error {
	kept := slices.DeleteFunc(slices.Clone(live.GetManagedFields()), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == link.AgentManager
	})
	if len(kept) == 0 {
		kept = []metav1.ManagedFieldsEntry{{}} // For Kubernetes, one empty entry means "none"; an empty list means "unchanged".
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             live.GetUID(),
		"resourceVersion": live.GetResourceVersion(),
		"annotations":     map[string]any{keys.FleetRowUID: nil},
		"managedFields":   kept,
	}})
	if err != nil {
		return fmt.Errorf("write the patch that orphans %s: %w", describe(live), err)
	}
	err = w.client.Patch(ctx, live.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(link.AgentManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("orphan %s: %w", describe(live), err)
	}
	return nil
}

// withdrawal is how the objects of ledger lines without rows are withdrawn.
type withdrawal struct {
	policy fleetv1alpha1.LeavePolicy
	// deleteNothing keeps the objects that the policy deletes. Lines whose objects are gone are withdrawn nevertheless.
	deleteNothing bool
}

// maxFailures is how many objects may fail before withdrawLines gives up until the next attempt.
const maxFailures = 10

// leftovers is what is left after withdrawing lines without rows.
type leftovers struct {
	// lines is the number of remaining lines.
	lines int
	// protected explains, for each object protected by a label, why it stays.
	protected []string
}

// withdrawLines withdraws the objects of ledger lines without rows. An object that fails doesn't keep the others waiting, unless the member
// can't be reached.
func (w writer) withdrawLines(ctx context.Context, lines []*fleetv1alpha1.AppliedWork, as withdrawal) (leftovers, error) {
	var r leftovers
	var failed []error
	for _, line := range lines {
		gone, why, err := w.withdrawLine(ctx, line, as)
		if err != nil {
			failed = append(failed, err)
			if !isAboutRow(err) || len(failed) == maxFailures {
				break
			}
		}
		if why != "" {
			r.protected = append(r.protected, why)
		}
		if !gone {
			r.lines++
		}
	}
	return r, errors.Join(failed...)
}

// withdrawLine withdraws the object of a ledger line without a row. It reports whether the line is gone. The line of a protected object stays;
// why explains it.
func (w writer) withdrawLine(
	ctx context.Context, line *fleetv1alpha1.AppliedWork, as withdrawal,
) (gone bool, why string, err error) {
	live := &unstructured.Unstructured{}
	live.SetAPIVersion(line.Spec.Object.APIVersion)
	live.SetKind(line.Spec.Object.Kind)
	key := client.ObjectKey{Namespace: line.Spec.Object.Namespace, Name: line.Spec.Object.Name}
	how := actDelete
	if as.policy == fleetv1alpha1.LeaveOrphan {
		how = actOrphan
	}
	live, err = w.find.getAnyVersion(ctx, live.GroupVersionKind(), key)
	absent := (*notServedError)(nil)
	switch {
	case apierrors.IsNotFound(err), errors.As(err, &absent) && absent.mayExist == "":
		how, live = actForget, nil
	case absent != nil:
		return false, "", fmt.Errorf("%w; its objects may exist: %s", absent, absent.mayExist)
	case err != nil:
		return false, "", fmt.Errorf("get %s %s: %w", line.Spec.Object.Kind, key, err)
	case !ours(line, live):
		how = actForget
	}
	if how == actDelete {
		if as.deleteNothing {
			return false, "", nil
		}
		if why := protect.Why(live); why != "" {
			ctrl.LoggerFrom(ctx).Info("Kept a protected object", "kind", line.Spec.Object.Kind,
				"namespace", line.Spec.Object.Namespace, "name", line.Spec.Object.Name, "reason", why)
			return false, why, nil
		}
	}
	left, err := w.withdraw(ctx, line, live, how)
	return left == nil && err == nil, "", err
}

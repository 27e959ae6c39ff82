package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/link"
)

// apply does what was planned. An error is one that a retry may mend; what the member refused for good is in done.
func (r *rows) apply(ctx context.Context, o observed, p planned) (done, error) {
	d := done{line: o.line, live: o.live}
	switch p.act {
	case actNothing:
		d.gone = p.withdrawn
		return d, nil
	case actApply:
		return r.applyObject(ctx, o, p)
	case actDelete, actOrphan, actForget:
		left, err := r.hands.withdraw(ctx, o.line, o.live, p.act)
		if err != nil {
			return d, err
		}
		d.live, d.gone = left, left == nil
		return d, nil
	}
	return d, nil
}

// applyObject keeps the order that tells a crash from a foreign object: ledger, object, ledger.
func (r *rows) applyObject(ctx context.Context, o observed, p planned) (done, error) {
	d := done{line: o.line, live: o.live}
	if p.line != nil {
		line, err := r.ledger.put(ctx, o.row.Name, *p.line)
		if err != nil {
			return d, err
		}
		d.line = line
	}
	live, paths, err := r.hands.put(ctx, o.want.object, o.live)
	if d.stopped = refusal(err); d.stopped != nil {
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("apply %s: %w", describe(o.want.object), err)
	}
	applies.WithLabelValues(r.link.Cluster, o.want.object.GetKind()).Inc()
	ctrl.LoggerFrom(ctx).Info("Applied object", "kind", o.want.object.GetKind(), "reason", p.why)
	d.live = live
	switch {
	case !p.drift:
	case o.live == nil:
		d.drift = []string{"metadata.uid"}
	case len(paths) > 0:
		d.drift = paths
	default:
		d.drift = differences(o.want.object.Object, o.live.Object)
	}
	line, err := r.ledger.put(ctx, o.row.Name, appliedLine(o, live))
	if err != nil {
		return d, err
	}
	d.line = line
	return d, nil
}

// refusal tells the errors that the same request would meet again from those that pass. Server errors, throttling and
// time-outs pass.
func refusal(err error) *verdict {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errForeign):
		return blocked(fleetv1alpha1.ReasonForeignObject, "%v", err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), meta.IsNoMatchError(err), isUndeclared(err):
		return blocked(fleetv1alpha1.ReasonInvalid, "this cluster refused it: %v", err)
	case apierrors.IsForbidden(err):
		return blocked(fleetv1alpha1.ReasonForbidden, "this cluster refused it: %v", err)
	default:
		return nil
	}
}

// isUndeclared tells a field that the member's CRD does not have, usually because its charts are older than the hub's.
// Kubernetes 1.36 answers such an apply with 500 and no other sign than the text.
func isUndeclared(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && strings.Contains(err.Error(), "field not declared in schema")
}

// errForeign says that an apply met fields that others set in an object that is not ours.
var errForeign = errors.New("an object of that name was made by somebody else")

// hands write to the member.
type hands struct {
	client client.Client
	reader client.Reader
	ledger *ledger
}

// put applies want over live (nil: there was none) and returns what is there now, and the fields that others had taken.
func (h hands) put(ctx context.Context, want, live *unstructured.Unstructured) (*unstructured.Unstructured, []string, error) {
	obj := want.DeepCopy()
	if live != nil {
		obj.SetUID(live.GetUID()) // A precondition: another object of that name is refused.
	}
	err := h.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(link.AgentManager))
	paths := conflicts(err)
	switch {
	case len(paths) == 0:
		return obj, nil, err
	case live == nil:
		return nil, nil, fmt.Errorf("%w: %w", errForeign, err)
	}
	obj = want.DeepCopy()
	obj.SetUID(live.GetUID())
	err = h.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(link.AgentManager), client.ForceOwnership)
	return obj, paths, err
}

// conflicts lists the fields of a refused server-side apply that other managers own. Another conflict, such as one of
// UIDs, has none.
func conflicts(err error) []string {
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
	return boundPaths(paths)
}

// withdraw ends our part in an object (nil: there is none) and drops its line. It returns the object while it is still
// there, because a finalizer holds it; the line then stays as well.
func (h hands) withdraw(ctx context.Context, line *fleetv1alpha1.AppliedWork, live *unstructured.Unstructured, how act) (*unstructured.Unstructured, error) {
	switch how {
	case actDelete:
		left, err := h.remove(ctx, live)
		if left != nil || err != nil {
			return left, err
		}
	case actOrphan:
		if err := h.orphan(ctx, live); err != nil {
			return nil, err
		}
	case actNothing, actApply, actForget:
	}
	if err := h.ledger.drop(ctx, line.Name); err != nil {
		return nil, err
	}
	ctrl.LoggerFrom(ctx).Info("Withdrew object", "kind", line.Spec.Object.Kind,
		"namespace", line.Spec.Object.Namespace, "name", line.Spec.Object.Name, "reason", how)
	return nil, nil
}

// remove deletes the object of that UID and returns it if it is there still.
func (h hands) remove(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if live.GetDeletionTimestamp() == nil {
		err := h.client.Delete(ctx, live,
			client.Preconditions{UID: new(live.GetUID())}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("delete %s: %w", describe(live), err)
		}
	}
	left := &unstructured.Unstructured{}
	left.SetGroupVersionKind(live.GroupVersionKind())
	err := h.reader.Get(ctx, client.ObjectKeyFromObject(live), left)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for %s after its deletion: %w", describe(live), err)
	case left.GetUID() != live.GetUID():
		return nil, nil
	default:
		return left, nil
	}
}

// orphan takes our annotation and our entries in managedFields off the object and leaves all else as it is.
func (h hands) orphan(ctx context.Context, live *unstructured.Unstructured) error {
	kept := slices.DeleteFunc(slices.Clone(live.GetManagedFields()), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == link.AgentManager
	})
	if len(kept) == 0 {
		kept = []metav1.ManagedFieldsEntry{{}} // Kubernetes takes one empty entry, and not an empty list, as "none".
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
	err = h.client.Patch(ctx, live.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(link.AgentManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("orphan %s: %w", describe(live), err)
	}
	return nil
}

// withdrawLine ends our part in the object of a line that has no row any more. It tells whether the line is gone.
func (h hands) withdrawLine(ctx context.Context, line *fleetv1alpha1.AppliedWork, policy fleetv1alpha1.LeavePolicy) (bool, error) {
	live := &unstructured.Unstructured{}
	live.SetAPIVersion(line.Spec.Object.APIVersion)
	live.SetKind(line.Spec.Object.Kind)
	key := client.ObjectKey{Namespace: line.Spec.Object.Namespace, Name: line.Spec.Object.Name}
	how := actDelete
	if policy == fleetv1alpha1.LeaveOrphan {
		how = actOrphan
	}
	err := h.reader.Get(ctx, key, live)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		how, live = actForget, nil
	case err != nil:
		return false, fmt.Errorf("get %s %s: %w", line.Spec.Object.Kind, key, err)
	case !ours(line, live):
		how = actForget
	}
	left, err := h.withdraw(ctx, line, live, how)
	return left == nil && err == nil, err
}

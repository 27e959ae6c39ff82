package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/pkg/plan/overlay"
)

// errGone means that the row does not exist. Its object stays: absence does not prove a withdrawal.
var errGone = errors.New("the row is gone")

// observe reads the input for planning a row. If fresh is set, the object is read from the apiserver, otherwise from a cache if there is one.
// An error is worth a retry; a problem that isn't is returned in refused.
func (r *rowReconciler) observe(ctx context.Context, key client.ObjectKey, fresh bool) (observed, error) {
	row := &fleetv1alpha1.MemberWork{}
	if err := r.link.Hub.GetCache().Get(ctx, key, row); err != nil {
		if apierrors.IsNotFound(err) {
			return observed{}, errGone
		}
		return observed{}, fmt.Errorf("get row %s: %w", key, err)
	}
	o := observed{
		row: row, permission: r.binding.permission(), limits: r.link.Namespaces, resources: r.link.Resources, line: r.ledger.get(row.Name), fresh: fresh,
	}
	o.contention = r.memory.get(row).contention
	if !o.permission.mayAct {
		return o, nil
	}
	if row.DeletionTimestamp.IsZero() {
		var err error
		if o.want, o.refused, err = r.renderRow(ctx, row); err != nil {
			return o, err
		}
	}
	gvk, objectKey, found := o.object()
	if !found {
		return o, nil
	}
	if err := r.observeResource(&o, gvk); err != nil || kindProblem(o) != nil { // The agent might not be allowed to read the object.
		return o, err
	}
	if err := r.observeLive(ctx, &o, gvk, objectKey); err != nil {
		return o, err
	}
	if o.fresh && o.live == nil && o.line != nil {
		o.pendingApply = r.pendingApply(row)
	}
	o.heldBack = r.heldBack(o)
	if err := r.observeAdoption(ctx, &o); err != nil {
		return o, err
	}
	if o.live == nil && o.fresh && o.want != nil && o.refused == nil && objectKey.Namespace != "" {
		return o, r.observeNamespace(ctx, &o, objectKey.Namespace)
	}
	return o, nil
}

// heldBack reports whether the withdrawal of a row must wait for confirmation.
func (r *rowReconciler) heldBack(o observed) bool {
	if !o.fresh {
		return false
	}
	key := client.ObjectKeyFromObject(o.row)
	deletes := !o.row.DeletionTimestamp.IsZero() && o.row.Spec.DeletionPolicy != fleetv1alpha1.LeaveOrphan && o.live != nil
	if !deletes || o.row.Spec.Withdrawn || o.permission.leaving {
		r.breaker.release(key)
		return false
	}
	return !r.breaker.pass(key, r.ledger.size(), r.link.Clock.Now())
}

// object names the object to read: the one that the row asks for, or the one in the ledger.
func (o observed) object() (gvk schema.GroupVersionKind, key client.ObjectKey, found bool) {
	if o.want != nil {
		return o.want.object.GroupVersionKind(), client.ObjectKeyFromObject(o.want.object), true
	}
	if o.line == nil {
		return schema.GroupVersionKind{}, client.ObjectKey{}, false
	}
	former := o.line.Spec.Object
	return schema.FromAPIVersionAndKind(former.APIVersion, former.Kind), client.ObjectKey{Namespace: former.Namespace, Name: former.Name}, true
}

// observeResource finds the resource of a kind if resources are limited. A kind that is not served has none.
func (r *rowReconciler) observeResource(o *observed, gvk schema.GroupVersionKind) error {
	if o.resources == nil {
		return nil
	}
	m, err := r.find.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if notServed(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the resource of %s: %w", gvk.Kind, err)
	}
	o.resource = m.Resource.GroupResource()
	return nil
}

// renderRow renders the row. Contents are immutable, so the result is kept while the row's generation stays the same.
func (r *rowReconciler) renderRow(ctx context.Context, row *fleetv1alpha1.MemberWork) (want *rendered, refused *problem, err error) {
	mem := r.memory.get(row)
	if mem.want != nil && mem.generation == row.Generation {
		return mem.want, nil, nil
	}
	manifest, refused, err := r.manifest(ctx, row)
	if refused != nil || err != nil {
		return nil, refused, err
	}
	want, err = render(manifest, row.Spec.Patch.Raw, row.Spec.Apply, string(row.UID))
	if err != nil {
		return nil, blocked(fleetv1alpha1.ReasonInvalid, "the row from the hub is invalid: %v", err), nil
	}
	mem.want, mem.generation = want, row.Generation
	r.memory.set(row, mem)
	return want, nil, nil
}

// manifest reads the manifest of a row.
func (r *rowReconciler) manifest(ctx context.Context, row *fleetv1alpha1.MemberWork) (manifest []byte, refused *problem, err error) {
	if row.Spec.Content.Inline != "" {
		return []byte(row.Spec.Content.Inline), nil, nil
	}
	content := &fleetv1alpha1.WorkContent{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: row.Spec.Content.Name()}
	err = r.link.Hub.GetAPIReader().Get(ctx, key, content)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, blocked(fleetv1alpha1.ReasonContentNotFound, "content %s can't be read on the hub: %v", key, err), nil
	case err != nil:
		return nil, nil, fmt.Errorf("get content %s: %w", key, err)
	}
	return []byte(content.Manifest), nil, nil
}

// observeLive reads the object, and makes its changes enqueue the row from now on.
func (r *rowReconciler) observeLive(ctx context.Context, o *observed, gvk schema.GroupVersionKind, at client.ObjectKey) error {
	live, err := r.readCached(ctx, o, gvk, at)
	if o.fresh {
		get := r.find.get
		if o.want == nil {
			get = r.find.getAnyVersion
		}
		live, err = get(ctx, gvk, at)
	}
	absent := (*notServedError)(nil)
	switch {
	case err == nil:
		o.live, gvk = live, live.GroupVersionKind()
	case errors.As(err, &absent):
		//nolint:contextcheck // As for follow.
		r.watches.awaitKind(gvk, client.ObjectKeyFromObject(o.row), o.want == nil)
		if o.want == nil && absent.mayExist == "" {
			return nil // Without the kind there is no object.
		}
		o.refuse(r.notServed(absent, o.row.Name, o.want == nil))
		return nil
	case apierrors.IsForbidden(err):
		o.refuse(blocked(fleetv1alpha1.ReasonForbidden, "the agent isn't allowed to read it in this cluster: %v", err))
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("get %s %s: %w", gvk.Kind, at, err)
	}
	t := target{kind: gvk.GroupKind(), namespace: at.Namespace, name: at.Name}
	//nolint:contextcheck // A kind is watched for as long as the controller runs, not only during this reconcile.
	return r.watches.follow(gvk, t, client.ObjectKeyFromObject(o.row))
}

// readCached reads the object from the cache if o need not be fresh and the cache has the kind. Otherwise it sets o.fresh.
func (r *rowReconciler) readCached(
	ctx context.Context, o *observed, gvk schema.GroupVersionKind, at client.ObjectKey,
) (*unstructured.Unstructured, error) {
	if o.fresh || !r.watches.kinds.Synced(gvk) {
		o.fresh = true
		return nil, nil
	}
	live := kindwatch.OfKind(gvk)
	err := r.watches.cache.Get(ctx, at, live)
	gone := (*cache.ErrResourceNotCached)(nil)
	_, marked := live.GetAnnotations()[keys.FleetRowUID]
	if errors.As(err, &gone) || err == nil && !marked { // The watch has ended, or the cache has only its identity.
		o.fresh = true
	}
	return live, err // The caller wraps it.
}

// notServed returns why a row waits or can't be withdrawn because its kind is not served. The watch on CRDs ends the wait; an agent without
// that watch rechecks.
func (r *rowReconciler) notServed(u *notServedError, row string, withdrawn bool) *problem {
	p := blocked(fleetv1alpha1.ReasonKindNotServed, "%v", u)
	if withdrawn {
		p = blocked(fleetv1alpha1.ReasonKindNotServed,
			"this cluster no longer serves %s of %s, so its object can't be deleted, and %s: serve the kind again, or delete AppliedWork %s in this cluster",
			u.gvk.Kind, groupName(u.gvk.Group), u.mayExist, row)
	}
	p.watched = r.served == nil || r.served.watching()
	return p
}

// observeAdoption finds out what prevents adopting an object that is not ours.
func (r *rowReconciler) observeAdoption(ctx context.Context, o *observed) error {
	how := adoption(o.row)
	if !o.fresh || o.want == nil || o.live == nil || how == fleetv1alpha1.AdoptNever || ours(o.line, o.live) {
		return nil
	}
	o.holderRow = r.ledger.rowHolding(string(o.live.GetUID()), o.row.Name)
	if how != fleetv1alpha1.AdoptIfEqual || o.live.GetDeletionTimestamp() != nil {
		return nil
	}
	applied := o.want.object.DeepCopy()
	applied.SetUID(o.live.GetUID())
	err := r.writer.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied),
		client.FieldOwner(link.AgentManager), client.ForceOwnership, client.DryRunAll)
	if hasDuplicateKeys(err) {
		applied, err = r.writer.createOrPatch(ctx, o.want.object, o.live, o.want.ignored, client.DryRunAll)
	}
	if p := permanentProblem(err); p != nil {
		o.refuse(p)
		return nil
	}
	if err != nil {
		return fmt.Errorf("dry-run the apply of %s: %w", describe(o.want.object), err)
	}
	o.differs = differences(o.live, applied)
	return nil
}

// differences returns the paths where the two objects differ, ignoring what every apply changes.
func differences(live, applied *unstructured.Unstructured) []string {
	a, b := withoutServerFields(live), withoutServerFields(applied)
	paths := append(overlay.Paths(a, b), overlay.Paths(b, a)...)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// withoutServerFields returns the content of an object without our annotation and without the metadata that the apiserver changes on every write.
func withoutServerFields(o *unstructured.Unstructured) map[string]any {
	c := o.DeepCopy()
	c.SetManagedFields(nil)
	c.SetResourceVersion("")
	c.SetGeneration(0)
	removeFields(c.Object, [][]string{{"metadata", "annotations", keys.FleetRowUID}})
	return c.Object
}

// adoption returns the adoption policy of a row, or the default.
func adoption(row *fleetv1alpha1.MemberWork) fleetv1alpha1.AdoptionPolicy {
	if row.Spec.Apply == nil || row.Spec.Apply.Adoption == "" {
		return fleetv1alpha1.AdoptNever
	}
	return row.Spec.Apply.Adoption
}

// refuse keeps the first problem.
func (o *observed) refuse(p *problem) {
	if o.refused == nil {
		o.refused = p
	}
}

func (r *rowReconciler) observeNamespace(ctx context.Context, o *observed, name string) error {
	err := r.link.Member.GetAPIReader().Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		o.namespaceMissing = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("get namespace %s: %w", name, err)
	}
	return nil
}

package agent

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// errGone means that the row does not exist. Its object stays: absence does not prove a withdrawal.
var errGone = errors.New("the row is gone")

// observe reads the input of a row's plan. With fresh the object is read from the apiserver, otherwise from a cache where there
// is one. An error is worth a retry; what is not is in refused.
func (r *rows) observe(ctx context.Context, key client.ObjectKey, fresh bool) (observed, error) {
	row := &fleetv1alpha1.MemberWork{}
	if err := r.link.Hub.GetCache().Get(ctx, key, row); err != nil {
		if apierrors.IsNotFound(err) {
			return observed{}, errGone
		}
		return observed{}, fmt.Errorf("get row %s: %w", key, err)
	}
	o := observed{
		row: row, permission: r.binding.permission(), limits: r.link.Namespaces, line: r.ledger.get(row.Name), fresh: fresh,
	}
	o.contention = r.memory.get(row).contention
	if !o.permission.act {
		return o, nil
	}
	if row.DeletionTimestamp.IsZero() {
		var err error
		if o.want, o.refused, err = r.want(ctx, row); err != nil {
			return o, err
		}
	}
	gvk, at, ok := o.object()
	if !ok {
		return o, nil
	}
	if err := r.observeLive(ctx, &o, gvk, at); err != nil {
		return o, err
	}
	o.heldBack = r.heldBack(o)
	if o.live == nil && o.fresh && o.want != nil && at.Namespace != "" {
		return o, r.observeNamespace(ctx, &o, at.Namespace)
	}
	return o, nil
}

// heldBack reports whether the withdrawal of a row has to wait for a confirmation.
func (r *rows) heldBack(o observed) bool {
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
func (o observed) object() (schema.GroupVersionKind, client.ObjectKey, bool) {
	if o.want != nil {
		return o.want.object.GroupVersionKind(), client.ObjectKeyFromObject(o.want.object), true
	}
	if o.line == nil {
		return schema.GroupVersionKind{}, client.ObjectKey{}, false
	}
	is := o.line.Spec.Object
	return schema.FromAPIVersionAndKind(is.APIVersion, is.Kind), client.ObjectKey{Namespace: is.Namespace, Name: is.Name}, true
}

// want renders the row. A content is immutable, so the result is kept for as long as the row's generation stays the same.
func (r *rows) want(ctx context.Context, row *fleetv1alpha1.MemberWork) (*rendered, *problem, error) {
	mem := r.memory.get(row)
	if mem.want != nil && mem.generation == row.Generation {
		return mem.want, nil, nil
	}
	manifest, refused, err := r.manifest(ctx, row)
	if refused != nil || err != nil {
		return nil, refused, err
	}
	want, err := render(manifest, row.Spec.Patch.Raw, string(row.UID))
	if err != nil {
		return nil, blocked(fleetv1alpha1.ReasonInvalid, "the hub's row can't be read: %v", err), nil
	}
	mem.want, mem.generation = want, row.Generation
	r.memory.set(row, mem)
	return want, nil, nil
}

func (r *rows) manifest(ctx context.Context, row *fleetv1alpha1.MemberWork) ([]byte, *problem, error) {
	if row.Spec.Content.Inline != "" {
		return []byte(row.Spec.Content.Inline), nil, nil
	}
	content := &fleetv1alpha1.WorkContent{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: row.Spec.Content.Name()}
	err := r.link.Hub.GetAPIReader().Get(ctx, key, content)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, blocked(fleetv1alpha1.ReasonContentNotFound, "content %s can't be read on the hub: %v", key, err), nil
	case err != nil:
		return nil, nil, fmt.Errorf("get content %s: %w", key, err)
	}
	return []byte(content.Manifest), nil, nil
}

// observeLive reads the object, and makes its changes enqueue the row from now on.
func (r *rows) observeLive(ctx context.Context, o *observed, gvk schema.GroupVersionKind, at client.ObjectKey) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(gvk)
	reader := r.link.Member.GetAPIReader()
	if !o.fresh && r.watches.synced(gvk) {
		reader = r.link.Member.GetCache()
	} else {
		o.fresh = true
	}
	err := reader.Get(ctx, at, live)
	switch {
	case err == nil:
		o.live = live
	case meta.IsNoMatchError(err) && o.want == nil:
		return nil // Without the kind there is no object.
	case meta.IsNoMatchError(err):
		o.refuse(blocked(fleetv1alpha1.ReasonInvalid, "this cluster does not serve %s %s: install it there", gvk.GroupVersion(), gvk.Kind))
		return nil
	case apierrors.IsForbidden(err):
		o.refuse(blocked(fleetv1alpha1.ReasonForbidden, "the agent may not read it in this cluster: %v", err))
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("get %s %s: %w", gvk.Kind, at, err)
	}
	t := target{kind: gvk.GroupKind(), namespace: at.Namespace, name: at.Name}
	//nolint:contextcheck // A kind is watched for as long as the controller runs, not only during this reconcile.
	return r.watches.follow(gvk, t, client.ObjectKeyFromObject(o.row))
}

// refuse keeps the first problem.
func (o *observed) refuse(p *problem) {
	if o.refused == nil {
		o.refused = p
	}
}

func (r *rows) observeNamespace(ctx context.Context, o *observed, name string) error {
	err := r.link.Member.GetAPIReader().Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		o.noNamespace = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("get namespace %s: %w", name, err)
	}
	return nil
}

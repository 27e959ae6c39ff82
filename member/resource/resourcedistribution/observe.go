package resourcedistribution

import (
	"context"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
)

// observed is what one reconcile has read. All objects come straight from the cache and must not be changed.
type observed struct {
	rd       *appsv1beta1.ResourceDistribution
	resource resource
	// namespaces are all namespaces. held are the objects with the resource's kind and name. Both are keyed by namespace.
	namespaces map[string]*corev1.Namespace
	held       map[string]*held
	// blocked is why the objects can't be read or may not be written; nil if they can. syncing means that their watch has not synced yet.
	blocked *failure
	syncing bool
	// lacking is why the content of the source is not known, so no copy can be created or changed; nil if it is known.
	lacking *failure
}

// observe reads what a reconcile needs.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{rd: &appsv1beta1.ResourceDistribution{}}
	children := func(from client.Reader, live bool) error { return r.readChildren(ctx, from, live, &o) }
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) {
			if !yield(o.rd) {
				return
			}
			for _, h := range o.held {
				if !yield(h) {
					return
				}
			}
		}
	}
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.rd, children, shown); err != nil {
		return o, fmt.Errorf("read ResourceDistribution: %w", err)
	}
	return o, nil
}

// readChildren reads namespaces and objects. live means that the reader is the apiserver.
func (r *Reconciler) readChildren(ctx context.Context, from client.Reader, live bool, o *observed) error {
	o.namespaces, o.held, o.blocked, o.syncing = map[string]*corev1.Namespace{}, map[string]*held{}, nil, false
	o.lacking = nil
	if ofHub(o.rd) {
		return expect.ErrGone
	}
	var err error
	if o.resource, err = resourceOf(&o.rd.Spec); err != nil {
		o.blocked = &failure{appsv1beta1.ResourceDistributionCreateResourceFailed, reasonInvalid, err.Error()}
	} else if o.resource.kind == kindSecret && !slices.Contains(r.Secrets, o.resource.name) {
		o.blocked = &failure{appsv1beta1.ResourceDistributionCreateResourceFailed, reasonNotAllowed, notAllowed(o.resource.name)}
	}
	var list corev1.NamespaceList
	if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for i := range list.Items {
		o.namespaces[list.Items[i].Name] = &list.Items[i]
	}
	if o.blocked != nil {
		return nil
	}
	all, synced, err := r.Copies.all(ctx, o.resource.id)
	if live {
		synced = true
		all, err = listed(ctx, from, o.resource.id)
	}
	if err != nil {
		o.blocked = &failure{appsv1beta1.ResourceDistributionGetResourceFailed, reasonOf(err), err.Error()}
		return nil
	}
	o.syncing = !synced
	for _, h := range all {
		o.held[h.Namespace] = h
	}
	if s := o.rd.Spec.Source; s != nil {
		o.useSource(s, o.held[s.Namespace])
	}
	return nil
}

// useSource sets the content of the resource to the content of a source. h is nil if the source doesn't exist.
func (o *observed) useSource(s *appsv1beta1.ResourceDistributionSource, h *held) {
	lack := func(reason, message string) {
		o.lacking = &failure{appsv1beta1.ResourceDistributionGetResourceFailed, reason, message}
	}
	switch {
	case h == nil:
		lack(reasonSourceNotFound, fmt.Sprintf("%s not found in namespace %s: the copies stay unchanged until it exists",
			o.resource.id, s.Namespace))
	case ours(o.rd, h):
		lack(reasonSourceInvalid, fmt.Sprintf("%s in namespace %s is itself a copy: remove its ownerReferences, or choose another source",
			o.resource.id, s.Namespace))
	case h.token:
		lack(reasonSourceInvalid, fmt.Sprintf("%s in namespace %s is a ServiceAccount token, which belongs to one namespace: "+
			"distribute the objects that use it instead", o.resource.id, s.Namespace))
	default:
		o.resource.content = h.mutable()
	}
}

// listed reads the objects with a kind and name.
func listed(ctx context.Context, from client.Reader, key id) ([]*held, error) {
	list := key.list()
	byName := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(metav1.ObjectNameField, key.name)}
	if err := from.List(ctx, list, byName); err != nil {
		return nil, fmt.Errorf("list %s: %w", key, err)
	}
	var out []*held
	add := func(o client.Object) error {
		h, err := newHeld(key.kind, o)
		out = append(out, h)
		return err
	}
	switch l := list.(type) {
	case *corev1.SecretList:
		for i := range l.Items {
			if err := add(&l.Items[i]); err != nil {
				return nil, err
			}
		}
	case *corev1.ConfigMapList:
		for i := range l.Items {
			if err := add(&l.Items[i]); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// list returns an empty list of the kind.
func (i id) list() client.ObjectList {
	if i.kind == kindSecret {
		return &corev1.SecretList{}
	}
	return &corev1.ConfigMapList{}
}

// empty returns an empty object of the kind.
func (i id) empty() client.Object {
	if i.kind == kindSecret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}

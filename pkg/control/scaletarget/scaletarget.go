package scaletarget

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// Ref names a workload.
type Ref struct {
	Kind schema.GroupVersionKind
	types.NamespacedName
	// UID is empty if the reference has none: then it refers to whatever has the name.
	UID types.UID
}

// Same reports whether two references are to the same workload. The version is ignored, and a missing UID matches any UID.
func (r Ref) Same(other Ref) bool {
	return r.Kind.GroupKind() == other.Kind.GroupKind() && r.NamespacedName == other.NamespacedName &&
		(r.UID == "" || other.UID == "" || r.UID == other.UID)
}

// IndexKey returns the key for indexing objects by their target, within a namespace. It contains no version: all versions mean the same
// workload.
func (r Ref) IndexKey() string { return r.Kind.Group + "/" + r.Kind.Kind + "/" + r.Name }

// String returns kind and name in readable form.
func (r Ref) String() string { return r.Kind.GroupKind().String() + " " + r.Name }

// Controller returns the controller from an object's owner references; false if there is none.
func Controller(o metav1.Object) (Ref, bool) {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return Ref{}, false
	}
	return Ref{
		Kind:           schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind),
		NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name},
		UID:            ref.UID,
	}, true
}

// newTyped returns an empty object of a kind that is read with its type, because controllers here cache it anyway; nil for other kinds.
func newTyped(kind schema.GroupKind) client.Object {
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return &appsv1.Deployment{}
	case StatefulSet():
		return &appsv1.StatefulSet{}
	case schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}:
		return &appsv1beta1.CloneSet{}
	case AdvancedStatefulSet():
		return &appsv1beta1.StatefulSet{}
	}
	return nil
}

// StatefulSet is the kind of Kubernetes, AdvancedStatefulSet the one of apps.kruise.io.
func StatefulSet() schema.GroupKind { return schema.GroupKind{Group: "apps", Kind: "StatefulSet"} }

// AdvancedStatefulSet is the StatefulSet of apps.kruise.io.
func AdvancedStatefulSet() schema.GroupKind {
	return schema.GroupKind{Group: "apps.kruise.io", Kind: "StatefulSet"}
}

// Empty returns an empty object for reading or watching a kind: typed, or metadata only.
func Empty(kind schema.GroupVersionKind) client.Object {
	if o := newTyped(kind.GroupKind()); o != nil {
		return o
	}
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	return o
}

// Get reads a workload. It returns nil if no object has the name, or if it isn't the one that the reference means.
func Get(ctx context.Context, r client.Reader, ref Ref) (client.Object, error) {
	o := Empty(ref.Kind)
	switch err := r.Get(ctx, ref.NamespacedName, o); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // Without the kind there is no such object.
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", ref, err)
	case ref.UID != "" && o.GetUID() != ref.UID:
		return nil, nil
	}
	return o, nil
}

// Chain returns the controllers of an object, starting with its own, up to one without a controller or of a kind that must not be read. missing
// reports that the chain ends with a controller that r doesn't have.
func Chain(ctx context.Context, r client.Reader, o metav1.Object, may func(schema.GroupVersionKind) bool) (out []Ref, missing bool, err error) {
	for {
		ref, ok := Controller(o)
		if !ok {
			return out, false, nil
		}
		for _, seen := range out {
			if seen.UID == ref.UID { // Users can write owner references that form a cycle.
				return out, false, nil
			}
		}
		out = append(out, ref)
		if !may(ref.Kind) {
			return out, false, nil
		}
		owner, err := Get(ctx, r, ref)
		if err != nil || owner == nil {
			return out, err == nil, err
		}
		o = owner
	}
}

// Replicas returns how many pods a workload wants; known is false if its kind has no scale subresource. For a kind without types here it reads
// the scale subresource, which takes a request to the API server.
func Replicas(ctx context.Context, c client.Client, o client.Object) (n int32, known bool, err error) {
	switch w := o.(type) {
	case *appsv1.Deployment:
		return ptr.Deref(w.Spec.Replicas, 1), true, nil
	case *appsv1.StatefulSet:
		return ptr.Deref(w.Spec.Replicas, 1), true, nil
	case *appsv1beta1.CloneSet:
		return ptr.Deref(w.Spec.Replicas, 1), true, nil
	case *appsv1beta1.StatefulSet:
		return ptr.Deref(w.Spec.Replicas, 1), true, nil
	}
	target, scale := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	target.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	target.SetNamespace(o.GetNamespace())
	target.SetName(o.GetName())
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	switch err := c.SubResource("scale").Get(ctx, target, scale); {
	case apierrors.IsNotFound(err): // Or it is gone; its own watch event reports that.
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("get scale of %s %s: %w", target.GetKind(), target.GetName(), err)
	}
	var current autoscalingv1.Scale
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(scale.Object, &current); err != nil {
		return 0, false, fmt.Errorf("read scale of %s %s: %w", target.GetKind(), target.GetName(), err)
	}
	return current.Spec.Replicas, true, nil
}

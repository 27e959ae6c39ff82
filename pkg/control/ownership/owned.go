package ownership

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// ControlledBy reports whether owner, of that kind, is the controller of o.
func ControlledBy(o, owner metav1.Object, kind schema.GroupVersionKind) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.UID == owner.GetUID() && RefersTo(ref, kind)
}

// RefersTo reports whether a reference is to an object of that kind, in any version. A nil reference never is.
func RefersTo(ref *metav1.OwnerReference, kind schema.GroupVersionKind) bool {
	if ref == nil || ref.Kind != kind.Kind {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == kind.Group
}

// PodWorkloads are the kinds of this member whose pods run until they are replaced. Their controllers replace a pod with the label
// keys.SpecifiedDelete, within the budgets of the workload.
func PodWorkloads() []schema.GroupVersionKind {
	gv := schema.GroupVersion{Group: "apps.kruise.io", Version: "v1beta1"}
	return []schema.GroupVersionKind{gv.WithKind("CloneSet"), gv.WithKind("StatefulSet"), gv.WithKind("DaemonSet")}
}

// OfPodWorkload reports whether a pod's controller is of one of the PodWorkloads.
func OfPodWorkload(pod metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return slices.ContainsFunc(PodWorkloads(), func(k schema.GroupVersionKind) bool { return RefersTo(ref, k) })
}

// Get reads an object, and reports whether it exists.
func Get(ctx context.Context, r client.Reader, key types.NamespacedName, into client.Object, opts ...client.GetOption) (bool, error) {
	switch err := r.Get(ctx, key, into, opts...); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get %T %s: %w", into, key, err)
	}
	return true, nil
}

// Pods returns the pods that owner controls. live: r is the API server, which has no index. Objects from a cache are not copied and must not be
// changed.
func Pods(ctx context.Context, r client.Reader, owner metav1.Object, kind schema.GroupVersionKind, live bool) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.List(ctx, &list, OwnedBy(owner, live)...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return Controlled(list.Items, owner, kind), nil
}

// PVCs returns the PVCs that owner controls; see Pods.
func PVCs(
	ctx context.Context, r client.Reader, owner metav1.Object, kind schema.GroupVersionKind, live bool,
) ([]*corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	if err := r.List(ctx, &list, OwnedBy(owner, live)...); err != nil {
		return nil, fmt.Errorf("list PVCs: %w", err)
	}
	return Controlled(list.Items, owner, kind), nil
}

// Controlled returns the items controlled by owner, which is of that kind.
func Controlled[T any, P interface {
	*T
	metav1.Object
}](items []T, owner metav1.Object, kind schema.GroupVersionKind) []P {
	out := make([]P, 0, len(items))
	for i := range items {
		if o := P(&items[i]); ControlledBy(o, owner, kind) {
			out = append(out, o)
		}
	}
	return out
}

// EnqueueController returns a handler that enqueues the controllers of objects, if they are of this kind. It only compares names: pod events are
// frequent, and this needs no REST mapping.
func EnqueueController(kind schema.GroupVersionKind) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
		ref := metav1.GetControllerOfNoCopy(o)
		if !RefersTo(ref, kind) {
			return nil
		}
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}}}
	})
}

// RequestsForNode returns the workloads of a kind that have pods on a node. The cache needs IndexByNode. A read error is logged: the workloads
// then wait for their next event.
func RequestsForNode(cache client.Reader, kind schema.GroupVersionKind) func(ctx context.Context, node string) []ctrl.Request {
	return func(ctx context.Context, node string) []ctrl.Request {
		var pods corev1.PodList
		if err := cache.List(ctx, &pods, client.MatchingFields{NodeIndex: node}, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to list the workloads with pods on a node", "kind", kind.Kind, "node", node)
			return nil
		}
		var out []ctrl.Request
		for i := range pods.Items {
			ref := metav1.GetControllerOfNoCopy(&pods.Items[i])
			if !RefersTo(ref, kind) {
				continue
			}
			req := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: pods.Items[i].Namespace, Name: ref.Name}}
			if !slices.Contains(out, req) {
				out = append(out, req)
			}
		}
		return out
	}
}

// RequestsForOrphan returns the workloads that may adopt a pod: it has no controller, their selector matches it, and scanner.Adopts allows it.
// list is an empty list of their kind. Their next reconcile scans for overlaps.
func RequestsForOrphan[T client.Object](
	ctx context.Context, cache client.Reader, scanner *OverlapScanner, list client.ObjectList,
	selector func(T) *metav1.LabelSelector, o client.Object,
) []ctrl.Request {
	pod, isPod := o.(*corev1.Pod)
	if !isPod || metav1.GetControllerOfNoCopy(pod) != nil {
		return nil
	}
	out := RequestsFor(ctx, cache, list, pod.Namespace, func(owner T) bool {
		return scanner.Adopts(owner, pod) && Selects(selector(owner), pod)
	})
	for _, req := range out {
		scanner.Forget(req.NamespacedName)
	}
	return out
}

// RequestsFor returns the workloads in a namespace, or in all if it is empty, that an event concerns. list is an empty list of their kind, read
// from cache; concerns must not change its argument. A read error is logged: the workloads then wait for their next event.
func RequestsFor[T client.Object](
	ctx context.Context, cache client.Reader, list client.ObjectList, namespace string, concerns func(T) bool,
) []ctrl.Request {
	var out []ctrl.Request
	err := cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err == nil {
		err = meta.EachListItem(list, func(o runtime.Object) error {
			if set, ok := o.(T); ok && concerns(set) {
				out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
			}
			return nil
		})
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the workloads for an event", "kind", fmt.Sprintf("%T", list), "namespace", namespace)
	}
	return out
}

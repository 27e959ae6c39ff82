package podprobemarker

import (
	"context"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
)

// observed is what one reconcile has read. The pods are shared with the cache and must not be modified.
type observed struct {
	marker *appsv1alpha1.PodProbeMarker
	// pods holds the selected pods, in any state.
	pods []*corev1.Pod
}

// observe reads a PodProbeMarker and its pods.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{marker: &appsv1alpha1.PodProbeMarker{}}
	children := func(from client.Reader, _ bool) error {
		o.pods = nil
		selector, err := metav1.LabelSelectorAsSelector(o.marker.Spec.Selector)
		if err != nil || selector.Empty() {
			return nil //nolint:nilerr // Admission refuses it, and it selects nothing.
		}
		var list corev1.PodList
		err = from.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return fmt.Errorf("list pods of the selector: %w", err)
		}
		for i := range list.Items {
			o.pods = append(o.pods, &list.Items[i])
		}
		return nil
	}
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) { yield(o.marker) }
	}
	if err := r.Expect.ReadFinalized(ctx, r.Client, r.Live, key, o.marker, children, shown); err != nil {
		return o, fmt.Errorf("read %s: %w", kind, err)
	}
	return o, nil
}

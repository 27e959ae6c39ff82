package podprobe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// Due reports whether a pod is probed once a PodProbeMarker selects it: it is on a node, has been initialized and has not ended.
func Due(pod *corev1.Pod) bool {
	c := podpatch.Find(pod, corev1.PodInitialized)
	return podpatch.Active(pod) && pod.Spec.NodeName != "" && c != nil && c.Status == corev1.ConditionTrue
}

// Markers are the PodProbeMarkers of one namespace that are not being deleted, oldest first. If two of them conflict on a pod, the older one
// wins.
type Markers []marker

type marker struct {
	*appsv1alpha1.PodProbeMarker

	selector labels.Selector
}

// ListMarkers reads the PodProbeMarkers of a namespace. Objects from a cache are shared and must not be changed.
func ListMarkers(ctx context.Context, from client.Reader, namespace string) (Markers, error) {
	var list appsv1alpha1.PodProbeMarkerList
	if err := from.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodProbeMarkers of namespace %s: %w", namespace, err)
	}
	return MarkersOf(list.Items), nil
}

// MarkersOf sorts PodProbeMarkers. An invalid selector, which admission rejects, selects nothing.
func MarkersOf(list []appsv1alpha1.PodProbeMarker) Markers {
	var out Markers
	for i := range list {
		m := &list[i]
		selector, err := metav1.LabelSelectorAsSelector(m.Spec.Selector)
		if m.DeletionTimestamp != nil || err != nil || selector.Empty() {
			continue
		}
		out = append(out, marker{m, selector})
	}
	slices.SortFunc(out, func(a, b marker) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// Of returns the PodProbeMarkers that select a pod, oldest first.
func (m Markers) Of(pod metav1.Object) []*appsv1alpha1.PodProbeMarker {
	var out []*appsv1alpha1.PodProbeMarker
	for i := range m {
		if m[i].selector.Matches(labels.Set(pod.GetLabels())) {
			out = append(out, m[i].PodProbeMarker)
		}
	}
	return out
}

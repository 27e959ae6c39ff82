package probedpod

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/nodefit"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/podprobe"
)

// observed is what one reconcile has read. All objects are the cache's own: they may not be changed.
type observed struct {
	// pod is nil if there is nothing to write to.
	pod *corev1.Pod
	// markers are the PodProbeMarkers that select it, the oldest first.
	markers []*appsv1alpha1.PodProbeMarker
	// results are what its node has found; nil for nothing.
	results *appsv1alpha1.PodProbeStatus
	// serverless: the agent of a virtual node probes it, and writes the conditions.
	serverless bool
}

// observe reads what a reconcile needs from the cache.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	pod := &corev1.Pod{}
	none := func(client.Reader, bool) error { return nil }
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) { _ = yield(pod) }
	}
	err := r.Expect.Read(ctx, r.Client, r.Live, key, pod, none, shown)
	if err != nil || pod.Spec.NodeName == "" || !podpatch.Active(pod) {
		return observed{}, err
	}
	all, err := podprobe.ListMarkers(ctx, r.Client, key.Namespace)
	if err != nil {
		return observed{}, err
	}
	o := observed{markers: all.Of(pod)}
	if len(o.markers) == 0 {
		return o, nil
	}
	node := &corev1.Node{}
	if _, err := get(ctx, r.Client, types.NamespacedName{Name: pod.Spec.NodeName}, node); err != nil {
		return o, err
	}
	if nodefit.Virtual(node) {
		if !r.Serverless {
			return observed{}, nil
		}
		o.pod, o.serverless = pod, true
		known := strings.Split(pod.Annotations[keys.PodProbeMarkers], ",")
		o.markers = slices.DeleteFunc(o.markers, func(m *appsv1alpha1.PodProbeMarker) bool { return !slices.Contains(known, m.Name) })
		return o, nil
	}
	n := &appsv1alpha1.NodePodProbe{}
	found, err := get(ctx, r.Client, types.NamespacedName{Name: pod.Spec.NodeName}, n)
	if err != nil || !found {
		return observed{}, err
	}
	o.pod, o.results = pod, podprobe.Results(n, pod.UID)
	return o, nil
}

// get reads an object, and reports whether there is one.
func get(ctx context.Context, from client.Reader, key types.NamespacedName, into client.Object) (bool, error) {
	switch err := from.Get(ctx, key, into); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get %T %s: %w", into, key, err)
	}
	return true, nil
}

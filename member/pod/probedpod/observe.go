package probedpod

import (
	"context"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// observed is what one reconcile has read. All objects are shared with the cache and must not be modified.
type observed struct {
	// pod is nil if there is nothing to write to.
	pod *corev1.Pod
	// markers holds the PodProbeMarkers that select the pod, oldest first.
	markers []*appsv1alpha1.PodProbeMarker
	// results holds the results from the pod's node, or nil.
	results *appsv1alpha1.PodProbeStatus
	// serverless means that the agent of a virtual node probes the pod and writes the conditions.
	serverless bool
}

// observe reads everything that a reconcile needs from the cache.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	var o observed
	pod := &corev1.Pod{}
	markers := func(from client.Reader, _ bool) error {
		if pod.Spec.NodeName == "" || !podpatch.Active(pod) {
			return expect.ErrGone // No state is kept about it.
		}
		all, err := podprobe.ListMarkers(ctx, from, key.Namespace)
		if err != nil {
			return err
		}
		if o.markers = all.Of(pod); len(o.markers) == 0 {
			return expect.ErrGone
		}
		return nil
	}
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) { _ = yield(pod) }
	}
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, pod, markers, shown); err != nil {
		return observed{}, err
	}
	node := &corev1.Node{}
	if _, err := ownership.Get(ctx, r.Client, types.NamespacedName{Name: pod.Spec.NodeName}, node, client.UnsafeDisableDeepCopy); err != nil {
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
	found, err := ownership.Get(ctx, r.Client, types.NamespacedName{Name: pod.Spec.NodeName}, n, client.UnsafeDisableDeepCopy)
	if err != nil || !found {
		return observed{}, err
	}
	o.pod, o.results = pod, podprobe.Results(n, pod.UID)
	return o, nil
}

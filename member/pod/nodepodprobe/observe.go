package nodepodprobe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
)

// observed is what one reconcile has read. All objects are shared with the cache and must not be modified.
type observed struct {
	// node and probe are nil if they don't exist.
	node  *corev1.Node
	probe *appsv1alpha1.NodePodProbe
	// pods holds all pods on the node, in any state.
	pods []*corev1.Pod
	// markers holds the PodProbeMarkers of the namespaces with such pods, and of those that have probes in the NodePodProbe.
	markers map[string]podprobe.Markers
	// liveness means that liveness probes of pods are run too.
	liveness bool
}

// observe reads everything that a reconcile needs from the cache.
func (r *Reconciler) observe(ctx context.Context, name string) (observed, error) {
	from := r.Client
	o := observed{node: &corev1.Node{}, probe: &appsv1alpha1.NodePodProbe{}, markers: map[string]podprobe.Markers{}, liveness: r.Liveness}
	key := types.NamespacedName{Name: name}
	found, err := ownership.Get(ctx, from, key, o.node)
	if err != nil {
		return o, err
	}
	if !found {
		o.node = nil
	}
	if found, err = ownership.Get(ctx, from, key, o.probe); err != nil {
		return o, err
	}
	if !found {
		o.probe = nil
	}
	var list corev1.PodList
	if err := from.List(ctx, &list, client.MatchingFields{ownership.NodeIndex: name}, client.UnsafeDisableDeepCopy); err != nil {
		return o, fmt.Errorf("list pods of node %s: %w", name, err)
	}
	namespaces := map[string]bool{}
	for i := range list.Items {
		o.pods = append(o.pods, &list.Items[i])
		namespaces[list.Items[i].Namespace] = true
	}
	if o.probe != nil {
		for i := range o.probe.Spec.PodProbes {
			namespaces[o.probe.Spec.PodProbes[i].Namespace] = true
		}
	}
	for namespace := range namespaces {
		if o.markers[namespace], err = r.markers(ctx, namespace); err != nil {
			return o, err
		}
	}
	return o, nil
}

// markers reads the PodProbeMarkers of a namespace, if the feature is enabled.
func (r *Reconciler) markers(ctx context.Context, namespace string) (podprobe.Markers, error) {
	if !r.Markers {
		return nil, nil
	}
	return podprobe.ListMarkers(ctx, r.Client, namespace)
}

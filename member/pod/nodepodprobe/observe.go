package nodepodprobe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podprobe"
)

// observed is what one reconcile has read. All objects are the cache's own: they may not be changed.
type observed struct {
	// node and probe are nil if there is none.
	node  *corev1.Node
	probe *appsv1alpha1.NodePodProbe
	// pods are those of the node, in whatever state.
	pods []*corev1.Pod
	// markers are those of the namespaces that have such pods, or that the NodePodProbe has probes of.
	markers map[string]podprobe.Markers
	// liveness: the liveness probes of pods are run too.
	liveness bool
}

// observe reads what a reconcile needs from the cache.
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

// markers reads the PodProbeMarkers of a namespace, if they are carried out.
func (r *Reconciler) markers(ctx context.Context, namespace string) (podprobe.Markers, error) {
	if !r.Markers {
		return nil, nil
	}
	return podprobe.ListMarkers(ctx, r.Client, namespace)
}

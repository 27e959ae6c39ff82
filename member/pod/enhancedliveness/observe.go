package enhancedliveness

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
)

// observed is what one reconcile has read. All objects are shared with the cache and must not be modified.
type observed struct {
	// The workload's object is nil if it doesn't exist, or if its pods have no liveness probes for the node daemon.
	workload
	// pods holds the pods that the workload controls.
	pods []*corev1.Pod
	// requests maps pod UIDs to ContainerRecreateRequests, and results maps them to probe results.
	requests map[types.UID][]*appsv1beta1.ContainerRecreateRequest
	results  map[types.UID]*appsv1alpha1.PodProbeStatus
	// alive holds the nodes with a live daemon that probes and restarts.
	alive map[string]bool
}

// observe reads what a plan needs, from the cache or, with live, from the apiserver. It reads requests first: a complete request has
// restarted its container before the pod is read.
func (r *Reconciler) observe(ctx context.Context, from client.Reader, key types.NamespacedName, live bool) (observed, error) {
	o := observed{
		requests: map[types.UID][]*appsv1beta1.ContainerRecreateRequest{}, results: map[types.UID]*appsv1alpha1.PodProbeStatus{}, alive: map[string]bool{},
	}
	owner := r.kind.empty()
	if found, err := ownership.Get(ctx, from, key, owner); err != nil || !found {
		return o, err
	}
	w := r.kind.read(owner)
	var list appsv1beta1.ContainerRecreateRequestList
	if err := from.List(ctx, &list, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return o, fmt.Errorf("list ContainerRecreateRequests of namespace %s: %w", key.Namespace, err)
	}
	for i := range list.Items {
		pod := types.UID(list.Items[i].Labels[keys.RecreatePodUID])
		o.requests[pod] = append(o.requests[pod], &list.Items[i])
	}
	pods, err := r.podsOf(ctx, from, w, live)
	if err != nil {
		return o, err
	}
	nodes := map[string]*appsv1alpha1.NodePodProbe{}
	for _, pod := range pods {
		if !hasLiveness(pod) {
			continue
		}
		o.workload = w // Other workloads are not our concern.
		node := pod.Spec.NodeName
		if nodes[node] == nil && node != "" {
			n := &appsv1alpha1.NodePodProbe{}
			if err := from.Get(ctx, types.NamespacedName{Name: node}, n); client.IgnoreNotFound(err) != nil {
				return o, fmt.Errorf("get NodePodProbe %s: %w", node, err)
			}
			nodes[node] = n
			o.alive[node] = r.Daemons != nil && r.Daemons.Does(node, nodelease.ProbesContainers) && r.Daemons.Does(node, nodelease.RecreatesContainers)
		}
		if n := nodes[node]; n != nil {
			o.results[pod.UID] = podprobe.Results(n, pod.UID)
		}
	}
	o.pods = pods
	return o, nil
}

// podsOf returns the pods that a workload controls.
func (r *Reconciler) podsOf(ctx context.Context, from client.Reader, w workload, live bool) ([]*corev1.Pod, error) {
	if !live {
		return ownership.Pods(ctx, from, w.object, r.kind.gvk, false)
	}
	selector, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil {
		return nil, fmt.Errorf("read the selector of %s: %w", w.object.GetName(), err)
	}
	var list corev1.PodList
	if err := from.List(ctx, &list, client.InNamespace(w.object.GetNamespace()), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return ownership.Controlled(list.Items, w.object, r.kind.gvk), nil
}

// hasLiveness reports whether a pod has liveness probes for the node daemon.
func hasLiveness(pod *corev1.Pod) bool { return pod.Annotations[keys.ContainerProbeContext] != "" }

package ownership

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Nodes returns all nodes, sorted by name. They belong to the cache and must not be changed.
func Nodes(ctx context.Context, r client.Reader) ([]*corev1.Node, error) {
	var list corev1.NodeList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	slices.SortFunc(out, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// OnNodes enqueues the requests returned for a node event; the first node is nil if it is new, the second if it was deleted. Most events,
// such as kubelet heartbeats, are ignored: only labels, taints and allocatable resources count. The initial list of nodes enqueues nothing,
// because the initial list of a kind's objects already enqueues all of them.
func OnNodes(requests func(ctx context.Context, before, after *corev1.Node) []ctrl.Request) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	enqueue := func(ctx context.Context, before, after *corev1.Node, q queue) {
		for _, req := range requests(ctx, before, after) {
			q.Add(req)
		}
	}
	node := func(o client.Object) *corev1.Node {
		n, _ := o.(*corev1.Node)
		return n
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				enqueue(ctx, nil, node(e.Object), q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := node(e.ObjectOld), node(e.ObjectNew)
			same := apiequality.Semantic.DeepEqual
			if !same(before.Labels, after.Labels) || !same(before.Spec.Taints, after.Spec.Taints) ||
				!same(before.Status.Allocatable, after.Status.Allocatable) {
				enqueue(ctx, before, after, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, node(e.Object), nil, q) },
	}
}

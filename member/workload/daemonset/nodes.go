package daemonset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/ownership"
)

// concerns reports whether a change of a node from was to is may change the plan of a set. was is nil for a new node, is for a
// deleted one. It is a pure function.
func concerns(s *appsv1beta1.DaemonSetSpec, was, is *corev1.Node) bool {
	m := matcher(&s.Template)
	fit := func(node *corev1.Node) (run, stay, selected bool) {
		if node == nil {
			return false, false, false
		}
		run, stay = m.Match(node)
		return run, stay, stay && selects(s, node)
	}
	run, stay, selected := fit(was)
	runs, stays, selectsIt := fit(is)
	return run != runs || stay != stays || selected != selectsIt
}

// selects reports whether a set updates pods on a node, by updateStrategy.rollingUpdate.selector. An invalid one, which no webhook
// admits, selects none.
func selects(s *appsv1beta1.DaemonSetSpec, node *corev1.Node) bool {
	r := s.UpdateStrategy.RollingUpdate
	if r == nil || r.Selector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(r.Selector)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

type adder = workqueue.TypedRateLimitingInterface[ctrl.Request]

// onNodes enqueues the sets that an event of a node concerns. Most events concern none, such as the heartbeats of kubelets. The
// initial list of nodes enqueues nothing, as the initial list of sets enqueues them all.
func onNodes(cache client.Reader) handler.EventHandler {
	enqueue := func(ctx context.Context, was, is *corev1.Node, q adder) {
		for _, req := range ownership.RequestsFor(ctx, cache, &appsv1beta1.DaemonSetList{}, metav1.NamespaceAll, func(set *appsv1beta1.DaemonSet) bool {
			return concerns(&set.Spec, was, is)
		}) {
			q.Add(req)
		}
	}
	node := func(o client.Object) *corev1.Node {
		n, _ := o.(*corev1.Node)
		return n
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q adder) {
			if !e.IsInInitialList {
				enqueue(ctx, nil, node(e.Object), q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q adder) {
			was, is := node(e.ObjectOld), node(e.ObjectNew)
			if !apiequality.Semantic.DeepEqual(was.Labels, is.Labels) || !apiequality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints) {
				enqueue(ctx, was, is, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q adder) { enqueue(ctx, node(e.Object), nil, q) },
	}
}

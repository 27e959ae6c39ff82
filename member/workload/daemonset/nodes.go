package daemonset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// concerns reports whether a change of a node may change the plan of a set. before is nil for a new node, after for a deleted one. It
// is a pure function.
func concerns(s *appsv1beta1.DaemonSetSpec, before, after *corev1.Node) bool {
	m := matcher(&s.Template)
	fit := func(node *corev1.Node) (run, stay, selected bool) {
		if node == nil {
			return false, false, false
		}
		run, stay = m.Match(node)
		return run, stay, stay && selects(s, node)
	}
	run, stay, selected := fit(before)
	runs, stays, selectsIt := fit(after)
	return run != runs || stay != stays || selected != selectsIt
}

// selects reports whether a set updates pods on a node, according to updateStrategy.rollingUpdate.selector. An invalid selector, which no
// webhook admits, selects none.
func selects(s *appsv1beta1.DaemonSetSpec, node *corev1.Node) bool {
	r := s.UpdateStrategy.RollingUpdate
	if r == nil || r.Selector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(r.Selector)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

// onNodes enqueues the sets that a node event concerns.
func onNodes(cache client.Reader) handler.EventHandler {
	return ownership.OnNodes(func(ctx context.Context, before, after *corev1.Node) []ctrl.Request {
		return ownership.RequestsFor(ctx, cache, &appsv1beta1.DaemonSetList{}, metav1.NamespaceAll, func(set *appsv1beta1.DaemonSet) bool {
			return concerns(&set.Spec, before, after)
		})
	})
}

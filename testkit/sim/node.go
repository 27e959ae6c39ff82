package sim

import (
	"context"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Node returns an initial node, for worlds in which nodes are objects. Labels are pairs of key and value.
func Node(name string, labels ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	for i := 0; i+1 < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

// AddNode is an edit that adds a node.
func AddNode(when func(*World) bool, name string, labels ...string) Edit {
	return Edit{Name: "a node joins: " + name, When: when, Do: func(ctx context.Context, w *World) error {
		if Find[*corev1.Node](w, types.NamespacedName{Name: name}) != nil {
			return nil
		}
		return w.User().Create(ctx, Node(name, labels...))
	}}
}

// RemoveNode is an edit that deletes a node. Its pods are left to PodCollector.
func RemoveNode(when func(*World) bool, name string) Edit {
	return Edit{Name: "a node leaves: " + name, When: when, Do: func(ctx context.Context, w *World) error {
		if n := Find[*corev1.Node](w, types.NamespacedName{Name: name}); n != nil {
			return w.User().Delete(ctx, n)
		}
		return nil
	}}
}

// PodCollector is the pod garbage collector: it removes pods on nodes that are gone.
type PodCollector struct{}

// Steps implements Actor.
func (PodCollector) Steps(w *World) []Step {
	var out []Step
	for _, pod := range All[*corev1.Pod](w) {
		if node := pod.Spec.NodeName; node != "" && Find[*corev1.Node](w, types.NamespacedName{Name: node}) == nil {
			out = append(out, Step{"", func(context.Context) error {
				return w.deleteObject("pod collector", pod, new(int64(0)))
			}})
		}
	}
	return out
}

// LabelNode is an edit that sets a label on a node, or removes it if the value is empty.
func LabelNode(when func(*World) bool, name, key, value string) Edit {
	return editNode("label "+name+": "+key+"="+value, when, name, func(n *corev1.Node) {
		if n.Labels[key] = value; value == "" {
			delete(n.Labels, key)
		}
	})
}

// TaintNode is an edit that replaces all taints of a node.
func TaintNode(when func(*World) bool, name string, taints ...corev1.Taint) Edit {
	what := "untaint " + name
	if len(taints) > 0 {
		what = "taint " + name + ": " + taints[0].ToString()
	}
	return editNode(what, when, name, func(n *corev1.Node) { n.Spec.Taints = taints })
}

// CordonNode is an edit that cordons a node.
func CordonNode(when func(*World) bool, name string) Edit {
	return editNode("cordon "+name, when, name, func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	})
}

func editNode(what string, when func(*World) bool, name string, change func(*corev1.Node)) Edit {
	return Edit{Name: what, When: when, Do: func(ctx context.Context, w *World) error {
		return Set(ctx, w, types.NamespacedName{Name: name}, change)
	}}
}

// isTaken reports whether the node in a pod's affinity, if there is one, can run the pod.
func isTaken(w *World, pod *corev1.Pod) bool {
	name := podset.Pinned(pod)
	if name == "" {
		return true
	}
	n := Find[*corev1.Node](w, types.NamespacedName{Name: name})
	return n != nil && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations, func(by corev1.Toleration) bool {
			return by.ToleratesTaint(logr.Discard(), &t, true)
		})
	})
}

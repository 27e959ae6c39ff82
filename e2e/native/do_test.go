//go:build e2e

package native

import (
	"runtime"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// ground is the label of a side's own nodes, and of its DaemonSets' node selector.
const ground = "native.example/ground"

// create creates the scenario's set, with changes.
func create(changes ...string) func(*side) {
	return func(s *side) {
		body := s.body()
		for _, c := range changes {
			body = overlay(body, parse(s.T, c))
		}
		s.create(body)
	}
}

// merge changes the set.
func merge(patch string) func(*side) {
	return func(s *side) { s.merge(parse(s.T, patch)) }
}

// image changes the template's image, and thereby the revision.
func image(name string) func(*side) {
	return merge(`{spec: {template: {spec: {containers: [{name: app, image: "` + name + `"}]}}}}`)
}

// all runs several actions one after the other.
func all(things ...func(*side)) func(*side) {
	return func(s *side) {
		for _, do := range things {
			do(s)
		}
	}
}

// dropPods deletes pods as a user does.
func dropPods(names ...string) func(*side) {
	return func(s *side) {
		for _, name := range names {
			require.NoError(s, home.Client.Delete(s.Context(), s.pod(name)))
		}
	}
}

// dropPodAfter runs an action and then deletes a pod, as a user does. Our controller may delete the pod first, because of the action.
func dropPodAfter(do func(*side), name string) func(*side) {
	return func(s *side) {
		pod := s.pod(name)
		do(s)
		err := home.Client.Delete(s.Context(), pod, client.Preconditions{UID: &pod.UID})
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			require.NoError(s, err)
		}
	}
}

// failPods fails pods like a kubelet that evicts them.
func failPods(names ...string) func(*side) {
	return func(s *side) {
		for _, name := range names {
			changeStatus(s, s.pod(name), func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" })
		}
	}
}

// breakPod makes a pod permanently unready, with an image that can't be pulled.
func breakPod(name string) func(*side) { return imageOf(name, "app:bad") }

// repairPod reverts spoil.
func repairPod(name string) func(*side) { return imageOf(name, "app:1") }

func imageOf(name, image string) func(*side) {
	return func(s *side) { change(s, s.pod(name), func(p *corev1.Pod) { p.Spec.Containers[0].Image = image }) }
}

// removeAppLabel removes the label app, by which a pod was selected.
func removeAppLabel(name string) func(*side) {
	return func(s *side) { change(s, s.pod(name), func(p *corev1.Pod) { delete(p.Labels, "app") }) }
}

// removePodName removes the label with a pod's name.
func removePodName(name string) func(*side) {
	return func(s *side) {
		change(s, s.pod(name), func(p *corev1.Pod) { delete(p.Labels, keys.StatefulSetPodName) })
	}
}

// removeSet deletes the set.
func removeSet(how metav1.DeletionPropagation) func(*side) {
	return func(s *side) {
		require.NoError(s, home.Client.Delete(s.Context(), s.set(), client.PropagationPolicy(how)))
		require.True(s, s.eventually(patience, func() bool {
			w, _ := s.world()
			return w.Set == nil
		}), "%s: the set still exists", s.side)
	}
}

// dropClaims deletes PVCs as a user does.
func dropClaims(names ...string) func(*side) {
	return func(s *side) {
		for _, name := range names {
			c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
			require.NoError(s, home.Client.Delete(s.Context(), c))
		}
	}
}

// addNodes creates nodes, "a b c", and waits until they are Ready.
func addNodes(names string) func(*side) { return func(s *side) { s.addNodes(names) } }

func (s *side) addNodes(names string) {
	s.Helper()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	for name := range strings.FieldsSeq(names) {
		node := s.node(name)
		node.Labels = map[string]string{
			ground: s.Namespace, "lab.flotilla.io/simulated": "true", corev1.LabelHostname: node.Name,
			corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
		}
		node.Status.Capacity, node.Status.Allocatable = room, room
		require.NoError(s, home.Client.Create(s.Context(), node))
	}
	for name := range strings.FieldsSeq(names) {
		require.True(s, s.eventually(patience, func() bool {
			node := s.node(name)
			require.NoError(s, home.Client.Get(s.Context(), client.ObjectKeyFromObject(node), node))
			return len(node.Spec.Taints) == 0 && len(node.Status.Conditions) > 0 && node.Labels[restored] != ""
		}), "%s: node %s is not ready", s.side, name)
	}
}

// node returns a node for a request.
func (s *side) node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + s.Namespace}}
}

func removeNode(name string) func(*side) {
	return func(s *side) { require.NoError(s, home.Client.Delete(s.Context(), s.node(name))) }
}

// restored is a label that the node controller adds to nodes that lack it.
const restored = "beta.kubernetes.io/os"

// taint taints a node, and waits until Kubernetes' controllers know: otherwise a set that is created a moment later could still get a pod
// there. The controllers share one node cache. That it shows the taint is seen when the node controller restores a label that the same update
// removes.
func taint(name string, effect corev1.TaintEffect) func(*side) {
	return func(s *side) {
		change(s, s.node(name), func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/keep-off", Effect: effect})
			delete(n.Labels, restored)
		})
		require.True(s, s.eventually(patience, func() bool {
			node := s.node(name)
			require.NoError(s, home.Client.Get(s.Context(), client.ObjectKeyFromObject(node), node))
			return node.Labels[restored] != ""
		}), "%s: the node controller does not see the taint of node %s", s.side, name)
	}
}

func untaint(name string) func(*side) {
	return func(s *side) { change(s, s.node(name), func(n *corev1.Node) { n.Spec.Taints = nil }) }
}

func cordon(name string) func(*side) {
	return func(s *side) { change(s, s.node(name), func(n *corev1.Node) { n.Spec.Unschedulable = true }) }
}

// labelNode sets a node's label; an empty value removes it.
func labelNode(name, key, value string) func(*side) {
	return func(s *side) {
		change(s, s.node(name), func(n *corev1.Node) {
			n.Labels[key] = value
			if value == "" {
				delete(n.Labels, key)
			}
		})
	}
}

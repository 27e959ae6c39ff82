package podset

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func affine(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{},
		NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}},
			RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: terms},
		},
	}
}

func byField(op corev1.NodeSelectorOperator, key string, nodes ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: nodes}}}
}

func TestNode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{name: "a pod without constraints may go to any node"},
		{
			name: "a scheduled pod is on its node, regardless of its affinity", want: "a",
			spec: corev1.PodSpec{NodeName: "a", Affinity: affine(byField(corev1.NodeSelectorOpIn, "metadata.name", "b"))},
		},
		{
			name: "a pod whose affinity pins it belongs to that node", want: "b",
			spec: corev1.PodSpec{Affinity: affine(byField(corev1.NodeSelectorOpIn, "metadata.name", "b"))},
		},
		{
			name: "a pod that may go to two nodes belongs to none",
			spec: corev1.PodSpec{Affinity: affine(byField(corev1.NodeSelectorOpIn, "metadata.name", "b", "c"))},
		},
		{name: "so does a pod with two terms", spec: corev1.PodSpec{Affinity: affine(
			byField(corev1.NodeSelectorOpIn, "metadata.name", "b"), byField(corev1.NodeSelectorOpIn, "metadata.name", "c"))}},
		{
			name: "so does a pod that avoids a node",
			spec: corev1.PodSpec{Affinity: affine(byField(corev1.NodeSelectorOpNotIn, "metadata.name", "b"))},
		},
		{name: "so does a pod with a term about another field", spec: corev1.PodSpec{Affinity: affine(byField(corev1.NodeSelectorOpIn, "spec.x", "b"))}},
		{name: "so does a pod with another affinity", spec: corev1.PodSpec{Affinity: &corev1.Affinity{}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{Spec: tc.spec}
			require.Equal(t, tc.want, Node(pod))
			pinned := Pinned(pod)
			FieldPinnedNode.Strip(pod)
			require.Equal(t, tc.want, Node(pod), "a cache that keeps the pinned node knows the node")
			require.Equal(t, pinned, Pinned(pod))
			if pinned == "" {
				require.Nil(t, pod.Spec.Affinity)
			} else {
				require.Nil(t, pod.Spec.Affinity.PodAntiAffinity)
			}
		})
	}
}

package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestPodsThatAreBoundToANodeWaitForIt(t *testing.T) {
	t.Parallel()
	bound := func(name, node string, tolerate ...corev1.Toleration) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: corev1.PodSpec{Tolerations: tolerate, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
				}}},
			}}},
		}
	}
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	kind := Kind{Scheme: scheme, For: &corev1.ConfigMap{}}
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	w, err := newWorld(kind, Scenario{Objects: []client.Object{
		Node("a", "zone", "z1"), Node("b"), bound("on-a", "a"), bound("on-b", "b"), bound("on-b-too", "b", everything), bound("on-c", "c"),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "free"}},
	}}, Schedule{})
	require.NoError(t, err)
	schedule := func() map[string]string {
		for _, s := range (Scheduler{Nodes: 1}).Steps(w) {
			require.NoError(t, s.Do(t.Context()))
		}
		out := map[string]string{}
		for _, p := range All[*corev1.Pod](w) {
			out[p.Name] = p.Spec.NodeName
		}
		return out
	}
	require.NoError(t, CordonNode(nil, "b").Do(t.Context(), w))
	require.Equal(t, map[string]string{"on-a": "a", "on-b": "", "on-b-too": "b", "on-c": "", "free": "node-1"}, schedule())
	require.NoError(t, TaintNode(nil, "b").Do(t.Context(), w))
	require.NoError(t, AddNode(nil, "c").Do(t.Context(), w))
	require.NoError(t, AddNode(nil, "c").Do(t.Context(), w), "an existing node is unchanged")
	require.Equal(t, map[string]string{"on-a": "a", "on-b": "b", "on-b-too": "b", "on-c": "c", "free": "node-1"}, schedule())

	require.NoError(t, LabelNode(nil, "a", "zone", "z2").Do(t.Context(), w))
	require.Equal(t, "z2", Find[*corev1.Node](w, types.NamespacedName{Name: "a"}).Labels["zone"])
	require.NoError(t, LabelNode(nil, "a", "zone", "").Do(t.Context(), w))
	require.NotContains(t, Find[*corev1.Node](w, types.NamespacedName{Name: "a"}).Labels, "zone")
	require.NoError(t, RemoveNode(nil, "a").Do(t.Context(), w))
	require.NoError(t, RemoveNode(nil, "a").Do(t.Context(), w))
	require.Nil(t, Find[*corev1.Node](w, types.NamespacedName{Name: "a"}))
	require.NoError(t, AddNode(nil, "node-1").Do(t.Context(), w))
	for _, s := range (PodCollector{}).Steps(w) {
		require.NoError(t, s.Do(t.Context()))
	}
	require.Equal(t, map[string]string{"on-b": "b", "on-b-too": "b", "on-c": "c", "free": "node-1"}, schedule(), "its pod is gone with it")
}

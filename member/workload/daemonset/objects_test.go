package daemonset

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestANewPodIsForItsNodeAlone(t *testing.T) {
	t.Parallel()
	set := web().Obj()
	set.Annotations = map[string]string{"deprecated.daemonset.template.generation": "7"}
	set.Spec.Template = corev1.PodTemplateSpec{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}},
		}}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}},
	}}}}
	pod := newPod(set, "web-abc", &set.Spec.Template, "web-x", "n1", now)
	require.Equal(t, "n1", nodeOf(pod))
	require.Len(t, pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution, 1)
	require.Len(t, set.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions, 1,
		"the template is unchanged")
	require.Equal(t, "web-", pod.GenerateName)
	require.Equal(t, map[string]string{
		"controller-revision-hash": "abc", "pod-template-generation": "7", "lifecycle.apps.kruise.io/state": "Normal",
	}, pod.Labels)
	require.Empty(t, pod.Spec.ReadinessGates, "a pod that is never updated in place needs no gate")

	set.Annotations["deprecated.daemonset.template.generation"] = "seven"
	set.Spec.UpdateStrategy.RollingUpdate.Type = "InPlaceIfPossible"
	pod = newPod(set, "web-abc", &set.Spec.Template, "web-x", "n1", now)
	require.NotContains(t, pod.Labels, "pod-template-generation")
	require.Len(t, pod.Spec.ReadinessGates, 1)
}

package nodefit

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(label, value string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{label: value}}}
}

func tainted(taints ...corev1.Taint) *corev1.Node {
	n := node("zone", "z1")
	n.Spec.Taints = taints
	return n
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: "yes", Effect: effect}
}

// withAffinity returns a template that requires a node matching these terms.
func withAffinity(terms ...corev1.NodeSelectorTerm) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}}}
}

func inZone(op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: op, Values: values}}}
}

func nameTerm(op corev1.NodeSelectorOperator, names ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: op, Values: names}}}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	const noSchedule, noExecute = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	selecting := func(value string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"zone": value}}}
	}
	tolerating := func(list ...corev1.Toleration) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Tolerations: list}}
	}
	for _, tc := range []struct {
		name      string
		template  corev1.PodTemplateSpec
		node      *corev1.Node
		run, stay bool
	}{
		{name: "a pod without constraints runs on every node", node: tainted(), run: true, stay: true},
		{name: "a virtual node runs no daemon", node: node("type", "virtual-kubelet")},
		{name: "a node selector that matches", template: selecting("z1"), node: tainted(), run: true, stay: true},
		{name: "a node selector that doesn't match keeps no pod", template: selecting("z2"), node: tainted()},
		{name: "a node name of the template", template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n1"}}, node: tainted(), run: true, stay: true},
		{name: "another node name", template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n2"}}, node: tainted()},
		{
			name: "one of several terms is enough", template: withAffinity(inZone(corev1.NodeSelectorOpIn, "z9"), inZone(corev1.NodeSelectorOpExists)),
			node: tainted(), run: true, stay: true,
		},
		{name: "no matching term", template: withAffinity(inZone(corev1.NodeSelectorOpNotIn, "z1")), node: tainted()},
		{name: "a term by the node's name", template: withAffinity(nameTerm(corev1.NodeSelectorOpIn, "n1")), node: tainted(), run: true, stay: true},
		{name: "a term by another node's name", template: withAffinity(nameTerm(corev1.NodeSelectorOpNotIn, "n1")), node: tainted()},
		{name: "an invalid affinity matches no node", template: withAffinity(inZone("Like", "z1")), node: tainted()},
		{name: "a preference is not a requirement", template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: inZone(corev1.NodeSelectorOpIn, "z9")}},
		}}}}, node: tainted(), run: true, stay: true},
		{name: "a NoSchedule taint keeps existing pods", node: tainted(taint("db", noSchedule)), stay: true},
		{name: "a NoExecute taint keeps no pods", node: tainted(taint("db", noExecute))},
		{name: "a PreferNoSchedule taint allows all pods", node: tainted(taint("db", corev1.TaintEffectPreferNoSchedule)), run: true, stay: true},
		{name: "the strictest of several taints counts", node: tainted(taint("full", noSchedule), taint("db", noExecute), taint("full", noSchedule))},
		{
			name: "a taint that is tolerated", template: tolerating(corev1.Toleration{Key: "db", Operator: corev1.TolerationOpExists}),
			node: tainted(taint("db", noExecute)), run: true, stay: true,
		},
		{
			name: "a taint with another value than the tolerated one", template: tolerating(corev1.Toleration{Key: "db", Value: "no"}),
			node: tainted(taint("db", noSchedule)), stay: true,
		},
		{name: "a cordoned node runs daemons", node: tainted(taint("node.kubernetes.io/unschedulable", noSchedule)), run: true, stay: true},
		{name: "a node under pressure runs daemons", node: tainted(taint("node.kubernetes.io/not-ready", noExecute), taint("node.kubernetes.io/unreachable", noExecute),
			taint("node.kubernetes.io/disk-pressure", noSchedule), taint("node.kubernetes.io/memory-pressure", noSchedule),
			taint("node.kubernetes.io/pid-pressure", noSchedule)), run: true, stay: true},
		{name: "a node that is not ready gets no new pods because of its other taint", node: tainted(taint("node.kubernetes.io/not-ready", noSchedule)), stay: true},
		{name: "a node without network gets no pod that needs it", node: tainted(taint("node.kubernetes.io/network-unavailable", noSchedule)), stay: true},
		{
			name: "a node without network gets pods on the network of the node", template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}},
			node: tainted(taint("node.kubernetes.io/network-unavailable", noSchedule)), run: true, stay: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			run, stay := New(&tc.template.Spec, DaemonTolerations(&tc.template.Spec)).Match(tc.node)
			require.Equal(t, [2]bool{tc.run, tc.stay}, [2]bool{run, stay})
		})
	}
}

func TestDaemonTolerationsKeepThoseOfThePod(t *testing.T) {
	t.Parallel()
	own := corev1.Toleration{Key: "db", Operator: corev1.TolerationOpExists}
	short := corev1.Toleration{
		Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
	}
	spec := &corev1.PodSpec{Tolerations: []corev1.Toleration{own, short}}
	got := DaemonTolerations(spec)
	require.Equal(t, own, got[0])
	require.Nil(t, got[1].TolerationSeconds, "a daemon stays on a node that is not ready indefinitely")
	require.Len(t, got, 7)
	require.NotNil(t, spec.Tolerations[1].TolerationSeconds, "the template is not modified")
	require.Equal(t, got, DaemonTolerations(&corev1.PodSpec{Tolerations: got}), "adding them twice changes nothing")
}

func TestTolerationsOfTheSpecCountOnlyIfGiven(t *testing.T) {
	t.Parallel()
	spec := &corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
	full := tainted(taint("db", corev1.TaintEffectNoSchedule))
	run, _ := New(spec, spec.Tolerations).Match(full)
	require.True(t, run)
	run, stay := New(spec, nil).Match(full)
	require.False(t, run)
	require.True(t, stay)
}

func TestPodsOfJobsFitByTheirSizeAndTheirOwnTolerations(t *testing.T) {
	t.Parallel()
	spec := &corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("1Gi"),
	}}}}}
	large := func(node *corev1.Node, memory string) *corev1.Node {
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		return node
	}
	virtual := large(tainted(), "1Gi")
	virtual.Labels = map[string]string{labelNodeType: virtualKubeletType}
	for name, tt := range map[string]struct {
		node      *corev1.Node
		run, stay bool
	}{
		"a node that is large enough":      {node: large(tainted(), "1Gi"), run: true, stay: true},
		"a node that is too small":         {node: large(tainted(), "1023Mi"), stay: true},
		"a node without reported capacity": {node: tainted(), stay: true},
		"a virtual node":                   {node: virtual, run: true, stay: true},
		"a cordoned node":                  {node: large(tainted(taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)), "1Gi"), stay: true},
		"an unreachable node":              {node: large(tainted(taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)), "1Gi")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := ForJob(spec)
			run, stay := m.Match(tt.node)
			require.Equal(t, [2]bool{tt.run, tt.stay}, [2]bool{run, stay})
			require.True(t, m.Selects(tt.node), "all nodes match by name and labels")
		})
	}
	named := spec.DeepCopy()
	named.NodeName = "another"
	require.False(t, ForJob(named).Selects(large(tainted(), "1Gi")))
}

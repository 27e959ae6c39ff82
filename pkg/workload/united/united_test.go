package united

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

var update = flag.Bool("update", false, "write the golden files")

// web is a valid object: 10 replicas of a CloneSet across subsets a, b and c.
func web() *appsv1beta1.UnitedDeployment {
	labels := map[string]string{"app": "web"}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	ud := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: ptr.To[int32](10),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       appsv1beta1.CloneSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod},
			}},
			Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "a"}, {Name: "b"}, {Name: "c"}}},
		},
	}
	return ud.DeepCopy() // no maps are shared
}

// stateful is web with a StatefulSet.
func stateful() *appsv1beta1.UnitedDeployment {
	ud := web()
	c := ud.Spec.Template.CloneSetTemplate
	ud.Spec.Template = appsv1beta1.SubsetTemplate{StatefulSetTemplate: &appsv1beta1.StatefulSetTemplateSpec{
		ObjectMeta: c.ObjectMeta, Spec: appsv1.StatefulSetSpec{Selector: c.Spec.Selector, Template: c.Spec.Template, ServiceName: "web"},
	}}
	return ud
}

// advanced is web with a StatefulSet of apps.kruise.io.
func advanced() *appsv1beta1.UnitedDeployment {
	ud := web()
	c := ud.Spec.Template.CloneSetTemplate
	ud.Spec.Template = appsv1beta1.SubsetTemplate{AdvancedStatefulSetTemplate: &appsv1beta1.AdvancedStatefulSetTemplateSpec{
		ObjectMeta: c.ObjectMeta, Spec: appsv1beta1.StatefulSetSpec{Selector: c.Spec.Selector, Template: c.Spec.Template, ServiceName: "web"},
	}}
	return ud
}

// deployment is web with a Deployment.
func deployment() *appsv1beta1.UnitedDeployment {
	ud := web()
	c := ud.Spec.Template.CloneSetTemplate
	ud.Spec.Template = appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{
		ObjectMeta: c.ObjectMeta, Spec: appsv1.DeploymentSpec{Selector: c.Spec.Selector, Template: c.Spec.Template},
	}}
	return ud
}

func number(s string) *intstr.IntOrString { return new(intstr.Parse(s)) }

func raw(s string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(s)} }

func TestDefault(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		in   appsv1beta1.UnitedDeploymentSpec
		want appsv1beta1.UnitedDeploymentSpec
	}{
		{
			"an empty object gets one replica, ten revisions and manual updates",
			appsv1beta1.UnitedDeploymentSpec{},
			appsv1beta1.UnitedDeploymentSpec{
				Replicas: ptr.To[int32](1), RevisionHistoryLimit: ptr.To[int32](10),
				UpdateStrategy: appsv1beta1.UnitedDeploymentUpdateStrategy{
					Type: appsv1beta1.ManualUpdateStrategyType, ManualUpdate: &appsv1beta1.ManualUpdate{},
				},
			},
		},
		{
			"with Waves there are no manual updates, not even the default of an object that was Manual",
			appsv1beta1.UnitedDeploymentSpec{UpdateStrategy: appsv1beta1.UnitedDeploymentUpdateStrategy{
				Type: appsv1beta1.WavesUpdateStrategyType, ManualUpdate: &appsv1beta1.ManualUpdate{},
			}},
			appsv1beta1.UnitedDeploymentSpec{
				Replicas: ptr.To[int32](1), RevisionHistoryLimit: ptr.To[int32](10),
				UpdateStrategy: appsv1beta1.UnitedDeploymentUpdateStrategy{Type: appsv1beta1.WavesUpdateStrategyType},
			},
		},
		{
			"with a maximum, the other subsets get minReplicas 0, and replicas default as usual",
			appsv1beta1.UnitedDeploymentSpec{
				RevisionHistoryLimit: ptr.To[int32](0),
				Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{
					{Name: "a", MaxReplicas: number("3")}, {Name: "b"}, {Name: "c", MinReplicas: number("20%")}, {Name: "d", Replicas: number("1")},
				}},
			},
			appsv1beta1.UnitedDeploymentSpec{
				Replicas: ptr.To[int32](1), RevisionHistoryLimit: ptr.To[int32](0),
				Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{
					{Name: "a", MinReplicas: number("0"), MaxReplicas: number("3")},
					{Name: "b", MinReplicas: number("0")},
					{Name: "c", MinReplicas: number("20%")},
					{Name: "d", Replicas: number("1")},
				}},
				UpdateStrategy: appsv1beta1.UnitedDeploymentUpdateStrategy{
					Type: appsv1beta1.ManualUpdateStrategyType, ManualUpdate: &appsv1beta1.ManualUpdate{},
				},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ud := &appsv1beta1.UnitedDeployment{Spec: tt.in}
			Default(ud)
			require.Empty(t, cmp.Diff(tt.want, ud.Spec))
			again := ud.DeepCopy()
			Default(again)
			require.Empty(t, cmp.Diff(ud.Spec, again.Spec), "defaulting twice changes nothing")
		})
	}
}

func TestFederated(t *testing.T) {
	t.Parallel()
	require.False(t, Federated(web()))
	ud := web()
	ud.Spec.Topology.Subsets[1].Cluster = "east"
	require.True(t, Federated(ud))
	ud = web()
	ud.Spec.Topology.Subsets[2].ClusterSelector = &metav1.LabelSelector{}
	require.True(t, Federated(ud), "an empty selector selects all clusters")
}

func TestOfHub(t *testing.T) {
	t.Parallel()
	ud := web()
	require.False(t, OfHub(ud))
	ud.Finalizers = []string{"other.example/finalizer", keys.FleetRow}
	require.True(t, OfHub(ud), "it still runs in clusters, although it names none any longer")
	ud = web()
	ud.Spec.Topology.Subsets[1].Cluster = "east"
	require.True(t, OfHub(ud))
}

func term(key string, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values},
	}}
}

func TestPodTemplateAddsSchedulingConstraints(t *testing.T) {
	t.Parallel()
	named := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}},
	}}
	both := term("zone", "a")
	both.MatchFields = named.MatchFields
	and := func(a, b corev1.NodeSelectorTerm) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchExpressions: append(append([]corev1.NodeSelectorRequirement(nil), a.MatchExpressions...), b.MatchExpressions...),
			MatchFields:      append(append([]corev1.NodeSelectorRequirement(nil), a.MatchFields...), b.MatchFields...),
		}
	}
	tests := []struct {
		name string
		has  []corev1.NodeSelectorTerm
		term *corev1.NodeSelectorTerm
		want []corev1.NodeSelectorTerm
	}{
		{"a missing term changes nothing", nil, nil, nil},
		{"an empty term changes nothing", nil, &corev1.NodeSelectorTerm{}, nil},
		{"a single term where the template has none", nil, &both, []corev1.NodeSelectorTerm{both}},
		{
			"a term narrows each existing term by expressions and fields",
			[]corev1.NodeSelectorTerm{term("disk", "ssd"), term("disk", "nvme")},
			&both,
			[]corev1.NodeSelectorTerm{and(term("disk", "ssd"), both), and(term("disk", "nvme"), both)},
		},
		{
			"a term that matches no node still matches none",
			[]corev1.NodeSelectorTerm{{}, term("disk", "ssd")},
			&named,
			[]corev1.NodeSelectorTerm{{}, and(term("disk", "ssd"), named)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base := &corev1.PodTemplateSpec{}
			if tt.has != nil {
				base.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: tt.has},
				}}
			}
			before := base.DeepCopy()
			got, err := PodTemplate(base, &appsv1beta1.Subset{NodeSelectorTerm: tt.term}, nil)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(before, base), "the template is not modified")
			if tt.want == nil {
				require.Nil(t, got.Spec.Affinity)
				return
			}
			required := got.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			require.Empty(t, cmp.Diff(tt.want, required.NodeSelectorTerms))
		})
	}
}

func TestPodTemplateGolden(t *testing.T) {
	t.Parallel()
	base := web().Spec.Template.CloneSetTemplate.Spec.Template
	base.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	base.Spec.Containers = append(base.Spec.Containers, corev1.Container{Name: "log", Image: "log:1"})
	s := &appsv1beta1.Subset{
		Name:             "a",
		NodeSelectorTerm: new(term("topology.kubernetes.io/zone", "zone-a")),
		Tolerations:      []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		Patch: raw(`{"metadata": {"labels": {"tier": "spot", "apps.kruise.io/subset-name": "stolen"}},
			"spec": {"containers": [{"name": "log", "$patch": "delete"}, {"name": "app", "env": [{"name": "ZONE", "value": "a"}]}]}}`),
	}
	got, err := PodTemplate(&base, s, map[string]string{keys.SubsetName: "a", keys.SubsetRevision: "web-1"})
	require.NoError(t, err)
	text, err := yaml.Marshal(got)
	require.NoError(t, err)
	const file = "testdata/podtemplate.golden"
	if *update {
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), string(text)))
}

func TestPodTemplateOfAnInvalidPatch(t *testing.T) {
	t.Parallel()
	base := &web().Spec.Template.CloneSetTemplate.Spec.Template
	_, err := PodTemplate(base, &appsv1beta1.Subset{Name: "a", Patch: raw(`{"spec": {"containers": [{"image": "app:2"}]}}`)}, nil)
	require.ErrorContains(t, err, "patch of subset a")
	_, err = PodTemplate(base, &appsv1beta1.Subset{Name: "a", Patch: raw(`{"spec": {"hostNetwork": "yes"}}`)}, nil)
	require.ErrorContains(t, err, "patch of subset a")

	got, err := PodTemplate(base, &appsv1beta1.Subset{Patch: raw("null")}, nil)
	require.NoError(t, err, "null is not a patch")
	require.Empty(t, cmp.Diff(base, got))
}

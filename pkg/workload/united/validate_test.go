package united

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
)

type (
	object = appsv1beta1.UnitedDeployment
	part   = appsv1beta1.Subset
)

// subsets replaces the subsets.
func subsets(list ...part) func(*object) {
	return func(ud *object) { ud.Spec.Topology.Subsets = list }
}

// inEast assigns all subsets to cluster east.
func inEast(ud *object) {
	for i := range ud.Spec.Topology.Subsets {
		ud.Spec.Topology.Subsets[i].Cluster = "east"
	}
}

// partitions sets partitions.
func partitions(p map[string]int32) func(*object) {
	return func(ud *object) { ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{Partitions: p} }
}

// unavailable sets maxUnavailable of subsets.
func unavailable(n map[string]int32) func(*object) {
	return func(ud *object) { ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{MaxUnavailable: n} }
}

// waves sets type Waves.
func waves(ud *object) {
	ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{Type: appsv1beta1.WavesUpdateStrategyType}
}

// reallocation sets both bounds; an empty one is left out.
func reallocation(surge, unavailable string) func(*object) {
	return func(ud *object) {
		r := &pods.Reallocation{}
		if surge != "" {
			r.MaxSurge = number(surge)
		}
		if unavailable != "" {
			r.MaxUnavailable = number(unavailable)
		}
		ud.Spec.Topology.Placement = &pods.Placement{Reallocation: r}
	}
}

// ordinals is a subset with a range of ordinals; a negative end means no end.
func ordinals(name string, start, end int32) part {
	p := part{Name: name, Ordinals: &appsv1beta1.SubsetOrdinals{Start: start}}
	if end >= 0 {
		p.Ordinals.End = &end
	}
	return p
}

// sliced is advanced as the slice that a hub sends to a member.
func sliced() *object {
	ud := advanced()
	ud.Annotations = map[string]string{keys.FleetRowUID: "row"}
	return ud
}

// all applies changes in order.
func all(changes ...func(*object)) func(*object) {
	return func(ud *object) {
		for _, c := range changes {
			c(ud)
		}
	}
}

// TestValidObjects: each object is valid, but at the limit of a rule.
func TestValidObjects(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		base   func() *object
		change func(*object)
	}{
		{"a CloneSet over three subsets", web, nil},
		{"a StatefulSet", stateful, nil},
		{"a Deployment", deployment, nil},
		{"an advanced StatefulSet", advanced, nil},
		{"adjacent ordinals, and a subset without ordinals", advanced, subsets(ordinals("a", 10, -1), ordinals("b", 0, 9), part{Name: "c"})},
		{"10,000 stateful pods in clusters", advanced, all(inEast, func(ud *object) { ud.Spec.Replicas = ptr.To[int32](10_000) })},
		{"numbers that leave the rest to a subset without one", web, subsets(part{Name: "a", Replicas: number("60%")}, part{Name: "b"})},
		{"numbers that add up", web, subsets(part{Name: "a", Replicas: number("60%")}, part{Name: "b", Replicas: number("4")})},
		{"0% and 100%", web, subsets(part{Name: "a", Replicas: number("100%")}, part{Name: "b", Replicas: number("0%")})},
		{
			"a minimum that equals the maximum, and a subset without a maximum", web,
			subsets(part{Name: "a", MinReplicas: number("2"), MaxReplicas: number("20%")}, part{Name: "b"}),
		},
		{
			"bounds without replicas, which an autoscaler sets", web,
			all(subsets(part{Name: "a", MinReplicas: number("3"), MaxReplicas: number("5")}, part{Name: "b"}), func(ud *object) { ud.Spec.Replicas = nil }),
		},
		{"settings of Adaptive, without effect on Fixed", web, func(ud *object) {
			ud.Spec.Topology.ScheduleStrategy.Adaptive = &appsv1beta1.AdaptiveScheduleStrategy{}
		}},
		{"Adaptive with its defaults", web, adaptive(nil)},
		{"Adaptive with settings and bounds", web, all(adaptive(&appsv1beta1.AdaptiveScheduleStrategy{
			RescheduleCriticalSeconds: ptr.To[int32](0), UnschedulableDuration: ptr.To[int32](60),
		}), subsets(part{Name: "a", MaxReplicas: number("3")}, part{Name: "b"}))},
		{"partitions of existing subsets", web, partitions(map[string]int32{"a": 0, "c": 1000})},
		{"maxUnavailable of existing subsets", web, unavailable(map[string]int32{"a": 0, "c": 1000})},
		{"Waves over clusters", web, all(inEast, waves, func(ud *object) {
			ud.Spec.UpdateStrategy.Rollout = &pods.RolloutPlan{MaxUnavailable: number("5%")}
		})},
		{"Waves with the default of a stored object that was Manual", web, all(inEast, waves, func(ud *object) {
			ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{}
		})},
		{"a partition with a Deployment, without effect as in OpenKruise", deployment, partitions(map[string]int32{"a": 2})},
		{"a partition of pods that users delete, also without effect", web, all(partitions(map[string]int32{"a": 1}), func(ud *object) {
			ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.Type = appsv1beta1.CloneSetOnDelete
		})},
		{"a partition of 0 in a StatefulSet's template, as Kubernetes writes it", stateful, func(ud *object) {
			ud.Spec.Template.StatefulSetTemplate.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](0)}
		}},
		{"replicas in a CloneSet's template, which are overwritten", web, func(ud *object) {
			ud.Spec.Template.CloneSetTemplate.Spec.Replicas = ptr.To[int32](3)
		}},
		{"a patch of a label that no selector uses", web, subsets(part{Name: "a", Patch: raw(`{"metadata": {"labels": {"tier": "x"}}}`)})},
		{"subsets in clusters", web, inEast},
		{"a maximum in every subset, with clusters", web, all(subsets(part{Name: "a", MaxReplicas: number("3")}), inEast)},
		{"a cluster selector that selects all clusters", web, subsets(part{Name: "a", ClusterSelector: &metav1.LabelSelector{}})},
		{"reallocation without surge that may be unavailable", web, all(inEast, reallocation("0", "1%"))},
		{"reallocation with surge", web, all(inEast, reallocation("1", ""))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ud := tt.base()
			if tt.change != nil {
				tt.change(ud)
			}
			Default(ud)
			require.Empty(t, Validate(ud, Options{AllowClusters: true}))
			faults, warnings := ValidateUpdate(ud, ud, Options{AllowClusters: true})
			require.Empty(t, faults)
			require.Empty(t, warnings)
		})
	}
}

func TestInvalidObjects(t *testing.T) {
	t.Parallel()
	set := func(ud *object) *appsv1beta1.CloneSetTemplateSpec { return ud.Spec.Template.CloneSetTemplate }
	sub := "spec.topology.subsets"
	template := "spec.template.cloneSetTemplate"
	tests := []struct {
		name   string
		base   func() *object
		change func(*object)
		field  string // of the only fault
		want   string // a part of its message: the value and the remedy
	}{
		{"negative replicas", web, func(ud *object) { ud.Spec.Replicas = ptr.To[int32](-1) }, "spec.replicas", "-1: must be 0 or more"},
		{"a negative history limit", web, func(ud *object) { ud.Spec.RevisionHistoryLimit = ptr.To[int32](-1) }, "spec.revisionHistoryLimit", "0 or more"},
		{"no selector", web, func(ud *object) { ud.Spec.Selector = nil }, "spec.selector", "use labels of the template"},
		{"an empty selector", web, func(ud *object) { ud.Spec.Selector = &metav1.LabelSelector{} }, "spec.selector", "would select every pod"},
		{"an invalid selector", web, func(ud *object) {
			ud.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
		}, "spec.selector", `"Near" is not a valid label selector operator`},
		{
			"a workload that the selector doesn't match", web, func(ud *object) { set(ud).Labels = map[string]string{"app": "shop"} },
			template + ".metadata.labels", `"app=shop": spec.selector requires app=web: add that label here, or remove it from spec.selector`,
		},
		{
			"pods that the selector doesn't match", web, func(ud *object) { set(ud).Spec.Template.Labels = map[string]string{"tier": "x"} },
			template + ".spec.template.metadata.labels", "spec.selector requires app=web",
		},
		{"pods that the template's own selector doesn't match", web, func(ud *object) {
			set(ud).Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "tier": "x"}}
		}, template + ".spec.template.metadata.labels", template + ".spec.selector requires tier=x"},
		{"no template", web, func(ud *object) { ud.Spec.Template = appsv1beta1.SubsetTemplate{} }, "spec.template", "set one of"},
		{
			"two templates", web, func(ud *object) { ud.Spec.Template.StatefulSetTemplate = stateful().Spec.Template.StatefulSetTemplate },
			"spec.template", "2 kinds of workload are set: keep one",
		},
		{
			"replicas in a Deployment's template", deployment, func(ud *object) { ud.Spec.Template.DeploymentTemplate.Spec.Replicas = ptr.To[int32](1) },
			"spec.template.deploymentTemplate.spec.replicas", "set for each subset by the controller: leave it out",
		},
		{
			"replicas in a StatefulSet's template", stateful, func(ud *object) { ud.Spec.Template.StatefulSetTemplate.Spec.Replicas = ptr.To[int32](1) },
			"spec.template.statefulSetTemplate.spec.replicas", "leave it out",
		},
		{
			"a claim template without a size in a StatefulSet's template", stateful, func(ud *object) {
				ud.Spec.Template.StatefulSetTemplate.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
					ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}},
				}}
			},
			"spec.template.statefulSetTemplate.spec.volumeClaimTemplates[0].spec.resources.requests[storage]", "a PVC needs a size",
		},
		{
			"a claim template without a valid name in a StatefulSet's template", stateful, func(ud *object) {
				ud.Spec.Template.StatefulSetTemplate.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
					ObjectMeta: metav1.ObjectMeta{Name: "Data"}, Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
						Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
					},
				}}
			},
			"spec.template.statefulSetTemplate.spec.volumeClaimTemplates[0].metadata.name", "must consist of lower case",
		},
		{"a partition in a StatefulSet's template", stateful, func(ud *object) {
			ud.Spec.Template.StatefulSetTemplate.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)}
		}, "spec.template.statefulSetTemplate.spec.updateStrategy.rollingUpdate.partition", "use spec.updateStrategy.manualUpdate.partitions"},
		{
			"replicas in an advanced StatefulSet's template", advanced,
			func(ud *object) { ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.Replicas = ptr.To[int32](1) },
			"spec.template.advancedStatefulSetTemplate.spec.replicas", "leave it out",
		},
		{"a partition in an advanced StatefulSet's template", advanced, func(ud *object) {
			ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.StatefulSetRollingUpdateStrategy{
				Partition: ptr.To[int32](2),
			}
		}, "spec.template.advancedStatefulSetTemplate.spec.updateStrategy.rollingUpdate.partition", "use spec.updateStrategy.manualUpdate.partitions"},
		{
			"names of pods in a CloneSet's template", web, func(ud *object) { set(ud).Spec.ScaleStrategy.PodsToDelete = []string{"web-a-x-y"} },
			template + ".spec.scaleStrategy.podsToDelete", "name them in the subset's CloneSet",
		},
		{"a subset without a name", web, subsets(part{}), sub + "[0].name", "a lowercase RFC 1123 label"},
		{"a subset name that is not a label value", web, subsets(part{Name: "Zone_A"}), sub + "[0].name", `"Zone_A"`},
		{"two subsets of the same name", web, subsets(part{Name: "a"}, part{Name: "a"}), sub + "[1].name", `Duplicate value: "a"`},
		{"a patch that is not valid JSON", web, subsets(part{Name: "a", Patch: raw(`[1]`)}), sub + "[0].patch", "patch of subset a"},
		{
			"a patch with a field that pods don't have", web, subsets(part{Name: "a", Patch: raw(`{"spec": {"replicas": 2}}`)}),
			sub + "[0].patch", `unknown field "spec.replicas"`,
		},
		{
			"a patch of a label that the selector requires", web, subsets(part{Name: "a", Patch: raw(`{"metadata": {"labels": {"app": "x"}}}`)}),
			sub + "[0].patch", "doesn't match the patched pods",
		},
		{
			"a patch of a managed label", web, subsets(part{Name: "a", Patch: raw(`{"metadata": {"labels": {"apps.kruise.io/subset-name": "x"}}}`)}),
			sub + "[0].patch", "the label apps.kruise.io/subset-name is managed by the controller",
		},
		{"a percentage above 100", web, subsets(part{Name: "a", Replicas: number("101%")}, part{Name: "b"}), sub + "[0].replicas", `"101%": must be a number`},
		{"half a percent", web, subsets(part{Name: "a", Replicas: number("0.5%")}, part{Name: "b"}), sub + "[0].replicas", "whole percentage"},
		{"a word", web, subsets(part{Name: "a", Replicas: new(intstr.FromString("half"))}, part{Name: "b"}), sub + "[0].replicas", `"half"`},
		{"a negative number", web, subsets(part{Name: "a", Replicas: number("-1")}, part{Name: "b"}), sub + "[0].replicas", `"-1"`},
		{"a negative minimum", web, subsets(part{Name: "a", MinReplicas: number("-1")}), sub + "[0].minReplicas", `"-1"`},
		{"a maximum above 100%", web, subsets(part{Name: "a", MaxReplicas: number("200%")}, part{Name: "b"}), sub + "[0].maxReplicas", `"200%"`},
		{
			"replicas beside a minimum in another subset", web, subsets(part{Name: "a", Replicas: number("1")}, part{Name: "b", MinReplicas: number("1")}),
			sub + "[0].replicas", "use one of the two forms in all subsets",
		},
		{
			"a minimum above the maximum", web, subsets(part{Name: "a", MinReplicas: number("3"), MaxReplicas: number("2")}, part{Name: "b"}),
			sub + "[0].minReplicas", "3 > 2 of 10 replicas",
		},
		{
			"a minimum in percent above the maximum", web, subsets(part{Name: "a", MinReplicas: number("50%"), MaxReplicas: number("4")}, part{Name: "b"}),
			sub + "[0].minReplicas", "5 > 4 of 10 replicas",
		},
		{
			"a maximum in every subset", web, subsets(part{Name: "a", MaxReplicas: number("9")}, part{Name: "b", MaxReplicas: number("9")}),
			sub, "remove it from one of them",
		},
		{
			"numbers above the total", web, subsets(part{Name: "a", Replicas: number("60%")}, part{Name: "b", Replicas: number("5")}),
			sub, "subsets ask for 11 replicas, more than spec.replicas (10)",
		},
		{
			"numbers below the total, and no subset to take the rest", web, subsets(part{Name: "a", Replicas: number("60%")}, part{Name: "b", Replicas: number("3")}),
			sub, "subsets ask for 9 of 10 replicas",
		},
		{
			"a partition of an unknown subset", web, partitions(map[string]int32{"d": 1}),
			"spec.updateStrategy.manualUpdate.partitions[d]", "subset d doesn't exist: use one of [a b c]",
		},
		{"a negative partition", web, partitions(map[string]int32{"a": -1}), "spec.updateStrategy.manualUpdate.partitions[a]", "use 0 to update"},
		{
			"maxUnavailable of an unknown subset", web, unavailable(map[string]int32{"d": 1}),
			"spec.updateStrategy.manualUpdate.maxUnavailable[d]", "subset d doesn't exist: use one of [a b c]",
		},
		{
			"a negative maxUnavailable", web, unavailable(map[string]int32{"a": -1}),
			"spec.updateStrategy.manualUpdate.maxUnavailable[a]", "use 0 to stop the update",
		},
		{
			"maxUnavailable of a subset in clusters", web, all(inEast, unavailable(map[string]int32{"a": 2})),
			"spec.updateStrategy.manualUpdate.maxUnavailable[a]", "2: a subset that names clusters can't have it: use type Waves with rollout.maxUnavailable",
		},
		{
			"Waves without clusters", web, waves,
			"spec.updateStrategy.type", `"Waves": Waves need clusters: give each subset cluster or clusterSelector, or use Manual`,
		},
		{
			"a rollout without Waves", web, all(inEast, func(ud *object) { ud.Spec.UpdateStrategy.Rollout = &pods.RolloutPlan{} }),
			"spec.updateStrategy.rollout", "set type to Waves, or remove rollout",
		},
		{
			"partitions of subsets with Waves", web, all(inEast, waves, func(ud *object) {
				ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{Partitions: map[string]int32{"a": 1}}
			}),
			"spec.updateStrategy.manualUpdate", "use rollout.partition with the type Waves",
		},
		{
			"an unknown type of update", web, func(ud *object) { ud.Spec.UpdateStrategy.Type = "Canary" },
			"spec.updateStrategy.type", `supported values: "Manual", "Waves"`,
		},
		{
			"ordinals of a CloneSet's pods", web, subsets(part{Name: "a", Ordinals: &appsv1beta1.SubsetOrdinals{}}),
			sub + "[0].ordinals", "only applies with advancedStatefulSetTemplate",
		},
		{
			"ordinals that overlap", advanced, subsets(ordinals("a", 10, 19), ordinals("b", 0, 9), ordinals("c", 19, 29)),
			sub + "[2].ordinals", `"19-29": overlaps subset a with ordinals 10-19: set end there, or start here`,
		},
		{
			"ordinals above a range without an end", advanced, subsets(ordinals("a", 10, -1), ordinals("b", 30, 39)),
			sub + "[1].ordinals", `overlaps subset a with ordinals 10-2147483647`,
		},
		{
			"ordinals that the hub assigns", advanced, all(subsets(ordinals("a", 0, 9)), inEast),
			sub + "[0].ordinals", "the hub assigns each subset its own ordinals: leave it out",
		},
		{"a start ordinal that the hub assigns", advanced, all(inEast, func(ud *object) {
			ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
		}), "spec.template.advancedStatefulSetTemplate.spec.ordinals", "leave it out"},
		{
			"more pods than a subset has ordinals in a cluster", advanced, all(inEast, func(ud *object) { ud.Spec.Replicas = ptr.To[int32](10_001) }),
			"spec.replicas", "10001: must be at most 10000 with advancedStatefulSetTemplate",
		},
		{"an unknown update strategy", web, func(ud *object) { ud.Spec.UpdateStrategy.Type = "Blue" }, "spec.updateStrategy.type", `"Blue"`},
		{
			"Adaptive between clusters", web, all(inEast, adaptive(nil)),
			"spec.topology.scheduleStrategy.type", "only between the subsets of one cluster: use Fixed",
		},
		{
			"reserved pods of a StatefulSet", stateful, adaptive(&appsv1beta1.AdaptiveScheduleStrategy{ReserveUnschedulablePods: true}),
			"spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods", "can't be reserved because they are removed in the order of their ordinals",
		},
		{
			"reserved pods of a StatefulSet of apps.kruise.io", advanced, adaptive(&appsv1beta1.AdaptiveScheduleStrategy{ReserveUnschedulablePods: true}),
			"spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods", "use cloneSetTemplate or deploymentTemplate",
		},
		{
			"Adaptive with a negative pending time", web, adaptive(&appsv1beta1.AdaptiveScheduleStrategy{RescheduleCriticalSeconds: ptr.To[int32](-1)}),
			"spec.topology.scheduleStrategy.adaptive.rescheduleCriticalSeconds", "-1: must be a number of seconds, 0 or more",
		},
		{
			"Adaptive with a negative closing time", web, adaptive(&appsv1beta1.AdaptiveScheduleStrategy{UnschedulableDuration: ptr.To[int32](-5)}),
			"spec.topology.scheduleStrategy.adaptive.unschedulableDuration", "-5: must be a number of seconds, 0 or more",
		},
		{
			"Adaptive with the replicas of a subset", web, all(adaptive(nil), subsets(part{Name: "a", Replicas: number("1")}, part{Name: "b"})),
			sub + "[0].replicas", "use minReplicas and maxReplicas",
		},
		{"placement without clusters", web, reallocation("1", ""), "spec.topology.placement", "give each subset cluster or clusterSelector, or remove placement"},
		{
			"a subset without a cluster beside others", web, all(inEast, func(ud *object) { ud.Spec.Topology.Subsets[1].Cluster = "" }),
			sub + "[1].cluster", "either every subset names a cluster or none does",
		},
		{
			"a cluster and a cluster selector", web, all(inEast, func(ud *object) { ud.Spec.Topology.Subsets[0].ClusterSelector = &metav1.LabelSelector{} }),
			sub + "[0].clusterSelector", "remove one of them",
		},
		{"an invalid cluster selector", web, subsets(part{Name: "a", ClusterSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: "In"}},
		}}), sub + "[0].clusterSelector", "values"},
		{"too many subsets in a cluster", web, func(ud *object) {
			ud.Spec.Topology.Subsets = nil
			for name := range strings.SplitSeq("a b c d e f g h i j k l m n o p q r s t u", " ") {
				ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, part{Name: name, Cluster: "east"})
			}
		}, sub, "cluster east is named by 21 subsets, but at most 20 are allowed"},
		{"a surge above 100%", web, all(inEast, reallocation("120%", "")), "spec.topology.placement.reallocation.maxSurge", `"120%"`},
		{"a negative unavailability", web, all(inEast, reallocation("", "-1")), "spec.topology.placement.reallocation.maxUnavailable", `"-1"`},
		{"neither surge nor unavailability", web, all(inEast, reallocation("0%", "0")), "spec.topology.placement.reallocation.maxSurge", "raise one of them"},
		{"no surge, and unavailability at its default", web, all(inEast, reallocation("0", "")), "spec.topology.placement.reallocation.maxSurge", "raise one of them"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ud := tt.base()
			tt.change(ud)
			Default(ud)
			faults := Validate(ud, Options{AllowClusters: true})
			require.Len(t, faults, 1, "%v", faults)
			require.Equal(t, tt.field, faults[0].Field)
			require.Contains(t, faults[0].Error(), tt.want)
		})
	}
}

func TestClustersNeedAHub(t *testing.T) {
	t.Parallel()
	ud := web()
	subsets(part{Name: "a", Cluster: "east"}, part{Name: "b", ClusterSelector: &metav1.LabelSelector{}})(ud)
	faults := Validate(ud, Options{})
	require.Len(t, faults, 2)
	require.Equal(t, "spec.topology.subsets[0].cluster", faults[0].Field)
	require.Equal(t, "spec.topology.subsets[1].clusterSelector", faults[1].Field)
	require.Contains(t, faults[0].Detail, "apply the object on the hub, or remove this field")
}

func TestCloneSetTemplateIsValidatedAsACloneSet(t *testing.T) {
	t.Parallel()
	ud := web()
	ud.Spec.Template.CloneSetTemplate.Spec.Replicas = ptr.To[int32](3)
	judge := func(s *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
		require.Nil(t, s.Replicas, "the subsets determine the number")
		return field.ErrorList{field.Forbidden(path.Child("lifecycle"), "not served yet")}
	}
	faults := Validate(ud, Options{CloneSet: judge})
	require.Len(t, faults, 1)
	require.Equal(t, "spec.template.cloneSetTemplate.spec.lifecycle", faults[0].Field)
	require.Empty(t, Validate(deployment(), Options{CloneSet: judge}))
}

func TestStatefulSetTemplateIsValidatedAsAStatefulSet(t *testing.T) {
	t.Parallel()
	judge := func(_ *appsv1beta1.StatefulSetSpec, path *field.Path) field.ErrorList {
		return field.ErrorList{field.Forbidden(path.Child("lifecycle"), "not served yet")}
	}
	faults := Validate(advanced(), Options{StatefulSet: judge})
	require.Len(t, faults, 1)
	require.Equal(t, "spec.template.advancedStatefulSetTemplate.spec.lifecycle", faults[0].Field)
	require.Empty(t, Validate(stateful(), Options{StatefulSet: judge}))
}

// countFree counts ordinals if all reserveOrdinals are single numbers.
func countFree(reserved []intstr.IntOrString, first, last int64) int64 {
	n := last - first + 1
	for i := range reserved {
		if o := int64(reserved[i].IntVal); first <= o && o <= last {
			n--
		}
	}
	return n
}

func TestASubsetNeedsAsManyOrdinalsAsReplicas(t *testing.T) {
	t.Parallel()
	subset := func(start, end int32, replicas, least, most string) part {
		p := ordinals("a", start, end)
		for _, ask := range []struct {
			field **intstr.IntOrString
			value string
		}{{&p.Replicas, replicas}, {&p.MinReplicas, least}, {&p.MaxReplicas, most}} {
			if ask.value != "" {
				*ask.field = number(ask.value)
			}
		}
		return p
	}
	const enough = "are enough for only 4 pod(s): lower it, reserve fewer, or extend the range"
	for _, tt := range []struct {
		name   string
		base   func() *object
		subset part
		field  string // of the fault; empty for none
		want   string
	}{
		{"replicas equal to the ordinals", advanced, subset(10, 14, "4", "", ""), "", ""},
		{"a range without an end", advanced, subset(10, -1, "2000000000", "", ""), "", ""},
		{"no number", advanced, subset(10, 14, "", "", ""), "", ""},
		{"a percentage follows the total", advanced, subset(10, 14, "100%", "", ""), "", ""},
		{"bounds within the range", advanced, subset(10, 14, "", "1", "4"), "", ""},
		{"a slice has the numbers of the hub", sliced, subset(10, 14, "5", "", ""), "", ""},
		{"more replicas", advanced, subset(10, 14, "5", "", ""), "replicas", "Invalid value: 5: ordinals 10-14, without the template's reserveOrdinals, " + enough},
		{"a minimum above the range", advanced, subset(10, 14, "", "6", ""), "minReplicas", "Invalid value: 6: ordinals 10-14"},
		{"a maximum above the range", advanced, subset(10, 14, "", "4", "7"), "maxReplicas", "Invalid value: 7: ordinals 10-14"},
		{"a range that is entirely reserved", advanced, subset(12, 12, "1", "", ""), "replicas", "are enough for only 0 pod(s)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ud := tt.base()
			ud.Spec.Replicas = new(int32(2_000_000_000))
			ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(3), intstr.FromInt32(12)}
			subsets(tt.subset, part{Name: "rest", Ordinals: &appsv1beta1.SubsetOrdinals{End: new(int32(9))}})(ud)
			Default(ud)
			faults := Validate(ud, Options{CountOrdinals: countFree})
			if tt.field == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1, "%v", faults)
			require.Equal(t, "spec.topology.subsets[0]."+tt.field, faults[0].Field)
			require.Contains(t, faults[0].Error(), tt.want)
			require.Empty(t, Validate(ud, Options{}), "without CountOrdinals, a condition reports it")
		})
	}
}

func TestOrdinalsOutsideOfASubsetAreReserved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		own  *appsv1beta1.SubsetOrdinals
		want []string
	}{
		{"without a range no ordinal is reserved", nil, nil},
		{"a range from 0 without an end reserves nothing", &appsv1beta1.SubsetOrdinals{}, nil},
		{"ordinals below the range are reserved", ordinals("a", 1, -1).Ordinals, []string{"0-0"}},
		{"ordinals above the range are reserved", ordinals("a", 0, 9_999).Ordinals, []string{"10000-2147483647"}},
		{"both are", ordinals("a", 20_000, 29_999).Ordinals, []string{"0-19999", "30000-2147483647"}},
		{"no ordinals above the highest", ordinals("a", 0, math.MaxInt32).Ordinals, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, o := range Outside(tt.own) {
				got = append(got, o.String())
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		base   func() *object
		change func(*object)
		field  string // of the only fault; empty: accepted
	}{
		{"the template may change", web, func(ud *object) { ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:2" }, ""},
		{"the kind of workload may change", web, func(ud *object) { ud.Spec.Template = deployment().Spec.Template }, ""},
		{"subsets may be added and removed", web, subsets(part{Name: "b"}, part{Name: "d", Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}), ""},
		{"the selector may not change", web, func(ud *object) {
			ud.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}
		}, "spec.selector"},
		{
			"the node selector of a subset may not change, wherever the subset is in the list", web, subsets(part{Name: "x"}, part{Name: "a", NodeSelectorTerm: new(term("zone", "b"))}),
			"spec.topology.subsets[1].nodeSelectorTerm",
		},
		{
			"tolerations of a subset may not change", web, subsets(part{Name: "a", Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}),
			"spec.topology.subsets[0].tolerations",
		},
		{"some fields of a StatefulSet may change", stateful, func(ud *object) {
			s := &ud.Spec.Template.StatefulSetTemplate.Spec
			s.Template.Spec.Containers[0].Image = "app:2"
			s.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
			s.MinReadySeconds = 5
			s.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
			s.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
		}, ""},
		{
			"other fields of a StatefulSet may not", stateful, func(ud *object) { ud.Spec.Template.StatefulSetTemplate.Spec.ServiceName = "other" },
			"spec.template.statefulSetTemplate.spec",
		},
		{"most of an advanced StatefulSet may change", advanced, func(ud *object) {
			s := &ud.Spec.Template.AdvancedStatefulSetTemplate.Spec
			s.Template.Spec.Containers[0].Image = "app:2"
			s.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
			s.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(3)}
			s.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
			s.PodManagementPolicy = appsv1.OrderedReadyPodManagement
		}, ""},
		{
			"its serviceName may not change", advanced, func(ud *object) { ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.ServiceName = "other" },
			"spec.template.advancedStatefulSetTemplate.spec.serviceName",
		},
		{"its podManagementPolicy may not change", advanced, func(ud *object) {
			ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		}, "spec.template.advancedStatefulSetTemplate.spec.podManagementPolicy"},
		{"ordinals of a subset may not change", advanced, subsets(ordinals("a", 0, 9)), "spec.topology.subsets[0].ordinals"},
		{"a hub may change ordinals of a slice", sliced, subsets(ordinals("a", 0, 9)), ""},
		{
			"an empty node selector term equals a missing one", web, func(ud *object) {
				for i := range ud.Spec.Topology.Subsets {
					if s := &ud.Spec.Topology.Subsets[i]; s.NodeSelectorTerm == nil {
						s.NodeSelectorTerm = &corev1.NodeSelectorTerm{}
					}
				}
			}, "",
		},
		{"an invalid spec is rejected as at creation", web, func(ud *object) { ud.Spec.Replicas = ptr.To[int32](-1) }, "spec.replicas"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			old, ud := tt.base(), tt.base()
			tt.change(ud)
			faults, _ := ValidateUpdate(old, ud, Options{})
			if tt.field == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1, "%v", faults)
			require.Equal(t, tt.field, faults[0].Field)
		})
	}
}

func adaptive(s *appsv1beta1.AdaptiveScheduleStrategy) func(*object) {
	return func(ud *object) {
		ud.Spec.Topology.ScheduleStrategy = appsv1beta1.UnitedDeploymentScheduleStrategy{Type: appsv1beta1.ScheduleAdaptive, Adaptive: s}
	}
}

func TestFaultsThatWereStoredAreWarnings(t *testing.T) {
	t.Parallel()
	reserved := adaptive(&appsv1beta1.AdaptiveScheduleStrategy{ReserveUnschedulablePods: true})
	bounded := func(ud *object) {
		for i := range ud.Spec.Topology.Subsets {
			ud.Spec.Topology.Subsets[i].MaxReplicas = number("9")
		}
	}
	for _, tt := range []struct {
		name     string
		stored   func(*object)
		change   func(*object)
		faults   []string
		warnings []string
	}{
		{
			"a new image", all(reserved, bounded),
			func(ud *object) {
				ud.Spec.Template.StatefulSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
			},
			nil,
			[]string{"spec.topology.subsets: Invalid value: 3: every subset has maxReplicas", "reserveUnschedulablePods: Forbidden: pods of a StatefulSet can't be reserved"},
		},
		{
			"the scale of an autoscaler", reserved, func(ud *object) { ud.Spec.Replicas = ptr.To[int32](20) },
			nil,
			[]string{"reserveUnschedulablePods: Forbidden: pods of a StatefulSet can't be reserved"},
		},
		{
			"another fault", reserved, func(ud *object) { ud.Spec.Replicas = ptr.To[int32](-1) },
			[]string{"spec.replicas: Invalid value: -1"},
			[]string{"reserveUnschedulablePods: Forbidden: pods of a StatefulSet can't be reserved"},
		},
		{"only the fault that the change introduces", func(*object) {}, reserved, []string{"reserveUnschedulablePods: Forbidden: pods of a StatefulSet can't be reserved"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			old := stateful()
			tt.stored(old)
			Default(old)
			ud := old.DeepCopy()
			tt.change(ud)
			faults, warnings := ValidateUpdate(old, ud, Options{})
			require.Len(t, faults, len(tt.faults))
			for i, want := range tt.faults {
				require.ErrorContains(t, faults[i], want)
			}
			require.Len(t, warnings, len(tt.warnings))
			for i, want := range tt.warnings {
				require.Contains(t, warnings[i], want)
			}
		})
	}
}

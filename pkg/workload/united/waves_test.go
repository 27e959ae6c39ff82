package united

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// TestWavesAreValidated changes an object with the type Waves, and checks what is refused. An object may be older than the schema.
func TestWavesAreValidated(t *testing.T) {
	t.Parallel()
	deployment := func(strategy appsv1.DeploymentStrategyType) appsv1beta1.SubsetTemplate {
		return appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{
			Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{Type: strategy}},
		}}
	}
	for name, c := range map[string]struct {
		change func(*appsv1beta1.UnitedDeployment)
		want   string
	}{
		"without a plan there are defaults": {func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.UpdateStrategy.Rollout = nil }, ""},
		"numbers and percentages": {func(ud *appsv1beta1.UnitedDeployment) {
			*ud.Spec.UpdateStrategy.Rollout = pods.RolloutPlan{
				MaxUnavailable: new(intstr.FromString("5%")), Partition: new(intstr.FromInt32(3)), Paused: true, StaleClusters: pods.StaleClustersSkip,
			}
		}, ""},
		"a Deployment without partition": {func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Template = deployment("") }, ""},
		"a Deployment with a partition of 0": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template, ud.Spec.UpdateStrategy.Rollout.Partition = deployment(""), new(intstr.FromString("0%"))
		}, ""},
		"a budget of 0": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.Rollout.MaxUnavailable = new(intstr.FromInt32(0))
		}, `spec.updateStrategy.rollout.maxUnavailable: Invalid value: "0": must be at least 1`},
		"a budget that is no number": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.Rollout.MaxUnavailable = new(intstr.FromString("some"))
		}, "spec.updateStrategy.rollout.maxUnavailable: Invalid value"},
		"a negative partition": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.Rollout.Partition = new(intstr.FromInt32(-1))
		}, "spec.updateStrategy.rollout.partition: Invalid value"},
		"an unknown policy": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.Rollout.StaleClusters = "Ignore"
		}, `spec.updateStrategy.rollout.staleClusters: Unsupported value: "Ignore"`},
		"a Deployment with a partition": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template, ud.Spec.UpdateStrategy.Rollout.Partition = deployment(""), new(intstr.FromInt32(1))
		}, `spec.updateStrategy.rollout.partition: Invalid value: "1": a Deployment can't keep pods`},
		"a Deployment that is recreated": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template = deployment(appsv1.RecreateDeploymentStrategyType)
		}, `spec.updateStrategy.type: Invalid value: "Waves": with the template's strategy Recreate`},
		"pods that are updated when they are deleted": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.Type = appsv1beta1.CloneSetOnDelete
		}, `spec.updateStrategy.type: Invalid value: "Waves": with the template's updateStrategy OnDelete`},
		"no clusters": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Topology.Subsets = []appsv1beta1.Subset{{Name: "one"}}
		}, `spec.updateStrategy.type: Invalid value: "Waves": Waves need clusters`},
		"partitions by subset": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{}
		}, "spec.updateStrategy.manualUpdate: Forbidden: configures the type Manual"},
		"a plan for another type": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.Type = appsv1beta1.ManualUpdateStrategyType
		}, "spec.updateStrategy.rollout: Forbidden: configures the type Waves"},
		"waves": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, pods.RolloutWave{
				Name: "canary", Subsets: []string{"all"}, Clusters: []string{"east"}, Pods: new(int32(5)), MaxConcurrentClusters: new(int32(1)),
				Gates: []pods.RolloutGate{{Type: pods.SoakGate, Seconds: new(int32(60))}, {Type: pods.ApprovalGate}},
			}, pods.RolloutWave{Name: "eu", ClusterSelector: &metav1.LabelSelector{}})
			ud.Spec.UpdateStrategy.Rollout.Gates = []pods.RolloutGate{{Type: pods.SoakGate, Seconds: new(int32(2592000))}}
		}, ""},
		"two waves with one name": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, wave("a"), pods.RolloutWave{Name: "a", Clusters: []string{"other"}})
		}, `spec.updateStrategy.rollout.waves[1].name: Duplicate value: "a"`},
		"a wave named rest": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, wave("rest"))
		}, `spec.updateStrategy.rollout.waves[0].name: Invalid value: "rest": this is the name of the last wave`},
		"a wave with a bad name": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, wave("A wave"))
		}, `spec.updateStrategy.rollout.waves[0].name: Invalid value: "A wave"`},
		"a wave that selects nothing": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, pods.RolloutWave{Name: "a"})
		}, "spec.updateStrategy.rollout.waves[0]: Required value: a wave must select clusters"},
		"a subset that doesn't exist": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, pods.RolloutWave{Name: "a", Subsets: []string{"al"}})
		}, `spec.updateStrategy.rollout.waves[0].subsets[0]: Not found: "al"`},
		"a subset in two waves": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, pods.RolloutWave{Name: "a", Subsets: []string{"all"}}, pods.RolloutWave{Name: "b", Subsets: []string{"all"}})
		}, `spec.updateStrategy.rollout.waves[1].subsets[0]: Invalid value: "all": belongs to wave a already`},
		"a cluster in two waves": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, wave("a"), wave("b"))
		}, `spec.updateStrategy.rollout.waves[1].clusters[0]: Invalid value: "east": belongs to wave a already`},
		"a bad selector": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, pods.RolloutWave{Name: "a", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}})
		}, "spec.updateStrategy.rollout.waves[0].clusterSelector: Invalid value"},
		"no pods": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, pods.RolloutWave{Name: "a", Clusters: []string{"east"}, Pods: new(int32(0))})
		}, "spec.updateStrategy.rollout.waves[0].pods: Invalid value: 0: must be at least 1: leave it out"},
		"pods of a Deployment": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template = appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{}}
			setWaves(ud, pods.RolloutWave{Name: "a", Clusters: []string{"east"}, Pods: new(int32(2))})
		}, "spec.updateStrategy.rollout.waves[0].pods: Invalid value: 2: "},
		"no clusters at a time": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, pods.RolloutWave{Name: "a", Clusters: []string{"east"}, MaxConcurrentClusters: new(int32(-1))})
		}, "spec.updateStrategy.rollout.waves[0].maxConcurrentClusters: Invalid value: -1: must be at least 1"},
		"a gate that doesn't say how long": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, wave("a", pods.RolloutGate{Type: pods.SoakGate}))
		}, "spec.updateStrategy.rollout.waves[0].gates[0].seconds: Required value"},
		"a gate that takes too long": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, wave("a", pods.RolloutGate{Type: pods.SoakGate, Seconds: new(int32(2592001))}))
		}, "spec.updateStrategy.rollout.waves[0].gates[0].seconds: Invalid value: 2592001: must be at least 1 and at most 2592000"},
		"an approval with a time": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, wave("a", pods.RolloutGate{Type: pods.ApprovalGate, Seconds: new(int32(60))}))
		}, "spec.updateStrategy.rollout.waves[0].gates[0].seconds: Forbidden: an approval takes as long as it takes"},
		"an unknown gate": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, wave("a", pods.RolloutGate{Type: "Prayer"}))
		}, `spec.updateStrategy.rollout.waves[0].gates[0].type: Unsupported value: "Prayer": supported values: "Approval", "Soak"`},
		"a gate twice": {func(ud *appsv1beta1.UnitedDeployment) {
			setWaves(ud, wave("a", pods.RolloutGate{Type: pods.ApprovalGate}, pods.RolloutGate{Type: pods.ApprovalGate}))
		}, `spec.updateStrategy.rollout.waves[0].gates[1].type: Duplicate value: "Approval"`},
		"gates without waves": {func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.Rollout.Gates = []pods.RolloutGate{{Type: pods.ApprovalGate}}
		}, "spec.updateStrategy.rollout.gates: Forbidden: gates open between waves: set waves, or remove gates"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ud := wavesObject()
			c.change(ud)
			err := validateWaves(ud, field.NewPath("spec", "updateStrategy")).ToAggregate()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestWithWavesTheKindOfWorkloadStays(t *testing.T) {
	t.Parallel()
	old, ud := wavesObject(), wavesObject()
	ud.Spec.Template = appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{}}
	require.ErrorContains(t, validateFixed(old, ud).ToAggregate(), "spec.template.deploymentTemplate: Forbidden: with the type Waves the kind of workload")
	ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{}
	require.NoError(t, validateFixed(old, ud).ToAggregate())
}

func wave(name string, gates ...pods.RolloutGate) pods.RolloutWave {
	return pods.RolloutWave{Name: name, Clusters: []string{"east"}, Gates: gates}
}

func setWaves(ud *appsv1beta1.UnitedDeployment, waves ...pods.RolloutWave) {
	ud.Spec.UpdateStrategy.Rollout.Waves = waves
}

func wavesObject() *appsv1beta1.UnitedDeployment {
	return &appsv1beta1.UnitedDeployment{Spec: appsv1beta1.UnitedDeploymentSpec{
		Replicas: new(int32(4)),
		Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{}},
		Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}},
		UpdateStrategy: appsv1beta1.UnitedDeploymentUpdateStrategy{
			Type: appsv1beta1.WavesUpdateStrategyType, Rollout: &pods.RolloutPlan{},
		},
	}}
}

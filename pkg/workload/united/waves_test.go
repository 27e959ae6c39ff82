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

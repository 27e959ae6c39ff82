package united

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// Waves reports whether a hub rolls out new revisions over the clusters.
func Waves(ud *appsv1beta1.UnitedDeployment) bool {
	return ud.Spec.UpdateStrategy.Type == appsv1beta1.WavesUpdateStrategyType
}

// validateWaves validates the type Waves, and that what configures another type is not set.
func validateWaves(ud *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	s := &ud.Spec.UpdateStrategy
	var faults field.ErrorList
	if !Waves(ud) {
		if s.Rollout != nil {
			faults = append(faults, field.Forbidden(path.Child("rollout"), "configures the type Waves: set type to Waves, or remove rollout"))
		}
		return faults
	}
	if !Federated(ud) {
		faults = append(faults, field.Invalid(path.Child("type"), s.Type, "Waves need clusters: give each subset cluster or clusterSelector, or use Manual"))
	}
	if s.ManualUpdate != nil {
		faults = append(faults, field.Forbidden(path.Child("manualUpdate"),
			"configures the type Manual: use rollout.partition with the type Waves, or remove manualUpdate"))
	}
	if why := unlimited(&ud.Spec.Template); why != "" {
		faults = append(faults, field.Invalid(path.Child("type"), s.Type, why))
	}
	if s.Rollout == nil {
		return faults
	}
	return append(faults, validateRollout(ud, s.Rollout, path.Child("rollout"))...)
}

// unlimited returns why the updates of a template's workloads can't be limited; empty if they can.
func unlimited(t *appsv1beta1.SubsetTemplate) string {
	switch d := t.DeploymentTemplate; {
	case d != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return "with the template's strategy Recreate all pods of a cluster are deleted at once: use RollingUpdate, or the type Manual"
	case onDelete(t):
		return "with the template's updateStrategy OnDelete pods are only updated when they are deleted: use RollingUpdate, or the type Manual"
	}
	return ""
}

func validateRollout(ud *appsv1beta1.UnitedDeployment, r *pods.RolloutPlan, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	// With 100 replicas each percentage gives a different number.
	const hundred = 100
	if at := path.Child("maxUnavailable"); r.MaxUnavailable != nil {
		n := readNumber(r.MaxUnavailable, hundred, at, &faults)
		if len(faults) == 0 && n < 1 {
			faults = append(faults, field.Invalid(at, r.MaxUnavailable.String(), "must be at least 1, or no pod can be updated: use paused to stop the rollout"))
		}
	}
	if at := path.Child("partition"); r.Partition != nil {
		readNumber(r.Partition, hundred, at, &faults)
		if ud.Spec.Template.DeploymentTemplate != nil && *r.Partition != intstr.FromInt32(0) && r.Partition.String() != "0%" {
			faults = append(faults, field.Invalid(at, r.Partition.String(), Unpartitioned(&ud.Spec.Template)))
		}
	}
	switch r.StaleClusters {
	case "", pods.StaleClustersHold, pods.StaleClustersSkip:
	default:
		faults = append(faults, field.NotSupported(path.Child("staleClusters"), r.StaleClusters,
			[]pods.StaleClustersPolicy{pods.StaleClustersHold, pods.StaleClustersSkip}))
	}
	return faults
}

// validateWavesChange refuses another kind of workload: each cluster would replace all of its pods at once.
func validateWavesChange(old, ud *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	before, _ := TemplateOf(&old.Spec.Template)
	after, _ := TemplateOf(&ud.Spec.Template)
	if !Waves(ud) || before.Field == after.Field || before.Field == "" || after.Field == "" {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child(after.Field), "with the type Waves the kind of workload can't be changed, because all pods of a "+
		"cluster would be replaced at once: use "+before.Field+", or create a new UnitedDeployment")}
}

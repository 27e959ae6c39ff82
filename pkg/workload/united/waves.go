package united

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
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
	faults = append(faults, validateGates(r.Gates, path.Child("gates"))...)
	if len(r.Gates) > 0 && len(r.Waves) == 0 {
		faults = append(faults, field.Forbidden(path.Child("gates"), "gates open between waves: set waves, or remove gates"))
	}
	return append(faults, validateWaveList(ud, r.Waves, path.Child("waves"))...)
}

// validateWaveList validates the waves of a plan. A subset or a cluster that two waves name would silently belong to the first one.
func validateWaveList(ud *appsv1beta1.UnitedDeployment, waves []pods.RolloutWave, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	named, subsets, clusters := map[string]bool{}, map[string]string{}, map[string]string{}
	exists := func(name string) bool {
		return slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s appsv1beta1.Subset) bool { return s.Name == name })
	}
	for i, w := range waves {
		at := path.Index(i)
		faults = append(faults, validateWaveName(w.Name, named, at.Child("name"))...)
		if len(w.Subsets) == 0 && len(w.Clusters) == 0 && w.ClusterSelector == nil {
			faults = append(faults, field.Required(at, "a wave must select clusters: set subsets, clusters or clusterSelector"))
		}
		for j, name := range w.Subsets {
			switch earlier, again := subsets[name]; {
			case !exists(name):
				faults = append(faults, field.NotFound(at.Child("subsets").Index(j), name))
			case again:
				faults = append(faults, inTwoWaves(at.Child("subsets").Index(j), name, earlier))
			}
			subsets[name] = w.Name
		}
		for j, name := range w.Clusters {
			if earlier, again := clusters[name]; again {
				faults = append(faults, inTwoWaves(at.Child("clusters").Index(j), name, earlier))
			}
			clusters[name] = w.Name
		}
		if _, err := metav1.LabelSelectorAsSelector(w.ClusterSelector); err != nil {
			faults = append(faults, field.Invalid(at.Child("clusterSelector"), metav1.FormatLabelSelector(w.ClusterSelector), err.Error()))
		}
		if w.Pods != nil {
			faults = append(faults, atLeastOne(*w.Pods, at.Child("pods"), "leave it out to update all pods of the wave")...)
			if ud.Spec.Template.DeploymentTemplate != nil {
				faults = append(faults, field.Invalid(at.Child("pods"), *w.Pods, Unpartitioned(&ud.Spec.Template)))
			}
		}
		if n := w.MaxConcurrentClusters; n != nil {
			faults = append(faults, atLeastOne(*n, at.Child("maxConcurrentClusters"), "leave it out to have no limit")...)
		}
		faults = append(faults, validateGates(w.Gates, at.Child("gates"))...)
	}
	return faults
}

func validateWaveName(name string, named map[string]bool, at *field.Path) field.ErrorList {
	var faults field.ErrorList
	for _, why := range validation.IsDNS1123Label(name) {
		faults = append(faults, field.Invalid(at, name, why))
	}
	switch {
	case name == pods.RestWave:
		faults = append(faults, field.Invalid(at, name, "this is the name of the last wave, which has all clusters that match no other wave: use another name"))
	case named[name]:
		faults = append(faults, field.Duplicate(at, name))
	}
	named[name] = true
	return faults
}

func inTwoWaves(at *field.Path, name, wave string) *field.Error {
	return field.Invalid(at, name, "belongs to wave "+wave+" already: remove it from one of the waves")
}

func atLeastOne(n int32, at *field.Path, instead string) field.ErrorList {
	if n >= 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, n, "must be at least 1: "+instead)}
}

func validateGates(gates []pods.RolloutGate, path *field.Path) field.ErrorList {
	const month = 30 * 24 * 60 * 60
	var faults field.ErrorList
	seen := map[pods.RolloutGateType]bool{}
	for i, g := range gates {
		at := path.Index(i)
		switch {
		case seen[g.Type]:
			faults = append(faults, field.Duplicate(at.Child("type"), g.Type))
		case g.Type == pods.SoakGate && g.Seconds == nil:
			faults = append(faults, field.Required(at.Child("seconds"), "how long must the clusters be healthy?"))
		case g.Type == pods.SoakGate && (*g.Seconds < 1 || *g.Seconds > month):
			faults = append(faults, field.Invalid(at.Child("seconds"), *g.Seconds, fmt.Sprintf("must be at least 1 and at most %d (30 days)", month)))
		case g.Type == pods.ApprovalGate && g.Seconds != nil:
			faults = append(faults, field.Forbidden(at.Child("seconds"), "an approval takes as long as it takes: remove it, or use a gate of type Soak"))
		case g.Type != pods.SoakGate && g.Type != pods.ApprovalGate:
			faults = append(faults, field.NotSupported(at.Child("type"), g.Type, []pods.RolloutGateType{pods.ApprovalGate, pods.SoakGate}))
		}
		seen[g.Type] = true
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

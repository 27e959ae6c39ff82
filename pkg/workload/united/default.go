package united

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// Defaults of the spec, the same as in OpenKruise.
const (
	DefaultReplicas     = 1
	DefaultHistoryLimit = 10
)

// Default sets defaults. Replicas get their default even if subsets have minReplicas or maxReplicas: if an autoscaler sets the replicas, the
// manifest has none.
func Default(ud *appsv1beta1.UnitedDeployment) {
	spec := &ud.Spec
	elastic := Elastic(ud)
	if spec.Replicas == nil {
		spec.Replicas = ptr.To[int32](DefaultReplicas)
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = ptr.To[int32](DefaultHistoryLimit)
	}
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1beta1.ManualUpdateStrategyType
	}
	switch s := &spec.UpdateStrategy; {
	case !Waves(ud) && s.ManualUpdate == nil:
		s.ManualUpdate = &appsv1beta1.ManualUpdate{}
	case Waves(ud) && emptyManual(s.ManualUpdate): // The default of a stored object that was Manual.
		s.ManualUpdate = nil
	}
	for i := range spec.Topology.Subsets {
		if s := &spec.Topology.Subsets[i]; elastic && s.MinReplicas == nil && s.Replicas == nil {
			s.MinReplicas = new(intstr.FromInt32(0))
		}
	}
}

func emptyManual(m *appsv1beta1.ManualUpdate) bool {
	return m != nil && len(m.Partitions)+len(m.MaxUnavailable) == 0
}

// Elastic reports whether any subset has minReplicas or maxReplicas. Then the subsets are filled in order.
func Elastic(ud *appsv1beta1.UnitedDeployment) bool {
	return slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s appsv1beta1.Subset) bool {
		return s.MinReplicas != nil || s.MaxReplicas != nil
	})
}

// Slice reports whether an object is a slice, that is, this cluster's part of a hub object.
func Slice(ud *appsv1beta1.UnitedDeployment) bool {
	_, ok := ud.Annotations[keys.FleetRowUID]
	return ok
}

// OfHub reports whether an object belongs to the hub, so that a member's controller ignores it: its subsets name clusters, or they once did and
// the object still has the hub's finalizer, because it may still run there.
func OfHub(ud *appsv1beta1.UnitedDeployment) bool {
	return Federated(ud) || slices.Contains(ud.Finalizers, keys.FleetRow)
}

// Federated reports whether a subset names a cluster or selects clusters.
func Federated(ud *appsv1beta1.UnitedDeployment) bool {
	return slices.ContainsFunc(ud.Spec.Topology.Subsets, federated)
}

func federated(s appsv1beta1.Subset) bool { return s.Cluster != "" || s.ClusterSelector != nil }

package united

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// validateClusters validates the clusters of an object.
func validateClusters(ud *appsv1beta1.UnitedDeployment, path *field.Path, o Options) field.ErrorList {
	topology := &ud.Spec.Topology
	var faults field.ErrorList
	if !Federated(ud) {
		if topology.Placement != nil {
			faults = append(faults, field.Forbidden(path.Child("placement"),
				"is about clusters: give each subset cluster or clusterSelector, or remove placement"))
		}
		return faults
	}
	perCluster := map[string]int{}
	for i := range topology.Subsets {
		s, at := &topology.Subsets[i], path.Child("subsets").Index(i)
		switch {
		case !o.AllowClusters:
			faults = append(faults, clusterForbidden(s, at)...)
			continue
		case !federated(*s):
			faults = append(faults, field.Required(at.Child("cluster"),
				"either every subset names a cluster or none does: give this one cluster or clusterSelector, or take them off all"))
		case s.Cluster != "" && s.ClusterSelector != nil:
			faults = append(faults, field.Forbidden(at.Child("clusterSelector"), "a subset has either cluster or clusterSelector: remove one of them"))
		case s.ClusterSelector != nil:
			if _, err := metav1.LabelSelectorAsSelector(s.ClusterSelector); err != nil {
				faults = append(faults, field.Invalid(at.Child("clusterSelector"), metav1.FormatLabelSelector(s.ClusterSelector), err.Error()))
			}
		default:
			perCluster[s.Cluster]++
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(perCluster)) {
		if n := perCluster[cluster]; n > fleetv1alpha1.SubsetsPerRow {
			faults = append(faults, field.Invalid(path.Child("subsets"), n, fmt.Sprintf(
				"cluster %s is named by %d subsets, but at most %d are allowed: merge some of them", cluster, n, fleetv1alpha1.SubsetsPerRow)))
		}
	}
	if p := topology.Placement; p != nil && p.Reallocation != nil {
		faults = append(faults, validateReallocation(ud, p.Reallocation, path.Child("placement", "reallocation"))...)
	}
	return faults
}

func clusterForbidden(s *appsv1beta1.Subset, path *field.Path) field.ErrorList {
	const why = "only a hub places subsets in clusters, and this cluster has none: apply the object on the hub, or remove this field"
	switch {
	case s.Cluster != "":
		return field.ErrorList{field.Forbidden(path.Child("cluster"), why)}
	case s.ClusterSelector != nil:
		return field.ErrorList{field.Forbidden(path.Child("clusterSelector"), why)}
	}
	return nil
}

func validateReallocation(ud *appsv1beta1.UnitedDeployment, r *pods.Reallocation, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	// With 100 replicas each percentage gives a different number, so that a 0 is not due to rounding.
	const hundred = 100
	surge := readNumber(r.MaxSurge, hundred, path.Child("maxSurge"), &faults)
	unavailable := readNumber(r.MaxUnavailable, hundred, path.Child("maxUnavailable"), &faults)
	if len(faults) == 0 && r.MaxSurge != nil && surge == 0 && unavailable == 0 && ptr.Deref(ud.Spec.Replicas, 1) > 0 {
		faults = append(faults, field.Invalid(path.Child("maxSurge"), r.MaxSurge.String(),
			"with maxSurge 0 and maxUnavailable 0 no replica can move: raise one of them"))
	}
	return faults
}

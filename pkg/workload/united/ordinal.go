package united

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// Outside returns the ordinals outside a subset's range, as the reserveOrdinals of a StatefulSet; nil if there are none. They replace
// ordinals.start, which needs a feature gate, and define the end of the range, which has no field of its own.
func Outside(own *appsv1beta1.SubsetOrdinals) []intstr.IntOrString {
	if own == nil {
		return nil
	}
	var out []intstr.IntOrString
	reserve := func(first, last int64) {
		if first <= last {
			out = append(out, intstr.FromString(fmt.Sprintf("%d-%d", first, last)))
		}
	}
	reserve(0, int64(own.Start)-1)
	if own.End != nil {
		reserve(int64(*own.End)+1, math.MaxInt32)
	}
	return out
}

// validateOrdinals validates the ordinals of subsets. path is the path of the spec.
func validateOrdinals(ud *appsv1beta1.UnitedDeployment, path *field.Path, o Options) field.ErrorList {
	t := ud.Spec.Template.AdvancedStatefulSetTemplate
	var faults field.ErrorList
	if t != nil && Federated(ud) {
		if t.Spec.Ordinals != nil {
			faults = append(faults, field.Forbidden(path.Child("template", "advancedStatefulSetTemplate", "spec", "ordinals"),
				"the hub assigns each subset its own ordinals: leave it out"))
		}
		if n := ptr.Deref(ud.Spec.Replicas, DefaultReplicas); n > fleetv1alpha1.OrdinalsPerSubset {
			faults = append(faults, field.Invalid(path.Child("replicas"), n, fmt.Sprintf(
				"must be at most %d with advancedStatefulSetTemplate, because a subset has that many ordinals in a cluster: "+
					"lower it, or create several UnitedDeployments", fleetv1alpha1.OrdinalsPerSubset)))
		}
	}
	for i := range ud.Spec.Topology.Subsets {
		s, at := &ud.Spec.Topology.Subsets[i], path.Child("topology", "subsets").Index(i).Child("ordinals")
		switch {
		case s.Ordinals == nil:
		case federated(*s):
			faults = append(faults, field.Forbidden(at, "the hub assigns each subset its own ordinals: leave it out"))
		case t == nil:
			faults = append(faults, field.Forbidden(at, "only applies with advancedStatefulSetTemplate: leave it out"))
		default:
			faults = append(faults, overlap(ud.Spec.Topology.Subsets[:i], s, at)...)
			if o.CountOrdinals != nil && !Slice(ud) { // The hub sets the numbers of a slice.
				faults = append(faults, tooFew(s, o.CountOrdinals(t.Spec.ReserveOrdinals, int64(s.Ordinals.Start), lastOrdinal(s)),
					path.Child("topology", "subsets").Index(i))...)
			}
		}
	}
	return faults
}

// overlap returns a fault for the first subset before s that shares ordinals with it.
func overlap(before []appsv1beta1.Subset, s *appsv1beta1.Subset, path *field.Path) field.ErrorList {
	for i := range before {
		other := &before[i]
		if other.Ordinals != nil && int64(other.Ordinals.Start) <= lastOrdinal(s) && int64(s.Ordinals.Start) <= lastOrdinal(other) {
			return field.ErrorList{field.Invalid(path, fmt.Sprintf("%d-%d", s.Ordinals.Start, lastOrdinal(s)), fmt.Sprintf(
				"overlaps subset %s with ordinals %d-%d: set end there, or start here, so that they don't overlap",
				other.Name, other.Ordinals.Start, lastOrdinal(other)))}
		}
	}
	return nil
}

// lastOrdinal returns the last ordinal of a subset with a range.
func lastOrdinal(s *appsv1beta1.Subset) int64 { return int64(ptr.Deref(s.Ordinals.End, math.MaxInt32)) }

// tooFew rejects replica numbers of s that exceed its count of ordinals. Percentages are not checked: they depend on spec.replicas.
func tooFew(s *appsv1beta1.Subset, ordinals int64, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	for _, ask := range []struct {
		name   string
		number *intstr.IntOrString
	}{{"replicas", s.Replicas}, {"minReplicas", s.MinReplicas}, {"maxReplicas", s.MaxReplicas}} {
		if ask.number != nil && ask.number.Type == intstr.Int && int64(ask.number.IntVal) > ordinals {
			faults = append(faults, field.Invalid(path.Child(ask.name), ask.number.IntVal, fmt.Sprintf(
				"ordinals %d-%d, without the template's reserveOrdinals, are enough for only %d pod(s): "+
					"lower it, reserve fewer, or extend the range",
				s.Ordinals.Start, lastOrdinal(s), max(ordinals, 0))))
		}
	}
	return faults
}

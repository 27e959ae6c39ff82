package uniteddeployment

import (
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// assignOrdinals gives each part its own range if the pods of the object have ordinals: the lowest range that no row uses. Ordinals are then
// unique in the fleet. A row keeps the range of a part for as long as it has the part, which is until the cluster reports none of its pods,
// even if the object gets another kind of template in the meantime. So a range is not reused while any row reports a pod in it, and neither a
// move nor a scale changes the ordinal of a pod.
func assignOrdinals(o *observed, parts []part) {
	if o.ud.Spec.Template.AdvancedStatefulSetTemplate == nil {
		for i := range parts {
			parts[i].spec.Ordinals = nil
		}
		return
	}
	taken := map[int32]bool{}
	for _, row := range o.Rows {
		for _, g := range row.Spec.Grant.Subsets {
			if g.FirstOrdinal != nil {
				taken[*g.FirstOrdinal] = true
			}
		}
	}
	next := int32(0)
	for i := range parts {
		p := &parts[i]
		if p.grant.FirstOrdinal == nil {
			for taken[next] {
				next += fleetv1alpha1.OrdinalsPerSubset
			}
			p.grant.FirstOrdinal, taken[next] = new(next), true
		}
		first := *p.grant.FirstOrdinal
		p.spec.Ordinals = &appsv1beta1.SubsetOrdinals{Start: first, End: new(first + fleetv1alpha1.OrdinalsPerSubset - 1)}
	}
}

package uniteddeployment

import (
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// number gives the parts of an object whose pods have ordinals a range each, so that no two pods of the fleet have the same: the
// lowest that no row names. A row names a part's range for as long as the part is in it, and a part stays in it until the
// cluster reports no pod of it; also when the object has another kind of template meanwhile. So a range is not used again
// while any row reports a pod in it, and a move or a scale numbers no pod anew.
func number(o *observed, parts []part) {
	if o.ud.Spec.Template.AdvancedStatefulSetTemplate == nil {
		for i := range parts {
			parts[i].spec.Ordinals = nil
		}
		return
	}
	taken := map[int32]bool{}
	for _, row := range o.rows {
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

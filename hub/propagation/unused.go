package propagation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/propagation/override"
)

// unused adds notes about overrides that name something that is not selected. That is most likely a typo. It may also be meant for a future
// object or cluster, so it prevents nothing.
func (p *planned) unused(o *observed) {
	if len(o.objects) == 0 || o.excess > 0 {
		return
	}
	for _, f := range o.lost {
		if f.behind || f.wait.Reason != "" {
			return // An override may be for this object.
		}
	}
	reach := o.reach()
	for i, is := range o.spec.Overrides {
		note := func(cluster, why string) {
			p.notes = append(p.notes, problem{
				Cluster: cluster, Kind: is.Kind, Name: is.Name, Reason: reasonUnused, Message: fmt.Sprintf("overrides[%d] changes nothing %s", i, why),
			})
		}
		if o.overridesNothing(is) {
			note("", fmt.Sprintf("anywhere: no %s is selected", strings.TrimSpace(cmp.Or(is.Kind, "object")+" "+is.Name)))
			continue
		}
		for _, cluster := range is.Clusters {
			if !slices.Contains(reach, cluster) {
				note(cluster, "there: the cluster is not selected")
			}
		}
		if is.ClusterSelector != nil && len(reach) > 0 && !o.overridesSome(is, reach) {
			note("", "anywhere: no selected cluster has the labels of its clusterSelector")
		}
	}
}

// overridesNothing reports whether an override applies to no selected object. It returns false while a kind that it may apply to can't be
// read, and if it applies to a dependency that is missing: the override may exist before the dependency does.
func (o *observed) overridesNothing(is fleetv1alpha1.PropagationOverride) bool {
	if slices.ContainsFunc(o.unread, func(why problem) bool { return why.Kind == is.Kind || is.Kind == "" }) {
		return false
	}
	if slices.ContainsFunc(o.deps.problems, func(why problem) bool {
		return override.Concerns(&is, why.Kind, why.Name)
	}) {
		return false
	}
	return !slices.ContainsFunc(o.objects, func(one object) bool { return override.Concerns(&is, one.Kind, one.Name) })
}

// overridesSome reports whether the selector of an override matches one of the clusters.
func (o *observed) overridesSome(is fleetv1alpha1.PropagationOverride, clusters []string) bool {
	by := selectorOf(is.ClusterSelector)
	return slices.ContainsFunc(clusters, func(name string) bool {
		mc := o.Clusters[name]
		return mc != nil && by.Matches(labels.Set(mc.Labels))
	})
}

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

// addUnusedOverrides adds notes about overrides that name something that is not selected. That is most likely a typo. It may also be meant
// for a future object or cluster, so it prevents nothing.
func (p *planned) addUnusedOverrides(o *observed) {
	if len(o.objects) == 0 || o.excess > 0 {
		return
	}
	for _, f := range o.lost {
		if f.behind || f.wait.Reason != "" {
			return // An override may be for this object.
		}
	}
	selectedClusters := o.selectedClusters()
	for i, entry := range o.spec.Overrides {
		note := func(cluster, why string) {
			p.notes = append(p.notes, problem{
				Cluster: cluster, Kind: entry.Kind, Name: entry.Name, Reason: reasonUnused, Message: fmt.Sprintf("overrides[%d] has no effect: %s", i, why),
			})
		}
		if o.overridesNothing(entry) {
			note("", fmt.Sprintf("no %s is selected", strings.TrimSpace(cmp.Or(entry.Kind, "object")+" "+entry.Name)))
			continue
		}
		for _, cluster := range entry.Clusters {
			if !slices.Contains(selectedClusters, cluster) {
				note(cluster, "the cluster is not selected")
			}
		}
		if entry.ClusterSelector != nil && len(selectedClusters) > 0 && !o.matchesSomeCluster(entry, selectedClusters) {
			note("", "no selected cluster matches its clusterSelector")
		}
	}
}

// overridesNothing reports whether an override applies to no selected object. It returns false while a kind that it may apply to can't be
// read, and if it applies to a dependency that is missing: the override may exist before the dependency does.
func (o *observed) overridesNothing(entry fleetv1alpha1.PropagationOverride) bool {
	if slices.ContainsFunc(o.unreadable, func(u unreadableKind) bool { return u.kind.Kind == entry.Kind || entry.Kind == "" }) {
		return false
	}
	if slices.ContainsFunc(o.deps.problems, func(why problem) bool {
		return override.Concerns(&entry, why.Kind, why.Name)
	}) {
		return false
	}
	return !slices.ContainsFunc(o.objects, func(one object) bool { return override.Concerns(&entry, one.Kind, one.Name) })
}

// matchesSomeCluster reports whether the selector of an override matches one of the clusters.
func (o *observed) matchesSomeCluster(entry fleetv1alpha1.PropagationOverride, clusters []string) bool {
	by := selectorOf(entry.ClusterSelector)
	return slices.ContainsFunc(clusters, func(name string) bool {
		mc := o.Clusters[name]
		return mc != nil && by.Matches(labels.Set(mc.Labels))
	})
}

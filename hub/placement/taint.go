package placement

import (
	"fmt"
	"time"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// taint adjusts the availability of a ready cluster for the strongest of its taints that the object doesn't tolerate.
func (f Fleet) taint(mc *fleetv1alpha1.MemberCluster, a Availability) Availability {
	t := f.strongest(mc)
	if t == nil {
		return a
	}
	placed, left := f.Rows[mc.Name] != nil, f.toleratedFor(t)
	switch {
	case t.Effect == fleetv1alpha1.NoNewPlace && placed:
		return a
	case t.Effect == fleetv1alpha1.Evict && placed && left == 0:
		a.State = allot.Draining
		a.Message = fmt.Sprintf("cluster %s has taint %s: the object's replicas there move to other clusters", mc.Name, t)
	default:
		a.State = allot.Closed
		a.Message = fmt.Sprintf("cluster %s has taint %s: it gets no more replicas", mc.Name, t)
	}
	a.Message += "; tolerate the taint, or name another cluster"
	a.Reason = ReasonTainted
	return a
}

// Taint returns the strongest taint of a cluster that the object doesn't tolerate forever, or nil.
func (f Fleet) Taint(cluster string) *fleetv1alpha1.ClusterTaint {
	mc := f.Clusters[cluster]
	if mc == nil {
		return nil
	}
	return f.strongest(mc)
}

// strongest returns the taint with the strongest effect that the object doesn't tolerate forever, or nil. Of several taints that evict, it is
// the one that evicts first. Otherwise the first in the list wins.
func (f Fleet) strongest(mc *fleetv1alpha1.MemberCluster) *fleetv1alpha1.ClusterTaint {
	var found *fleetv1alpha1.ClusterTaint
	for i := range mc.Spec.Taints {
		t := &mc.Spec.Taints[i]
		if f.tolerates(t) {
			continue
		}
		if found == nil || t.Effect.Strength() > found.Effect.Strength() || t.Effect == found.Effect && f.toleratedFor(t) < f.toleratedFor(found) {
			found = t
		}
	}
	return found
}

// tolerates reports whether the object tolerates a taint forever.
func (f Fleet) tolerates(t *fleetv1alpha1.ClusterTaint) bool {
	for i := range f.Tolerations {
		if by := &f.Tolerations[i]; by.TolerationSeconds == nil && tolerates(by, t) {
			return true
		}
	}
	return false
}

// tolerates reports whether a toleration matches a taint, regardless of its tolerationSeconds.
func tolerates(by *fleetv1alpha1.ClusterToleration, t *fleetv1alpha1.ClusterTaint) bool {
	switch {
	case by.Effect != "" && by.Effect != t.Effect, by.Key != "" && by.Key != t.Key:
		return false
	case by.Operator == fleetv1alpha1.TolerationExists:
		return true
	default:
		return by.Key != "" && by.Value == t.Value
	}
}

// toleratedFor returns how much longer replicas stay despite a taint that evicts them. A taint without timeAdded counts as old.
func (f Fleet) toleratedFor(t *fleetv1alpha1.ClusterTaint) time.Duration {
	var longest time.Duration
	for i := range f.Tolerations {
		by := &f.Tolerations[i]
		if by.TolerationSeconds == nil || t.TimeAdded == nil || !tolerates(by, t) {
			continue
		}
		end := t.TimeAdded.Add(timing.Seconds(*by.TolerationSeconds))
		longest = max(longest, end.Sub(f.Now))
	}
	return longest
}

// EvictsIn returns how soon a taint will evict replicas that it doesn't evict yet, or 0 if there is none. No watch reports that time.
func (f Fleet) EvictsIn() time.Duration {
	var first time.Duration
	for place := range f.Rows {
		mc := f.Clusters[row.ClusterOf(place)]
		if mc == nil {
			continue
		}
		if t := f.strongest(mc); t != nil && t.Effect == fleetv1alpha1.Evict {
			if left := f.toleratedFor(t); left > 0 && (first == 0 || left < first) {
				first = left
			}
		}
	}
	return first
}

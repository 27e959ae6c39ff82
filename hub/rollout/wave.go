package rollout

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// Wave is a group of clusters that are updated before the next group.
type Wave struct {
	// Pods and Clusters are as in Limits.
	Pods, Clusters int
	// Soak is how long the clusters of this wave and the earlier ones must have been healthy before the next wave begins.
	Soak time.Duration
	// Approval is true if somebody must approve before the next wave begins, and Approved if somebody has.
	Approval, Approved bool
}

// Gates returns how long a wave soaks, and whether somebody must approve it. own are the wave's gates, and common the gates of all waves. Of two
// times, the longer one counts.
func Gates(own, common []pods.RolloutGate) (soak time.Duration, approval bool) {
	for _, gate := range slices.Concat(own, common) {
		switch gate.Type {
		case pods.SoakGate:
			soak = max(soak, time.Duration(ptr.Deref(gate.Seconds, 0))*time.Second)
		case pods.ApprovalGate:
			approval = true
		}
	}
	return soak, approval
}

// Phase is what a wave does.
type Phase int

// The phases of a wave, in their order.
const (
	// Pending waits for earlier waves.
	Pending Phase = iota
	// Updating has pods to update, or clusters that are not healthy.
	Updating
	// Soaking is healthy, but not for long enough.
	Soaking
	// AwaitingApproval is healthy, and not approved.
	AwaitingApproval
	// Done has let the next wave begin, or is the last one and healthy.
	Done
)

// Progress says how far the waves are.
type Progress struct {
	// Open is the index of the last wave that has begun, and Phase what it does.
	Open  int
	Phase Phase
	// Soaked is how long the clusters of the waves that have begun have been healthy, at most the wave's Soak.
	Soaked time.Duration
}

// Advance lets waves begin whose turn has come. open is the index of the last wave that has begun, and soaked is how long its clusters and those
// of earlier waves have been healthy so far, if they still are. There must be at least one wave.
//
// A wave without clusters has gates, too: it may have lost them since it began.
func Advance(waves []Wave, open int, soaked time.Duration, skipStale bool, parts []Part) Progress {
	p := Progress{Open: open, Soaked: soaked}
	for {
		w, last := waves[p.Open], p.Open == len(waves)-1
		switch {
		case !healthy(parts, p.Open, w.Pods, skipStale):
			p.Phase, p.Soaked = Updating, 0
			return p
		case last:
			p.Phase, p.Soaked = Done, 0
			return p
		case p.Soaked < w.Soak:
			p.Phase = Soaking
			return p
		case w.Approval && !w.Approved:
			p.Phase, p.Soaked = AwaitingApproval, w.Soak
			return p
		}
		p.Open, p.Soaked = p.Open+1, 0
	}
}

// healthy reports whether the clusters of all waves up to the one with index open have applied the new revision, and all of their pods are
// updated and available. Of the last of these waves, so many pods are enough, unless that is 0: the others may be unavailable because of the
// old revision. Of clusters that don't answer, nothing is known. They are left out with skipStale, as long as any pod of the others is updated.
func healthy(parts []Part, open, pods int, skipStale bool) bool {
	replicas, updated, inWave, updatedInWave := 0, 0, 0, 0
	for _, p := range parts {
		if p.Wave > open || p.Replicas == 0 {
			continue
		}
		if p.Leaving {
			if p.Wave == open && p.Current && p.Acked && !p.Dark { // Its pods use up the limit of the wave.
				updated, updatedInWave = updated+p.UpdatedAvailable, updatedInWave+p.UpdatedAvailable
			}
			continue
		}
		replicas += p.Replicas
		if p.Dark && skipStale {
			continue
		}
		limited := p.Wave == open && pods > 0
		switch {
		case p.Dark, !p.Acked, !limited && (!p.Current || p.UpdatedAvailable < p.Replicas):
			return false
		}
		if limited {
			inWave += p.Replicas
		}
		if !p.Current {
			continue
		}
		if p.UpdatedAvailable < min(p.Updated, p.Replicas) {
			return false
		}
		updated += p.UpdatedAvailable
		if limited {
			updatedInWave += p.UpdatedAvailable
		}
	}
	return updatedInWave >= min(pods, inWave) && (updated > 0 || replicas == 0)
}

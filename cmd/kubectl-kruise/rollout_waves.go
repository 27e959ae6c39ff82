package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/rollout"
)

// wave is the progress of one wave of a rollout over clusters.
type wave struct {
	name string
	// phase is what the wave does, in words, and done is true if the next one has begun.
	phase string
	done  bool
	// updated is how many of the pods are updated and available. limit is how many of them are updated before the next wave begins; 0 means
	// all.
	clusters, pods, updated, limit int32
}

// wavesOf returns the waves in their order.
func wavesOf(plan *pods.RolloutPlan, s *pods.RolloutStatus) []wave {
	out := make([]wave, len(s.Waves))
	for i, w := range s.Waves {
		spec := specOf(plan, w.Name)
		out[i] = wave{
			name: w.Name, done: w.Phase == pods.WaveDone, clusters: w.Clusters, pods: w.Pods, updated: w.Updated,
		}
		if n := ptr.Deref(spec.Pods, 0); n < w.Pods && !out[i].done {
			out[i].limit = n
		}
		switch w.Phase {
		case pods.WavePending:
			out[i].phase = "pending"
		case pods.WaveUpdating:
			out[i].phase = "updating"
		case pods.WaveSoaking:
			out[i].phase = "soaking"
			if needed := soakOf(plan, spec); needed > 0 && w.Name == s.Wave {
				out[i].phase = fmt.Sprintf("soaking %d s of %d s", min(s.SoakedSeconds, needed), needed)
			}
		case pods.WaveAwaitingApproval:
			out[i].phase = "awaiting approval"
		case pods.WaveDone:
			out[i].phase = "done"
		default: // A newer hub may have more.
			out[i].phase = cmp.Or(strings.ToLower(string(w.Phase)), "unknown")
		}
	}
	return out
}

// specOf returns the spec of a wave. Rest, and a wave that was removed, have none.
func specOf(plan *pods.RolloutPlan, name string) pods.RolloutWave {
	if plan != nil {
		if i := slices.IndexFunc(plan.Waves, func(w pods.RolloutWave) bool { return w.Name == name }); i >= 0 {
			return plan.Waves[i]
		}
	}
	return pods.RolloutWave{Name: name}
}

// soakOf returns for how many seconds a wave must be healthy.
func soakOf(plan *pods.RolloutPlan, w pods.RolloutWave) int32 {
	soak, _ := rollout.Gates(w.Gates, ptr.Deref(plan, pods.RolloutPlan{}).Gates)
	return int32(soak.Seconds())
}

const (
	// longPhase is how much room is left for the phase of a wave, so that bars keep their size when it changes.
	longPhase = len("soaking 1000 s of 3600 s")
	// fewCells is the width below which the bar of a wave is left out.
	fewCells = 5
)

// listWaves returns a line for each wave. To fit in width, the bars are shorter than usual, or left out; 0 means any width.
func listWaves(waves []wave, width int) []string {
	column, size := 0, cells
	for _, w := range waves {
		column = max(column, len(w.name))
	}
	for _, w := range waves {
		needed := len(w.line(column, cells)) + max(longPhase-len(w.phase), 0)
		if over := needed - width; width > 0 && over > 0 {
			size = min(size, cells-over)
		}
	}
	out := make([]string, len(waves))
	for i, w := range waves {
		out[i] = w.line(column, size)
	}
	return out
}

// line returns the line of a wave, with the name in a column.
func (w wave) line(column, cells int) string {
	return fmt.Sprintf("  wave %-*s %s%s", column, w.name, w.gauge(cells), w.text())
}

func (w wave) gauge(cells int) string {
	if cells < fewCells {
		return ""
	}
	updated := cells
	if w.pods > 0 {
		updated = int(min(max(w.updated, 0), w.pods)) * cells / int(w.pods)
	}
	return "[" + strings.Repeat("=", updated) + strings.Repeat(".", cells-updated) + "] "
}

func (w wave) text() string {
	clusters := fmt.Sprintf("%d clusters", w.clusters)
	if w.clusters == 1 {
		clusters = "1 cluster"
	}
	limit := ""
	if w.limit > 0 {
		limit = fmt.Sprintf(" (%d before the next wave)", w.limit)
	}
	return fmt.Sprintf("%d/%d updated%s, %s, %s", w.updated, w.pods, limit, clusters, w.phase)
}

// listSome returns the lines of the waves, or at most room of them: then the first wave that is not done, the others round it, and how many
// more there are. There are at least two lines.
func listSome(waves []wave, width, room int) []string {
	out := listWaves(waves, width)
	if room = max(room, 2); len(out) <= room {
		return out
	}
	room--
	now := max(slices.IndexFunc(waves, func(w wave) bool { return !w.done }), 0)
	first := max(min(now-room/2, len(out)-room), 0)
	return append(slices.Clone(out[first:first+room]), fmt.Sprintf("  waves not shown: %d", len(out)-room))
}

package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/flotilla-io/flotilla/hub/rollout"
)

// rogues are planners with one fault each.
func rogues() map[string]planner {
	next := rollout.Next
	limits := func(change func(l *rollout.Limits)) planner {
		return func(l rollout.Limits, parts []rollout.Part) rollout.Result {
			change(&l)
			return next(l, parts)
		}
	}
	input := func(change func(p *rollout.Part)) planner {
		return func(l rollout.Limits, parts []rollout.Part) rollout.Result {
			parts = slices.Clone(parts)
			for i := range parts {
				change(&parts[i])
			}
			return next(l, parts)
		}
	}
	output := func(change func(p rollout.Part, s *rollout.Step)) planner {
		return func(l rollout.Limits, parts []rollout.Part) rollout.Result {
			r := next(l, parts)
			for i, p := range parts {
				change(p, &r.Steps[i])
			}
			return r
		}
	}
	return map[string]planner{
		"it takes grants for acknowledged":          input(func(p *rollout.Part) { p.Acked = true }),
		"it doesn't notice that a cluster is dark":  input(func(p *rollout.Part) { p.Dark = false }),
		"it believes that all pods are available":   input(func(p *rollout.Part) { p.Available, p.UpdatedAvailable = p.Replicas, p.Updated }),
		"it believes that members know their size":  input(func(p *rollout.Part) { p.Sent = p.Replicas }),
		"it believes that all pods are updated":     input(func(p *rollout.Part) { p.Updated = p.Pods }),
		"it believes that no pod is updated":        input(func(p *rollout.Part) { p.Updated, p.UpdatedAvailable = 0, 0 }),
		"it takes every cluster for a current one":  input(func(p *rollout.Part) { p.Current = !p.New }),
		"it takes old grants for none":              input(func(p *rollout.Part) { p.Grant = rollout.Grant{Bounded: true} }),
		"it doesn't know what can't be partitioned": input(func(p *rollout.Part) { p.Whole = false }),
		"the budget is larger by one":               limits(func(l *rollout.Limits) { l.MaxUnavailable++ }),
		"the budget is spent twice":                 limits(func(l *rollout.Limits) { l.MaxUnavailable *= 2 }),
		"there is no partition":                     limits(func(l *rollout.Limits) { l.Partition = 0 }),
		"the partition is smaller by one":           limits(func(l *rollout.Limits) { l.Partition = max(l.Partition-1, 0) }),
		"there is no pause":                         limits(func(l *rollout.Limits) { l.Paused = false }),
		"every rollout is the first one":            limits(func(l *rollout.Limits) { l.First = true }),
		"the next wave begins too early":            limits(func(l *rollout.Limits) { l.Open++ }),
		"a wave doesn't limit its pods":             limits(func(l *rollout.Limits) { l.Pods = 0 }),
		"a wave doesn't limit its clusters":         limits(func(l *rollout.Limits) { l.Clusters = 0 }),
		"it stores no bound of unavailable pods":    output(func(_ rollout.Part, s *rollout.Step) { s.Grant.UnavailableUpper = 0 }),
		"it stores no bound of updated pods":        output(func(_ rollout.Part, s *rollout.Step) { s.Grant.UpdatedUpper = 0 }),
		"it lets the template decide":               output(func(_ rollout.Part, s *rollout.Step) { s.Grant.MaxUnavailable = nil }),
		"it updates all clusters at once":           output(func(_ rollout.Part, s *rollout.Step) { s.Current = true }),
		"it stays at the content of before":         output(func(p rollout.Part, s *rollout.Step) { s.Current = p.Current }),
		"it grants one pod more": output(func(_ rollout.Part, s *rollout.Step) {
			if s.Grant.MaxUnavailable != nil {
				*s.Grant.MaxUnavailable++
			}
		}),
		"it takes nothing back": output(func(p rollout.Part, s *rollout.Step) {
			if was := p.Grant.MaxUnavailable; was != nil && s.Grant.MaxUnavailable != nil && *s.Grant.MaxUnavailable < *was {
				s.Grant.MaxUnavailable = was
			}
		}),
		"it raises no partition": output(func(p rollout.Part, s *rollout.Step) {
			if p.Current {
				s.Grant.Partition = min(s.Grant.Partition, p.Grant.Partition)
			}
		}),
		"it is never content": output(func(p rollout.Part, s *rollout.Step) {
			if was := p.Grant.MaxUnavailable; was != nil && p.Acked && p.Updated == p.Replicas && !p.Dark {
				more := *was + 1
				s.Grant.MaxUnavailable = &more
			}
		}),
	}
}

// rogueGates decide wrongly which waves have begun.
func rogueGates() map[string]gatekeeper {
	advance := rollout.Advance
	of := func(change func(w *rollout.Wave)) gatekeeper {
		return func(waves []rollout.Wave, open int, soaked time.Duration, skipStale bool, parts []rollout.Part) rollout.Progress {
			waves = slices.Clone(waves)
			for i := range waves {
				change(&waves[i])
			}
			return advance(waves, open, soaked, skipStale, parts)
		}
	}
	input := func(change func(p *rollout.Part)) gatekeeper {
		return func(waves []rollout.Wave, open int, soaked time.Duration, skipStale bool, parts []rollout.Part) rollout.Progress {
			parts = slices.Clone(parts)
			for i := range parts {
				change(&parts[i])
			}
			return advance(waves, open, soaked, skipStale, parts)
		}
	}
	return map[string]gatekeeper{
		"nobody needs to approve":                   of(func(w *rollout.Wave) { w.Approval = false }),
		"no wave soaks":                             of(func(w *rollout.Wave) { w.Soak = 0 }),
		"a wave soaks for too short a time":         of(func(w *rollout.Wave) { w.Soak /= 2 }),
		"it takes grants for acknowledged":          input(func(p *rollout.Part) { p.Acked = true }),
		"it doesn't notice that a cluster is dark":  input(func(p *rollout.Part) { p.Dark = false }),
		"it believes that all pods are available":   input(func(p *rollout.Part) { p.UpdatedAvailable = p.Updated }),
		"it takes pods of any revision for updated": input(func(p *rollout.Part) { p.Current = true }),
		"it ignores clusters that don't answer": func(waves []rollout.Wave, open int, soaked time.Duration, _ bool, parts []rollout.Part) rollout.Progress {
			return advance(waves, open, soaked, true, parts)
		},
		"it looks at the last wave only": func(
			waves []rollout.Wave, open int, soaked time.Duration, skipStale bool, parts []rollout.Part,
		) rollout.Progress {
			parts = slices.DeleteFunc(slices.Clone(parts), func(p rollout.Part) bool { return p.Wave < open })
			return advance(waves, open, soaked, skipStale, parts)
		},
		"it counts a time that was interrupted": func(
			waves []rollout.Wave, open int, soaked time.Duration, skipStale bool, parts []rollout.Part,
		) rollout.Progress {
			p := advance(waves, open, soaked, skipStale, parts)
			if p.Phase == rollout.Updating && p.Open == open {
				p.Soaked = soaked
			}
			return p
		},
	}
}

func TestI23RoguesAreFound(t *testing.T) {
	t.Parallel()
	for name, rogue := range rogueGates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(gate) {
				w := newWorld(seed, anything(), rollout.Next)
				w.gates.keeper = rogue
				if _, broke := w.run(); broke != "" {
					t.Logf("seed %d: %s", seed, broke)
					return
				}
			}
			t.Error("no schedule finds it")
		})
	}
}

// A wrong planner must fail, or the simulation proves nothing.
func TestI22RoguesAreFound(t *testing.T) {
	t.Parallel()
	for name, rogue := range rogues() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(gate) {
				if _, broke := newWorld(seed, anything(), rogue).run(); broke != "" {
					t.Logf("seed %d: %s", seed, broke)
					return
				}
			}
			t.Error("no schedule finds it")
		})
	}
}

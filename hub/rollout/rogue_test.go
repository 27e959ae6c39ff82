package rollout_test

import (
	"slices"
	"testing"

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

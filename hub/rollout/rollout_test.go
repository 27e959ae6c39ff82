package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/rollout"
)

// settled returns a part at the previous revision, with all pods available.
func settled(cluster string, replicas int) rollout.Part {
	return rollout.Part{
		Key: allot.Key{Subset: "all", Cluster: cluster}, Replicas: replicas, Sent: replicas, Upper: replicas,
		Grant: rollout.Grant{Bounded: true, UpdatedUpper: replicas}, Acked: true,
		Pods: replicas, Available: replicas, Updated: replicas, UpdatedAvailable: replicas,
	}
}

// updating returns a part with the new content that has acknowledged its grant.
func updating(cluster string, replicas, partition, most, updated int) rollout.Part {
	p := settled(cluster, replicas)
	p.Current, p.Updated, p.UpdatedAvailable = true, updated, updated
	p.Grant = rollout.Grant{
		Partition: partition, MaxUnavailable: &most, Bounded: true, UnavailableUpper: most, UpdatedUpper: replicas - partition,
	}
	return p
}

// with changes a part.
func with(p rollout.Part, changes ...func(p *rollout.Part)) rollout.Part {
	for _, change := range changes {
		change(&p)
	}
	return p
}

func dark(p *rollout.Part)      { p.Dark = true }
func unacked(p *rollout.Part)   { p.Acked = false }
func whole(p *rollout.Part)     { p.Whole = true }
func leaving(p *rollout.Part)   { p.Leaving = true }
func subset2(p *rollout.Part)   { p.Subset = "more" }
func withdrawn(p *rollout.Part) { p.Replicas = 0 }

// unavailable makes pods unavailable, the updated ones first.
func unavailable(n int) func(p *rollout.Part) {
	return func(p *rollout.Part) {
		p.Available -= n
		if p.Current {
			p.UpdatedAvailable = max(p.UpdatedAvailable-n, 0)
		} else {
			p.UpdatedAvailable -= n
		}
	}
}

// broken makes old pods unavailable.
func broken(n int) func(p *rollout.Part) { return func(p *rollout.Part) { p.Available -= n } }

// resized grants another number of replicas.
func resized(n int) func(p *rollout.Part) {
	return func(p *rollout.Part) { p.Replicas, p.Upper = n, max(n, p.Upper) }
}

// joining returns a part of a cluster that has nothing yet.
func joining(cluster string, replicas int) rollout.Part {
	return rollout.Part{Key: allot.Key{Subset: "all", Cluster: cluster}, Replicas: replicas, Upper: replicas, New: true, Acked: true}
}

// grants formats steps in one line: "new 4:2" is the new content with a partition of 4 and a maxUnavailable of 2.
func grants(steps []rollout.Step) string {
	var words []string
	for _, s := range steps {
		content, most := "old", "-"
		if s.Current {
			content = "new"
		}
		if s.Grant.MaxUnavailable != nil {
			most = strconv.Itoa(*s.Grant.MaxUnavailable)
		}
		words = append(words, fmt.Sprintf("%s %d:%s", content, s.Grant.Partition, most))
	}
	return strings.Join(words, ", ")
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		limits rollout.Limits
		parts  []rollout.Part
		want   string
	}{
		{
			"old pods don't take the place of updated ones that a scale-in may remove",
			rollout.Limits{Desired: 2, MaxUnavailable: 1, Partition: 2},
			[]rollout.Part{with(updating("a", 5, 4, 1, 1), resized(2))},
			"new 1:0",
		}, {
			"one cluster gets the whole budget, and the others keep their content",
			rollout.Limits{Desired: 18, MaxUnavailable: 4},
			[]rollout.Part{settled("a", 6), settled("b", 6), settled("c", 6)},
			"new 0:4, old 0:-, old 0:-",
		}, {
			"what a small cluster can't use goes to the next one",
			rollout.Limits{Desired: 8, MaxUnavailable: 4},
			[]rollout.Part{settled("a", 6), settled("b", 2)},
			"new 0:2, new 0:2",
		}, {
			"a cluster that has begun comes first",
			rollout.Limits{Desired: 12, MaxUnavailable: 2},
			[]rollout.Part{settled("a", 2), updating("b", 10, 0, 0, 3)},
			"old 0:-, new 0:2",
		}, {
			"pods that are unavailable use up the budget",
			rollout.Limits{Desired: 12, MaxUnavailable: 2},
			[]rollout.Part{with(settled("a", 6), broken(2)), settled("b", 6)},
			"new 0:2, old 0:-",
		}, {
			"clusters whose own pods are unavailable are mended, even if these are more than the budget",
			rollout.Limits{Desired: 12, MaxUnavailable: 2},
			[]rollout.Part{with(settled("a", 6), broken(6)), with(settled("b", 6), broken(6))},
			"new 0:2, old 0:-",
		}, {
			"replicas that no cluster has been granted count as unavailable",
			rollout.Limits{Desired: 8, MaxUnavailable: 2},
			[]rollout.Part{settled("a", 6)},
			"old 0:-",
		}, {
			"all pods of a cluster that doesn't answer count as unavailable",
			rollout.Limits{Desired: 12, MaxUnavailable: 6},
			[]rollout.Part{with(settled("a", 6), dark), settled("b", 6)},
			"old 0:-, old 0:-",
		}, {
			"with SkipStale they don't, and the cluster is left behind",
			rollout.Limits{Desired: 12, MaxUnavailable: 6, SkipStale: true},
			[]rollout.Part{with(settled("a", 6), dark), settled("b", 6)},
			"old 0:-, new 0:6",
		}, {
			"with SkipStale what the cluster may still update counts",
			rollout.Limits{Desired: 12, MaxUnavailable: 6, SkipStale: true},
			[]rollout.Part{with(updating("a", 6, 0, 4, 0), dark), settled("b", 6)},
			"new 0:4, new 0:2",
		}, {
			"what was granted earlier counts until the grant is acknowledged",
			rollout.Limits{Desired: 12, MaxUnavailable: 4},
			[]rollout.Part{with(updating("a", 6, 0, 0, 0), unacked, func(p *rollout.Part) { p.Grant.UnavailableUpper = 3 }), settled("b", 6)},
			"new 0:0, new 0:1",
		}, {
			"replicas that a member doesn't know yet may be missing besides those that it updates",
			rollout.Limits{Desired: 15, MaxUnavailable: 5},
			[]rollout.Part{with(updating("a", 6, 0, 2, 0), resized(9)), settled("b", 6)},
			"new 0:5, old 0:-",
		}, {
			"a scale-in in the middle of an update leaves fewer pods that may be unavailable",
			rollout.Limits{Desired: 6, MaxUnavailable: 2},
			[]rollout.Part{with(updating("a", 6, 0, 2, 2), unavailable(2), resized(4))},
			"new 0:0",
		}, {
			"a scale-in may remove updated pods, so that old ones are updated in their place",
			rollout.Limits{Desired: 10, MaxUnavailable: 2},
			[]rollout.Part{with(updating("a", 6, 2, 2, 3), resized(4)), settled("b", 6)},
			"new 0:2, old 0:-",
		}, {
			"a scale-in stops an update that is complete up to its partition",
			rollout.Limits{Desired: 10, MaxUnavailable: 2, Partition: 6},
			[]rollout.Part{with(updating("a", 6, 2, 2, 4), unacked, resized(4), func(p *rollout.Part) { p.Grant.UnavailableUpper = 0 }), settled("b", 6)},
			"new 0:0, old 0:-",
		}, {
			"the partition keeps pods at the old revision",
			rollout.Limits{Desired: 12, MaxUnavailable: 12, Partition: 8},
			[]rollout.Part{settled("a", 6), settled("b", 6)},
			"new 2:4, old 0:-",
		}, {
			"a workload that is updated as a whole waits until the partition allows all of it",
			rollout.Limits{Desired: 12, MaxUnavailable: 12, Partition: 8},
			[]rollout.Part{with(settled("a", 6), whole), settled("b", 6)},
			"old 0:-, new 2:4",
		}, {
			"a workload that is updated as a whole stays paused if the partition was raised meanwhile",
			rollout.Limits{Desired: 6, MaxUnavailable: 3, Partition: 3},
			[]rollout.Part{with(updating("a", 6, 0, 0, 0), whole)},
			"new 0:0",
		}, {
			"a partition that is raised is taken back, as far as pods are not updated yet",
			rollout.Limits{Desired: 6, MaxUnavailable: 3, Partition: 3},
			[]rollout.Part{updating("a", 6, 0, 3, 2)},
			"new 3:3",
		}, {
			"a partition that is higher than the number of pods updates none",
			rollout.Limits{Desired: 6, MaxUnavailable: 3, Partition: 900},
			[]rollout.Part{settled("a", 6)},
			"old 0:-",
		}, {
			"new replicas stay at the old revision if the partition asks for that",
			rollout.Limits{Desired: 10, MaxUnavailable: 3, Partition: 4},
			[]rollout.Part{with(updating("a", 6, 0, 1, 6), resized(10))},
			"new 4:1",
		}, {
			"a pause stops clusters that still update, and no others are written",
			rollout.Limits{Desired: 18, MaxUnavailable: 4, Paused: true},
			[]rollout.Part{updating("a", 6, 0, 4, 2), updating("b", 6, 0, 4, 6), settled("c", 6)},
			"new 0:0, new 0:4, old 0:-",
		}, {
			"a cluster in the middle of an earlier revision stops",
			rollout.Limits{Desired: 12, MaxUnavailable: 3},
			[]rollout.Part{
				with(updating("a", 6, 0, 2, 2), func(p *rollout.Part) { p.Current = false }),
				with(updating("b", 6, 0, 2, 1), unavailable(1)),
			},
			"old 0:0, new 0:2",
		}, {
			"a budget that is lowered is taken back",
			rollout.Limits{Desired: 12, MaxUnavailable: 3},
			[]rollout.Part{updating("a", 6, 0, 3, 0), updating("b", 6, 0, 3, 0)},
			"new 0:3, new 0:0",
		}, {
			"a template that decided by itself is limited",
			rollout.Limits{Desired: 6, MaxUnavailable: 2},
			[]rollout.Part{with(updating("a", 6, 0, 0, 1), func(p *rollout.Part) { p.Grant = rollout.Grant{} })},
			"new 0:2",
		}, {
			"a cluster that joins gets the new revision, and costs no budget",
			rollout.Limits{Desired: 9, MaxUnavailable: 0},
			[]rollout.Part{joining("a", 3), settled("b", 6)},
			"new 0:-, old 0:-",
		}, {
			"a cluster that joins gets the previous revision if the partition doesn't allow the new one",
			rollout.Limits{Desired: 9, MaxUnavailable: 0, Partition: 8},
			[]rollout.Part{joining("a", 3), settled("b", 6)},
			"old 0:-, old 0:-",
		}, {
			"the first revision goes to all clusters at once",
			rollout.Limits{Desired: 9, First: true, Partition: 9},
			[]rollout.Part{joining("a", 3), joining("b", 6)},
			"new 0:-, new 0:-",
		}, {
			"subsets of a cluster share its content, and one whose turn has not come keeps its pods",
			rollout.Limits{Desired: 12, MaxUnavailable: 2},
			[]rollout.Part{settled("a", 6), with(settled("a", 6), subset2)},
			"new 0:2, new 6:0",
		}, {
			"a workload in such a subset that is updated as a whole is paused",
			rollout.Limits{Desired: 12, MaxUnavailable: 2},
			[]rollout.Part{settled("a", 6), with(settled("a", 6), subset2, whole)},
			"new 0:2, new 0:0",
		}, {
			"a subset that is to be emptied is not updated",
			rollout.Limits{Desired: 6, MaxUnavailable: 6},
			[]rollout.Part{with(settled("a", 6), leaving), with(settled("b", 6), leaving, withdrawn)},
			"old 0:-, old 0:-",
		}, {
			"a budget of 0 updates nothing",
			rollout.Limits{Desired: 6},
			[]rollout.Part{settled("a", 6)},
			"old 0:-",
		}, {
			"a budget that is higher than the number of pods updates all",
			rollout.Limits{Desired: 12, MaxUnavailable: 900},
			[]rollout.Part{settled("a", 6), settled("b", 6)},
			"new 0:6, new 0:6",
		}, {
			"I48: a complete rollout changes nothing",
			rollout.Limits{Desired: 12, MaxUnavailable: 4},
			[]rollout.Part{updating("a", 6, 0, 4, 6), updating("b", 6, 0, 2, 6)},
			"new 0:4, new 0:2",
		}, {
			"negative limits count as 0",
			rollout.Limits{Desired: -6, MaxUnavailable: -1, Partition: -1},
			[]rollout.Part{settled("a", 6)},
			"old 0:-",
		}, {
			"a member that reports more updated pods than it has gets no more than the budget",
			rollout.Limits{Desired: 12, MaxUnavailable: 2},
			[]rollout.Part{with(updating("a", 6, 0, 2, 900), unavailable(1)), settled("b", 6)},
			"new 0:2, new 0:1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, grants(rollout.Next(c.limits, c.parts).Steps))
		})
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		limits rollout.Limits
		parts  []rollout.Part
		want   []string
	}{
		{
			"a rollout that is complete waits for nothing",
			rollout.Limits{Desired: 6, MaxUnavailable: 1},
			[]rollout.Part{updating("a", 6, 0, 1, 6)},
			nil,
		}, {
			"a rollout that is complete up to its partition waits for nothing",
			rollout.Limits{Desired: 6, MaxUnavailable: 1, Partition: 2},
			[]rollout.Part{updating("a", 6, 2, 1, 4)},
			nil,
		}, {
			"pods are being updated",
			rollout.Limits{Desired: 6, MaxUnavailable: 2},
			[]rollout.Part{updating("a", 6, 0, 1, 5)},
			[]string{"pods are being updated"},
		}, {
			"the budget is used up",
			rollout.Limits{Desired: 6, MaxUnavailable: 2},
			[]rollout.Part{updating("a", 6, 0, 2, 0)},
			[]string{"the budget is used up: 2 of at most 2 pods are or may become unavailable"},
		}, {
			"some pods are not available",
			rollout.Limits{Desired: 6, MaxUnavailable: 2},
			[]rollout.Part{with(updating("a", 6, 0, 2, 2), unavailable(2))},
			[]string{"some pods are not available: a (2)", "the budget is used up: 2 of at most 2 pods are or may become unavailable"},
		}, {
			"a cluster that doesn't answer holds a rollout",
			rollout.Limits{Desired: 12, MaxUnavailable: 2},
			[]rollout.Part{with(settled("a", 6), dark), settled("b", 6)},
			[]string{
				"some clusters don't answer, so that all of their pods (6) count as unavailable: a",
				"the budget is used up: 6 of at most 2 pods are or may become unavailable",
			},
		}, {
			"a cluster that doesn't answer is left behind",
			rollout.Limits{Desired: 12, MaxUnavailable: 2, SkipStale: true},
			[]rollout.Part{with(settled("a", 6), dark), updating("b", 6, 0, 2, 5)},
			[]string{"some clusters are left behind until they answer: a"},
		}, {
			"paused",
			rollout.Limits{Desired: 6, MaxUnavailable: 2, Paused: true},
			[]rollout.Part{updating("a", 6, 0, 0, 2)},
			[]string{"paused"},
		}, {
			"a pause that some clusters have not acknowledged",
			rollout.Limits{Desired: 6, MaxUnavailable: 2, Paused: true},
			[]rollout.Part{
				with(updating("a", 6, 0, 0, 2), unacked, func(p *rollout.Part) { p.Grant.UnavailableUpper = 2 }),
			},
			[]string{"paused, and some clusters have not acknowledged it: a"},
		}, {
			"a pause that is only just being sent is not acknowledged",
			rollout.Limits{Desired: 6, MaxUnavailable: 2, Paused: true},
			[]rollout.Part{updating("a", 6, 0, 2, 2)},
			[]string{"paused, and some clusters have not acknowledged it: a"},
		}, {
			"a pause that a cluster can't get is not acknowledged",
			rollout.Limits{Desired: 6, MaxUnavailable: 2, Paused: true},
			[]rollout.Part{with(updating("a", 6, 0, 2, 2), dark)},
			[]string{"paused, and some clusters have not acknowledged it: a"},
		}, {
			"at most three clusters are named, each once",
			rollout.Limits{Desired: 30, MaxUnavailable: 20},
			[]rollout.Part{
				with(settled("e", 6), dark), with(settled("d", 6), dark), with(settled("c", 6), dark), with(settled("b", 3), dark),
				with(settled("b", 3), dark, subset2), settled("a", 6),
			},
			[]string{
				"some clusters don't answer, so that all of their pods (24) count as unavailable: b, c, d and 1 more",
				"the budget is used up: 24 of at most 20 pods are or may become unavailable",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, rollout.Next(c.limits, c.parts).Waits)
		})
	}
}

// draw draws the input of Next, with numbers that no member should report.
func draw(t *rapid.T) (rollout.Limits, []rollout.Part) {
	number, count, flag := rapid.IntRange(-2, 12), rapid.IntRange(0, 12), rapid.Bool()
	l := rollout.Limits{
		Desired: rapid.IntRange(-2, 40).Draw(t, "desired"), MaxUnavailable: number.Draw(t, "budget"), Partition: number.Draw(t, "partition"),
		Paused: flag.Draw(t, "paused"), SkipStale: flag.Draw(t, "skip"),
	}
	var parts []rollout.Part
	for i := range rapid.IntRange(0, 5).Draw(t, "clusters") {
		p := rollout.Part{Current: flag.Draw(t, "current"), Acked: flag.Draw(t, "acked"), Dark: flag.Draw(t, "dark"), New: rapid.IntRange(0, 4).Draw(t, "new") == 0}
		p.Current = p.Current && !p.New
		p.Acked = p.Acked || p.New
		for s := range rapid.IntRange(1, 2).Draw(t, "subsets") {
			p.Key = allot.Key{Subset: strconv.Itoa(s), Cluster: strconv.Itoa(i)}
			p.Replicas = count.Draw(t, "replicas")
			p.Sent = count.Draw(t, "sent")
			p.Upper = max(p.Sent, p.Replicas)
			p.Whole, p.Leaving = flag.Draw(t, "whole"), flag.Draw(t, "leaving")
			p.Pods, p.Available, p.Updated, p.UpdatedAvailable = count.Draw(t, "pods"), count.Draw(t, "available"), count.Draw(t, "updated"), count.Draw(t, "both")
			p.Grant = rollout.Grant{
				Partition: number.Draw(t, "kept"), Bounded: flag.Draw(t, "bounded"),
				UnavailableUpper: number.Draw(t, "upper"), UpdatedUpper: number.Draw(t, "new"),
			}
			if flag.Draw(t, "limited") {
				p.Grant.MaxUnavailable = new(count.Draw(t, "most"))
			}
			if p.New {
				p.Sent, p.Grant, p.Pods, p.Available, p.Updated, p.UpdatedAvailable = 0, rollout.Grant{}, 0, 0, 0, 0
			}
			parts = append(parts, p)
		}
	}
	return l, parts
}

// One step of any rollout keeps to its limits, whatever was stored and reported before.
func TestPodsThatAMemberDoesNotHaveAreMissing(t *testing.T) {
	t.Parallel()
	few := with(settled("a", 6), func(p *rollout.Part) { p.Pods = 4 })
	require.Equal(t, 2, rollout.Next(rollout.Limits{Desired: 6, MaxUnavailable: 1}, []rollout.Part{few}).Spent)
	updated := with(updating("a", 6, 0, 2, 6), func(p *rollout.Part) { p.UpdatedAvailable = 5 })
	require.Equal(t, 1, rollout.Next(rollout.Limits{Desired: 6, MaxUnavailable: 1}, []rollout.Part{updated}).Spent)
}

func TestNextProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l, parts := draw(t)
		before := slices.Clone(parts)
		r := rollout.Next(l, parts)
		require.Equal(t, before, parts, "the input is not changed")
		require.Equal(t, r, rollout.Next(l, parts), "the same input has the same result")

		held := l
		held.Paused = true
		require.LessOrEqual(t, r.Bound, max(rollout.Next(held, parts).Bound, l.MaxUnavailable), "I22a: exposures grow only within the budget")
		require.LessOrEqual(t, len(r.Waits), 3)
		require.Equal(t, r.Left > 0, len(r.Waits) > 0)
		content := map[string]bool{}
		for i, s := range r.Steps {
			p := parts[i]
			require.GreaterOrEqual(t, s.Grant.Partition, 0)
			require.LessOrEqual(t, s.Grant.Partition, max(p.Replicas, p.Grant.Partition), "a partition is part of the replicas")
			require.True(t, s.Grant.MaxUnavailable == nil || *s.Grant.MaxUnavailable >= 0)
			require.True(t, s.Grant.Bounded && s.Grant.UnavailableUpper >= 0)
			require.GreaterOrEqual(t, s.Grant.UpdatedUpper, p.Replicas-s.Grant.Partition, "a bound holds what is granted")
			require.True(t, s.Current || !p.Current, "new content is not taken back")
			known, ok := content[p.Cluster]
			require.True(t, !ok || known == s.Current, "a cluster has one content")
			content[p.Cluster] = s.Current
			if p.Dark && !p.New {
				require.Equal(t, p.Current, s.Current, "the content of a dark cluster is not changed")
			}
		}

		order := rand.New(rand.NewPCG(1, uint64(len(parts)))).Perm(len(parts))
		shuffled := make([]rollout.Part, len(parts))
		for i, at := range order {
			shuffled[i] = parts[at]
		}
		again := rollout.Next(l, shuffled)
		for i, at := range order {
			require.Equal(t, r.Steps[at], again.Steps[i], "the order of the parts changes nothing")
		}
	})
}

// Clusters that never got the new revision are not written because of a rollback.
func TestSimulatedRollbacks(t *testing.T) {
	t.Parallel()
	untouched := 0
	for seed := range uint64(500) {
		w := newWorld(seed, options{}, rollout.Next)
		w.last = 5 + int(seed%60)
		w.schedule[w.last] = []event{rollback}
		w.broken[0], w.partition = false, 0
		w.settled = true
		_, broke := w.run()
		require.Empty(t, broke, "seed %d", seed)
		for i, m := range w.members {
			if !slices.Contains(m.row.contents, 1) {
				untouched++
				require.Equal(t, 1, m.row.generation, "seed %d, member %d", seed, i)
			}
		}
	}
	require.Positive(t, untouched)
}

func BenchmarkNext(b *testing.B) {
	b.Run("clusters=1000/subsets=10", func(b *testing.B) {
		var parts []rollout.Part
		desired := 0
		for i := range 10_000 {
			cluster := i % 1000
			p := settled(fmt.Sprintf("cluster-%04d", cluster), 3+i%3)
			p.Subset = fmt.Sprintf("subset-%d", i/1000)
			if cluster < 300 {
				p = updating(p.Cluster, p.Replicas, 0, 1, p.Replicas-cluster%2)
				p.Subset = fmt.Sprintf("subset-%d", i/1000)
			}
			p.Dark = cluster%50 == 0
			parts = append(parts, p)
			desired += p.Replicas
		}
		l := rollout.Limits{Desired: desired, MaxUnavailable: desired / 5}
		b.ReportAllocs()
		for b.Loop() {
			if r := rollout.Next(l, parts); len(r.Steps) != len(parts) {
				b.Fatal("steps are missing")
			}
		}
	})
}

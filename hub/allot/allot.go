package allot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/pkg/plan/spread"
)

// State says how the replicas of a cluster may change.
type State int

const (
	// Ready means that the cluster can get and lose replicas.
	Ready State = iota
	// Frozen means that the cluster keeps its number, because it doesn't answer.
	Frozen
	// Draining means that the cluster is to be emptied.
	Draining
	// Closed means that the cluster can lose replicas and gets none beyond Current.
	Closed
	// Awaited means that the cluster has never had a replica and takes none yet, because it doesn't exist or has not joined. If its subset has
	// its own Replicas, the cluster's share of them is reserved and is Unallocated in the meantime. Otherwise the other subsets take its share.
	Awaited
)

// Member is one cluster of a subset.
type Member struct {
	// Cluster is the name of the MemberCluster. It appears once in a subset.
	Cluster string
	// Current is the number of replicas that the subset is granted there now; 0 if it is new there.
	Current int
	// Cap is the maximum number of replicas of the whole object that the cluster may run, over all of its subsets; nil means no limit. It
	// limits Ready and Closed clusters. A Frozen cluster may hold more, but then gets no others.
	Cap *int
	// Weight is the weight of the cluster within its subset; nil means 1. With 0 the cluster gets nothing.
	Weight *int
	// State defaults to Ready.
	State State
}

// Subset is one entry of the topology, with the clusters that it stands for: one for `cluster`, any number for `clusterSelector`. Its
// Replicas, Min and Max apply to all of its clusters together.
type Subset struct {
	// Name is unique in the object.
	Name string
	// Replicas, Min and Max are as in spread.Subset. Percentages refer to the object's total.
	Replicas, Min, Max *intstr.IntOrString
	// Members are the subset's clusters, in any order. A subset without members takes no replicas.
	Members []Member
}

// Key identifies a subset in a cluster.
type Key struct{ Subset, Cluster string }

// Target is how many replicas of a subset a cluster should run.
type Target struct {
	Key
	Replicas int
}

// Allocation is the result of Allocate.
type Allocation struct {
	// Targets has one entry for each cluster of each subset, in the order of the subsets and then of the cluster names.
	Targets []Target
	// Unallocated is how many replicas of the total no cluster may take.
	Unallocated int
	// Barred is how many of the unallocated replicas a Max or a Cap excludes, even if every cluster took replicas and every subset had a
	// cluster. The others are lost because of the state of a cluster, or because there is none.
	Barred int
	// Excess is how many replicas exist beyond the total, because frozen clusters hold them.
	Excess int
	// Ineffective is true if the subsets' numbers contradict the total or can't be parsed. Targets then repeats every Current, whatever the
	// state of the cluster.
	Ineffective bool
	// Why explains with numbers why Unallocated, Excess or Ineffective is set. Otherwise it is empty.
	Why string
}

// Allocate returns how many replicas of each subset each cluster should run.
//
// Over the subsets it divides like spread.Divide, so their order matters only if Min or Max are used. Within a subset the clusters share
// evenly, or in proportion to their weights if some have one. An odd replica stays where most replicas are now, and otherwise the order of
// names decides: 10 over west, east and north is east 4, north 3, west 3, and stays that way.
//
// A Frozen cluster counts with what it has, and only the difference is divided over the others. With 10 over east and west, 5 each, and east
// frozen, 12 gives west 7 and 9 gives west 4. A total below what is frozen leaves nothing for the others and reports the Excess. If every
// subset has its own number, the others keep to theirs, and what is missing in the frozen cluster is Unallocated.
//
// A negative total counts as 0. Allocate doesn't change its input.
func Allocate(total int, subsets []Subset) Allocation {
	total = max(total, 0)
	subsets = inOrder(subsets)
	a := allocate(total, subsets)
	if a.Unallocated > 0 {
		a.Barred = min(a.Unallocated, allocate(total, open(subsets)).Unallocated)
	}
	return a
}

// open returns the same subsets as if every cluster took replicas and every subset had a cluster.
func open(subsets []Subset) []Subset {
	opened := slices.Clone(subsets)
	for i, s := range opened {
		members := slices.Clone(s.Members)
		if len(members) == 0 {
			members = make([]Member, 1)
		}
		for j := range members {
			members[j].State = Ready
		}
		opened[i].Members = members
	}
	return opened
}

func allocate(total int, subsets []Subset) Allocation {
	rooms := freeRooms(subsets)
	for {
		parts, division := divide(total, subsets, rooms)
		if !division.Ineffective && tighten(subsets, parts, rooms) {
			continue
		}
		return answer(total, subsets, rooms, parts, division)
	}
}

// inOrder returns a copy of subsets with their members sorted by name.
func inOrder(subsets []Subset) []Subset {
	sorted := slices.Clone(subsets)
	for i := range sorted {
		members := slices.Clone(sorted[i].Members)
		slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Cluster, b.Cluster) })
		for j := range members {
			members[j].Current = max(members[j].Current, 0)
		}
		sorted[i].Members = members
	}
	return sorted
}

// freeRooms returns what each member could take if its subset were alone in its cluster.
func freeRooms(subsets []Subset) [][]spread.Bounds {
	rooms := make([][]spread.Bounds, len(subsets))
	for i, s := range subsets {
		rooms[i] = make([]spread.Bounds, len(s.Members))
		for j, m := range s.Members {
			switch {
			case m.State == Frozen:
				rooms[i][j] = spread.Bounds{Min: m.Current, Max: m.Current}
			case m.State == Draining, m.State == Awaited && !reserved(s), m.Weight != nil && *m.Weight <= 0:
				rooms[i][j] = spread.Bounds{}
			case m.State == Closed:
				rooms[i][j] = spread.Bounds{Max: m.Current}
				if m.Cap != nil {
					rooms[i][j].Max = max(min(m.Current, *m.Cap), 0)
				}
			case m.Cap != nil:
				rooms[i][j] = spread.Bounds{Max: max(*m.Cap, 0)}
			default:
				rooms[i][j] = spread.Bounds{Max: spread.Unlimited}
			}
		}
	}
	return rooms
}

// reserved reports whether the replicas of a subset are reserved for its clusters: it has its own number, and all of its clusters are
// awaited.
func reserved(s Subset) bool {
	return s.Replicas != nil && !slices.ContainsFunc(s.Members, func(m Member) bool { return m.State != Awaited })
}

// divide divides total over the subsets, and the part of each over its members.
func divide(total int, subsets []Subset, rooms [][]spread.Bounds) ([][]int, spread.Division) {
	groups := make([]spread.Subset, len(subsets))
	for i, s := range subsets {
		groups[i] = group(s, rooms[i])
	}
	division := spread.Divide(total, groups)

	parts := make([][]int, len(subsets))
	for i, s := range subsets {
		if division.Ineffective {
			for _, m := range s.Members {
				parts[i] = append(parts[i], m.Current)
			}
			continue
		}
		// Members are sorted by name, so the index breaks ties by name.
		if weights, current := weightsOf(s); weights != nil {
			parts[i] = spread.Weighted(division.Targets[i], weights, current, rooms[i])
			continue
		}
		parts[i] = spread.Even(division.Targets[i], rooms[i], func(a, b int) int {
			return cmp.Or(cmp.Compare(s.Members[b].Current, s.Members[a].Current), cmp.Compare(a, b))
		})
	}
	return parts, division
}

// weightsOf returns the weights and the current replicas of the members of a subset, or nil if none has a weight.
func weightsOf(s Subset) (weights, current []int) {
	if !slices.ContainsFunc(s.Members, func(m Member) bool { return m.Weight != nil }) {
		return nil, nil
	}
	weights, current = make([]int, len(s.Members)), make([]int, len(s.Members))
	for i, m := range s.Members {
		weights[i], current[i] = 1, m.Current
		if m.Weight != nil {
			weights[i] = *m.Weight
		}
	}
	return weights, current
}

// group sums up a subset: what all of its members have, must keep and can take.
func group(s Subset, rooms []spread.Bounds) spread.Subset {
	g := spread.Subset{Name: s.Name, Replicas: s.Replicas, Min: s.Min, Max: s.Max}
	ceiling, limited := 0, true
	for j, m := range s.Members {
		g.Current += m.Current
		g.Floor += rooms[j].Min
		if rooms[j].Max == spread.Unlimited {
			limited = false
		} else {
			ceiling += rooms[j].Max
		}
	}
	if limited {
		g.Ceiling = &ceiling
	}
	return g
}

// capped reports whether a Cap limits what a cluster gets.
func capped(m Member) bool { return m.Cap != nil && (m.State == Ready || m.State == Closed) }

// tighten narrows the rooms of clusters whose Cap is exceeded by their subsets together. The first subset is served first. It returns whether
// it narrowed any. A cluster is narrowed once: from then on its rooms add up to at most its Cap.
func tighten(subsets []Subset, parts [][]int, rooms [][]spread.Bounds) bool {
	used := map[string]int{}
	for i, s := range subsets {
		for j, m := range s.Members {
			if capped(m) {
				used[m.Cluster] += parts[i][j]
			}
		}
	}
	left, narrowed := map[string]int{}, false
	for i, s := range subsets {
		for j, m := range s.Members {
			if !capped(m) || used[m.Cluster] <= max(*m.Cap, 0) {
				continue
			}
			if _, seen := left[m.Cluster]; !seen {
				left[m.Cluster] = max(*m.Cap, 0)
			}
			rooms[i][j].Max = min(parts[i][j], left[m.Cluster])
			left[m.Cluster] -= rooms[i][j].Max
			narrowed = true
		}
	}
	return narrowed
}

func answer(total int, subsets []Subset, rooms [][]spread.Bounds, parts [][]int, division spread.Division) Allocation {
	a := Allocation{Ineffective: division.Ineffective, Why: division.Why}
	sum := 0
	for i, s := range subsets {
		for j, m := range s.Members {
			part := parts[i][j]
			if m.State == Awaited {
				part = 0
			}
			a.Targets = append(a.Targets, Target{Key: Key{Subset: s.Name, Cluster: m.Cluster}, Replicas: part})
			sum += part
		}
	}
	if a.Ineffective {
		return a
	}
	a.Unallocated, a.Excess = max(total-sum, 0), max(sum-total, 0)
	switch {
	case a.Unallocated > 0:
		a.Why = fmt.Sprintf("%d of %d replicas are unallocated: %s", a.Unallocated, total, limits(subsets, rooms, parts))
	case a.Excess > 0:
		a.Why = fmt.Sprintf("excess replicas remain (%d more than %d): %s", a.Excess, total, limits(subsets, rooms, parts))
	}
	return a
}

// limits describes what prevents an exact allocation. It names at most three clusters.
func limits(subsets []Subset, rooms [][]spread.Bounds, parts [][]int) string {
	var reasons []string
	for i, s := range subsets {
		if len(s.Members) == 0 {
			reasons = append(reasons, fmt.Sprintf("subset %s has no cluster", s.Name))
		}
		for j, m := range s.Members {
			switch {
			case m.State == Frozen:
				reasons = append(reasons, fmt.Sprintf("%s is frozen at %d", m.Cluster, m.Current))
			case m.State == Draining:
				reasons = append(reasons, m.Cluster+" is draining")
			case m.State == Closed:
				reasons = append(reasons, m.Cluster+" takes no more replicas")
			case m.State == Awaited && reserved(s):
				reasons = append(reasons, fmt.Sprintf("%d reserved for %s, which has not joined", parts[i][j], m.Cluster))
			case m.State == Awaited:
				reasons = append(reasons, m.Cluster+" has not joined")
			case m.Cap != nil && parts[i][j] >= rooms[i][j].Max:
				reasons = append(reasons, fmt.Sprintf("%s is limited to %d", m.Cluster, max(*m.Cap, 0)))
			}
		}
	}
	if len(reasons) == 0 {
		return "no subset may take more"
	}
	slices.Sort(reasons)
	return someOf(slices.Compact(reasons))
}

// someOf joins the first three of many names.
func someOf(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

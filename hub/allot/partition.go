package allot

import (
	"cmp"
	"slices"

	"github.com/flotilla-io/flotilla/pkg/plan/spread"
)

// Partitions divides each subset's partition (the replicas that stay at the old revision) over the subset's clusters, and returns a number
// for each target.
//
// partitions is keyed by subset name; a missing subset counts as 0. A partition is limited to its subset's replicas and then divided in
// proportion to them. The largest remainders come first, and ties are broken by cluster name: 5 over targets of 6, 3 and 1 is 3, 2 and 0. So
// a cluster never keeps more than it has, and clusters without replicas keep none.
func Partitions(partitions map[string]int, targets []Target) []int {
	kept := make([]int, len(targets))
	bySubset := map[string][]int{}
	for i, t := range targets {
		bySubset[t.Subset] = append(bySubset[t.Subset], i)
	}
	for subset, members := range bySubset {
		replicas := 0
		for _, i := range members {
			replicas += max(targets[i].Replicas, 0)
		}
		partition := spread.Partition(partitions[subset], replicas)
		if partition == 0 {
			continue
		}
		// Integer division with remainder is exact, and the remainders have the same base.
		left := partition
		remainder := make(map[int]int, len(members))
		for _, i := range members {
			product := partition * max(targets[i].Replicas, 0)
			kept[i], remainder[i] = product/replicas, product%replicas
			left -= kept[i]
		}
		slices.SortFunc(members, func(a, b int) int {
			return cmp.Or(cmp.Compare(remainder[b], remainder[a]), cmp.Compare(targets[a].Cluster, targets[b].Cluster))
		})
		for _, i := range members[:left] {
			kept[i]++
		}
	}
	return kept
}

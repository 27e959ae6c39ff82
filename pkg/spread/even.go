package spread

import (
	"math"
	"slices"
)

// Unlimited is the Max of a taker that has no upper bound.
const Unlimited = math.MaxInt

// Bounds are the least and the most that one taker of an even share may get. A Max below Min counts as Min.
type Bounds struct{ Min, Max int }

// level is what a taker gets when the common water level stands at l.
func (b Bounds) level(l int) int { return max(min(l, b.Max), b.Min) }

// Even divides total over takers as evenly as their bounds allow, and returns a share for each of them.
//
// Picture vessels that are filled to one common level: who is at its Max takes no more, who starts above the level
// keeps its Min. 10 over three unbounded takers is 4, 3, 3; over bounds [0,2] [0,∞] [5,∞] it is 2, 3, 5. What one
// level cannot divide, the odd replicas, goes one each to the first takers in the order of prefer, which compares two
// indexes like cmp.Compare and must order all of them strictly. The order of takers itself means nothing.
//
// The sum of the shares is total, unless the bounds forbid it: it is the sum of all Min when that is more than total,
// and the sum of all Max when that is less. A nil list gives an empty one.
func Even(total int, takers []Bounds, prefer func(a, b int) int) []int {
	sum := func(l int) int {
		s := 0
		for _, b := range takers {
			s += b.level(l)
		}
		return s
	}
	// The greatest level that total can pay for. Above total no taker but one with a great Min would be served.
	level, tooHigh := 0, max(total, 0)+1
	for tooHigh-level > 1 {
		if middle := level + (tooHigh-level)/2; sum(middle) <= total {
			level = middle
		} else {
			tooHigh = middle
		}
	}

	shares := make([]int, len(takers))
	var rising []int
	for i, b := range takers {
		shares[i] = b.level(level)
		if b.level(level+1) > shares[i] {
			rising = append(rising, i)
		}
	}
	if odd := min(total-sum(level), len(rising)); odd > 0 {
		slices.SortFunc(rising, prefer)
		for _, i := range rising[:odd] {
			shares[i]++
		}
	}
	return shares
}

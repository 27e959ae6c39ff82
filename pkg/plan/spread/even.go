package spread

import (
	"math"
	"slices"
)

// Unlimited is the Max of a share without an upper bound.
const Unlimited = math.MaxInt

// Bounds are the smallest and the largest size of a share. A Max below Min counts as Min.
type Bounds struct{ Min, Max int }

// level returns the share at the common level l.
func (b Bounds) level(l int) int { return max(min(l, b.Max), b.Min) }

// Even divides total as evenly as the bounds allow, and returns a share for each of them. All shares are raised to one common level: a share at
// its Max stays there, and a share whose Min is above the level keeps its Min. 10 over three unbounded shares is 4, 3, 3; over bounds [0,2]
// [0,∞] [5,∞] it is 2, 3, 5. The remainder goes, one each, to the first shares in the order of prefer, which compares two indexes like
// cmp.Compare and must be a strict order. The order of bounds itself doesn't matter.
//
// The sum of the shares is total, unless the bounds forbid it: it is the sum of all Min if that is more than total, and the sum of all Max if
// that is less. A nil list gives an empty one.
func Even(total int, bounds []Bounds, prefer func(a, b int) int) []int {
	sum := func(l int) int {
		s := 0
		for _, b := range bounds {
			s += b.level(l)
		}
		return s
	}
	// The highest level that total allows. Above total, only shares with a large Min would get anything.
	level, tooHigh := 0, max(total, 0)+1
	for tooHigh-level > 1 {
		if middle := level + (tooHigh-level)/2; sum(middle) <= total {
			level = middle
		} else {
			tooHigh = middle
		}
	}

	shares := make([]int, len(bounds))
	var rising []int
	for i, b := range bounds {
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

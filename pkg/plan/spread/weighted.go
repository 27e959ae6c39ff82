package spread

import (
	"cmp"
	"math"
)

// Weighted divides total in proportion to weights as far as the bounds allow, and returns a share for each weight. Each share is its weight
// times a common factor, rounded to the nearest number (Webster's method): 6 over weights 2 and 1 is 4 and 2, and 7 is 5 and 2. Unlike with
// largest remainders, a larger total never makes a share smaller. A share at its Max stays there, and a share whose Min is above its part keeps
// its Min; the others divide the rest. A weight that isn't above 0 gets Min. If two are equally entitled to a replica, the one that has it now
// keeps it, then the one with more gets it, then the first in the list: so shares that have been reached stay. With equal weights the result is
// the same as from Even.
//
// The sum of the shares is total, unless the bounds or weights forbid it.
func Weighted(total int, weights, current []int, bounds []Bounds) []int {
	total = max(total, 0)
	shares := make([]int, len(bounds))
	divide := func(factor float64) int {
		sum := 0
		for i, b := range bounds {
			shares[i] = b.level(int(math.Floor(float64(max(weights[i], 0))*factor + 0.5)))
			sum += shares[i]
		}
		return sum
	}
	// The largest factor that total allows, apart from rounding errors.
	const rounds = 100
	factor, tooLarge := 0.0, float64(total)+1
	for range rounds {
		if middle := factor + (tooLarge-factor)/2; divide(middle) <= total {
			factor = middle
		} else {
			tooLarge = middle
		}
	}
	// Slightly below it, such errors break no ties. The few remaining replicas are divided exactly.
	const below = 1 - 1e-9
	for left := total - divide(factor*below); left > 0; left-- {
		next := -1
		for i, b := range bounds {
			if weights[i] <= 0 || b.level(shares[i]+1) == shares[i] {
				continue
			}
			if next < 0 {
				next = i
				continue
			}
			mine, other := weights[i]*(2*shares[next]+1), weights[next]*(2*shares[i]+1)
			if mine > other || mine == other && cmp.Or(has(current[i] > shares[i])-has(current[next] > shares[next]), current[i]-current[next]) > 0 {
				next = i
			}
		}
		if next < 0 {
			break
		}
		shares[next]++
	}
	return shares
}

func has(condition bool) int {
	if condition {
		return 1
	}
	return 0
}

package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rounding is how a percentage is rounded to a whole number of pods.
type Rounding int

const (
	// Down rounds to the smaller number: 25 % of 10 is 2.
	Down Rounding = iota
	// Up rounds to the larger number: 25 % of 10 is 3.
	Up
)

// Resolve converts a number, or a percentage of a total, into a number of pods. Nil is 0. A plain number is returned as is, even if it exceeds
// the total. It returns an error for a string that isn't a percentage ("5", "ten%") and for anything below 0.
func Resolve(v *intstr.IntOrString, total int, r Rounding) (int, error) {
	if v == nil {
		return 0, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, total, r == Up)
	if err != nil {
		return 0, fmt.Errorf("resolve %q of %d pod(s): %w", v.String(), total, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("resolve %q of %d pod(s): must not be negative", v.String(), total)
	}
	return n, nil
}

// ResolveUnavailable converts maxUnavailable into a number of pods, given the resolved surge. With a surge it may round down to 0; without one
// it rounds up, because otherwise nothing could ever be updated. It returns an error in the same cases as Resolve.
func ResolveUnavailable(v *intstr.IntOrString, surge, total int) (int, error) {
	if surge > 0 {
		return Resolve(v, total, Down)
	}
	return Resolve(v, total, Up)
}

// ResolvePartition converts a partition into the number of pods, out of a total, that keep the old revision. Nil is 0, and the result is at
// most the total. Percentages round up, so that more than 0 % keeps at least one pod; but less than 100 % of two or more pods never keeps all of
// them: 95 % of 10 is 9. It returns an error in the same cases as Resolve.
func ResolvePartition(v *intstr.IntOrString, total int) (int, error) {
	n, err := Resolve(v, total, Up)
	if err != nil || v == nil {
		return 0, err
	}
	n = min(n, total)
	if v.Type == intstr.String && n == total && total > 1 {
		whole, err := Resolve(v, 100, Up)
		if err != nil {
			return 0, err
		}
		if whole < 100 {
			n = total - 1
		}
	}
	return n, nil
}

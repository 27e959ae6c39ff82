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

// Resolve turns a number or a percentage of `of` pods into a number of pods. Nil is 0. A number stands as it is, also
// allowed `of`. It fails on a string that is no percentage ("5", "ten%") and on anything below 0.
func Resolve(v *intstr.IntOrString, of int, r Rounding) (int, error) {
	if v == nil {
		return 0, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, of, r == Up)
	if err != nil {
		return 0, fmt.Errorf("resolve %q of %d pods: %w", v.String(), of, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("resolve %q of %d pods: below 0", v.String(), of)
	}
	return n, nil
}

// ResolveUnavailable turns maxUnavailable into a number of pods, beside a surge of so many. With a surge it may round down to 0; without
// one it rounds up, as nothing could ever be updated otherwise. It fails as Resolve does.
func ResolveUnavailable(v *intstr.IntOrString, surge, of int) (int, error) {
	if surge > 0 {
		return Resolve(v, of, Down)
	}
	return Resolve(v, of, Up)
}

// ResolvePartition turns a partition into the number of pods, of `of`, that keep the old revision. Nil is 0 and nothing
// goes above `of`. Percentages round up, so that more than 0 % keeps at least one pod; but less than 100 % of two pods
// or more never keeps all of them: 95 % of 10 is 9. It fails as Resolve does.
func ResolvePartition(v *intstr.IntOrString, of int) (int, error) {
	n, err := Resolve(v, of, Up)
	if err != nil || v == nil {
		return 0, err
	}
	n = min(n, of)
	if v.Type == intstr.String && n == of && of > 1 {
		whole, err := Resolve(v, 100, Up)
		if err != nil {
			return 0, err
		}
		if whole < 100 {
			n = of - 1
		}
	}
	return n, nil
}

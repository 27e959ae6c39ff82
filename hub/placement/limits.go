package placement

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

// Limits resolves reallocation for a total number of replicas, of which maximums exclude some (barred). p may be nil. Invalid values, which
// admission refuses, count as the default.
func Limits(p *pods.Placement, total, barred int) allot.Limits {
	l := allot.Limits{Desired: total, Barred: barred, MaxSurge: allot.DefaultSurge(total)}
	if p != nil && p.Reallocation != nil {
		if n, ok := resolve(p.Reallocation.MaxSurge, total, rollout.Up); ok {
			l.MaxSurge = n
		}
		if n, ok := resolve(p.Reallocation.MaxUnavailable, total, rollout.Down); ok {
			l.MaxUnavailable = n
		}
	}
	if l.MaxSurge == 0 && l.MaxUnavailable == 0 {
		l.MaxSurge = 1 // Both can be rounded down to 0. Then nothing could ever move.
	}
	return l
}

// resolve is false if the number isn't set, or invalid.
func resolve(v *intstr.IntOrString, total int, r rollout.Rounding) (int, bool) {
	n, err := rollout.Resolve(v, total, r)
	return n, v != nil && err == nil
}

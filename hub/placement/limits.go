package placement

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/allot"
)

// Limits resolves reallocation for a total number of replicas, of which maximums exclude some (barred). p may be nil. Invalid values, which
// admission refuses, count as the default.
func Limits(p *pods.Placement, total, barred int) allot.Limits {
	l := allot.Limits{Desired: total, Barred: barred, MaxSurge: allot.DefaultSurge(total)}
	if p != nil && p.Reallocation != nil {
		if n, ok := resolve(p.Reallocation.MaxSurge, total, true); ok {
			l.MaxSurge = n
		}
		if n, ok := resolve(p.Reallocation.MaxUnavailable, total, false); ok {
			l.MaxUnavailable = n
		}
	}
	if l.MaxSurge == 0 && l.MaxUnavailable == 0 {
		l.MaxSurge = 1 // Both can be rounded down to 0. Then nothing could ever move.
	}
	return l
}

func resolve(v *intstr.IntOrString, total int, up bool) (int, bool) {
	if v == nil {
		return 0, false
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, total, up)
	return n, err == nil && n >= 0
}

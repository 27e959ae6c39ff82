// Package timing computes when something that depends on time is due. It is pure.
package timing

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Passed reports whether that many seconds have passed since a time, and if not, how long it takes until they have. If either argument is nil, it
// returns false and 0.
func Passed[N int32 | int64](since *metav1.Time, after *N, now time.Time) (passed bool, left time.Duration) {
	if since == nil || after == nil {
		return false, 0
	}
	at := since.Add(Seconds(int64(*after)))
	if now.Before(at) {
		return false, at.Sub(now)
	}
	return true, 0
}

// Sooner returns the shortest of the waits; 0 means never.
func Sooner(soonest time.Duration, others ...time.Duration) time.Duration {
	for _, w := range others {
		if soonest == 0 || w == 0 {
			soonest = max(soonest, w)
		} else {
			soonest = min(soonest, w)
		}
	}
	return soonest
}

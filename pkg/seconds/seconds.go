// Package seconds turns the seconds of an API object into durations.
package seconds

import "time"

// most is a hundred years. A duration holds 292, which leaves room for what is added to it.
const most = 100 * 365 * 24 * 60 * 60

// Duration returns n seconds, at most a hundred years. The API sets no limit to fields of 64 bits such as terminationGracePeriodSeconds,
// and a product that overflows is a duration in the past.
func Duration(n int64) time.Duration { return time.Duration(min(n, most)) * time.Second }

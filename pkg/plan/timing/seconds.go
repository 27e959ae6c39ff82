package timing

import "time"

// most is a hundred years. A duration can hold 292, which leaves room for additions.
const most = 100 * 365 * 24 * 60 * 60

// Seconds returns n seconds, at most a hundred years. The API doesn't limit 64-bit fields such as terminationGracePeriodSeconds, and an
// overflowing product would be a duration in the past.
func Seconds(n int64) time.Duration { return time.Duration(min(n, most)) * time.Second }

package statefulset

import "time"

// start is when the pods of all tests became ready, now is an hour later.
var (
	start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	now   = start.Add(time.Hour)
)

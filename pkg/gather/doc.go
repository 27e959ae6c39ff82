// Package gather batches the watch events of an object's children, so that many of them lead to one reconcile of the object.
//
// While 5,000 pods start, there are tens of thousands of events, and each requests a reconcile that reads all 5,000. The time
// that a reconcile takes before it writes anything (reading the cache, planning) is measured, and an event of a child waits
// for a few times that long, so that others join it. So a controller spends a bounded share of a CPU on reading and planning,
// however many children there are; events of a small object wait for a few milliseconds. Events of the object itself are
// never delayed, and neither are retries.
//
// The package does not limit writes and drops no event.
package gather

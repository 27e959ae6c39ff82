// Package gather batches the watch events of an object's children, so that many of them lead to one reconcile of the object.
//
// While 5,000 pods start, there are tens of thousands of events, and each requests a reconcile that reads all 5,000. The time
// that reconciles take before they write anything (reading the cache, planning) is measured. Once it exceeds a twelfth of the time
// that has passed, an event of a child waits, so that others join it: half a second at most. So a controller spends a bounded share
// of a CPU on reading and planning, however many children there are. Events of an object that was quiet before don't wait, so what
// goes from pod to pod, as a rolling update one at a time, is not delayed. Events of the object itself are never delayed, and
// neither are retries.
//
// The package does not limit writes and drops no event.
package gather

// Package gather delays events of an object's children a little, so that many of them lead to one reconcile of the object.
//
// The idea: while 5,000 pods start, tens of thousands of events come, and each wants a reconcile that looks at all 5,000. What a
// reconcile costs before it writes anything (reading the cache, planning) is measured, and an event of a child waits for a few
// times that long, so that others join it. A controller then spends a bounded share of a processor on reading and planning,
// however many children there are; events of a small object wait for a millisecond or less. Events of the object itself never
// wait, and retries are not delayed.
//
// What it won't do: bound how much is written, or drop an event.
package gather

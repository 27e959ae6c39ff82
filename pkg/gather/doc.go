// Package gather lets events of many children of one object come together in one reconcile of its controller.
//
// The idea: while 5,000 pods start, tens of thousands of events come, and each wants a reconcile that looks at all 5,000. What a
// pass costs before it writes anything (reading the cache, planning) is measured, and an event of a child waits for a few
// times that long, so that others come along. A controller then spends a bounded share of a processor on looking, however
// many children there are; of a small object, events wait for a millisecond or less. Events of the object itself never
// wait, nor does what failed wait longer.
//
// What it won't do: bound how much is written, or drop an event.
package gather

// Package event represents events as values, so that the pure status function of a kind can return them and a recorder sends them.
//
// A kind has one constructor for each of its events, in its events.go; the reasons are documented. Events are sent after the status is written.
// They are aggregated per reconcile: a kind that created 200 pods in one reconcile sends one event with the first few names and the count, so
// that events take a few API writes, not one for each pod.
//
// Equal events about one object become one series with a count. Events that differ only in their notes stay separate, up to ten at a time, so
// that each cause is visible and a stream of new notes can't flood the API server. client-go aggregates events by everything except the note. So
// a Recorder separates them with a related object, which managers created with NewManager don't send.
package event

// Package event has events as values, so that the pure status function of a kind returns them and a recorder sends them.
//
// A kind's own events have a constructor each in its events.go; its reasons are documented. Events are sent after the
// status was written. They are aggregated per reconcile: a kind that created 200 pods in one reconcile sends one event with
// the first few names and the count, so that events take a few API writes and not one for each pod.
//
// Equal events about one object become one series with a count. Events that differ in their notes only stay separate, ten at
// a time, so that each cause is visible and ever new notes can't flood the apiserver. client-go compares everything but the
// notes when it aggregates events, so a Recorder separates them by a related object, which the managers of NewManager do not
// send.
package event

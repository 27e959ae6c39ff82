// Package event carries what happened to an object as a value, from the pure status function that decides on it to the
// recorder that sends it.
//
// A kind's own events have a constructor each in its events.go; the reasons there are the documented ones. Events are sent after
// the status was written. They are folded per reconcile: a kind that created 200 pods in one reconcile sends one event that
// names the first few and the count, so that events cost a handful of API writes and not one a pod.
//
// Equal events about one object become one that counts. Events that differ in their notes alone stay apart, ten at a
// time, so that each cause is seen and a storm of ever new notes stays small. The library that folds events compares all but
// their notes: a Recorder tells it notes apart by a reference to a related object, which managers of NewManager do not send.
package event

// Package report writes the status of an object, with its conditions, and then sends the events.
//
// A status is written only if it changed. The patch applies only to the observed resourceVersion, so that a previous leader or a stale cache can't
// overwrite a newer status, or the status of a new object with the same name: for a status patch of a custom resource the API server checks no
// other metadata, not even the UID. The patch contains the whole status, including zero and empty values, because omitted fields would keep
// their old values. Throttle delays writes that only change counts.
//
// Conditions are set by pure functions: the time is an argument, and a condition that did not change keeps its transition time, so that an equal
// status stays equal.
package report

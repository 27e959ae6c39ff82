// Package report tells the world what came of a pass: it writes the status, if it changed, and then sends the events.
//
// The patch says all of the status, also what is zero or empty, so that it is right whatever was there before: a patch of
// the difference would be wrong where the cache is older than the last one.
package report

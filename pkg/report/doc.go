// Package report tells the world what came of a pass: it writes the status, if it changed, and then sends the events.
//
// The patch applies to the version of the object that was seen, and to no other: one who has been replaced as leader, or
// whose cache is old, must not tell of an object as it was, nor of a former one of its name. A UID would not do, because
// the apiserver looks at no metadata but the version when the status of a custom resource is patched. And it says all of
// the status, also what is zero or empty, because fields that are left out would stay.
package report

// Package image pulls images on one node, as specified by its NodeImage.
//
//	controller.go  observe, plan and apply, for the one NodeImage named after the node
//	plan.go        which pulls begin and end, and what the status says; pure
//	pulls.go       the pulls under way, each in a goroutine, with its attempts
//
// Pulls under way are kept in memory. A daemon that is restarted in the middle of a pull starts it again. The start time is in the status, so
// the deadline stays the same, and the parts of an image that the runtime already has are not pulled twice. Attempts are counted from zero
// again.
//
// If the runtime does not answer, that is not counted as an attempt; the pull waits until it does. A pull interrupted by a restart of the
// runtime counts as an attempt.
//
// While OpenKruise's daemon runs on the node, that daemon pulls and this one does not (see package other), because both would write the
// status.
//
// Credentials come from the entry, sealed by the manager with the key of this process (pkg/noded/pullsecret), and from the runtime's own
// configuration. Each process creates a new key. An entry that waits for its credentials causes the new key to be published.
package image

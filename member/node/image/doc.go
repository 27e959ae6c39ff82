// Package image pulls images on one node, as its NodeImage says.
//
//	controller.go  observe, plan, apply: for the one NodeImage that has the name of the node
//	plan.go        which pulls begin and end, and what the status says; pure
//	pulls.go       the pulls under way, each in a goroutine, with its attempts
//
// What is under way is in memory. A daemon that is restarted in the middle of a pull begins it again: the time that it began is in the
// status, so that its deadline stays, and what the runtime has of an image is not pulled twice. Attempts are counted anew.
//
// A runtime that does not answer is no attempt: the pull waits until it does. A pull that the restart of a runtime ends is one.
//
// While OpenKruise's daemon runs on the node it pulls, and this one does not (see package other): both would write the status.
//
// Credentials are those of the entry, which the manager has sealed with the key of this process (pkg/pullsecret), and those that the
// runtime has been configured with. The key is made anew by each process: an entry that waits for its credentials has the new one published.
package image

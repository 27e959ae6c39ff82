// Package nodeimage creates a NodeImage for each node, and removes entries that are no longer needed.
//
//	observe.go  reads the node, its NodeImage, and the jobs that own entries
//	plan.go     whether to create or delete the NodeImage, which entries end, and which pulls got no answer
//	apply.go    carries out the plan: each write names the version that was read
//
// Jobs write their own entries, and the node daemon writes the status. This controller handles the rest: entries whose jobs are gone, whose
// TTL has passed or that never got a date, and the failure of pulls that a node does not answer.
package nodeimage

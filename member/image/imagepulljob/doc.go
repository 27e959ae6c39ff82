// Package imagepulljob pulls an image on many nodes before pods need it.
//
//	observe.go  reads the ImagePullJob, the NodeImages, and the nodes of pods
//	entry.go    the entry that a job wants in a NodeImage, and how one compares with it
//	plan.go     which nodes begin to pull, which entries change, and which are withdrawn
//	apply.go    does it, by server-side apply of each NodeImage
//	status.go   counts, completion and events
//
// A job writes one entry into the NodeImage of each node, under a field manager of its own. So jobs that write to one NodeImage at
// the same time lose nothing of each other, and to withdraw an entry is to apply none. An image that several jobs want on a node has
// one entry with several owners; what they want differently of it is decided by the job that was created last. Jobs of another namespace than
// the one that has asked for the pull share it, but change nothing of it and lend no credentials: they write their names alone. If it fails,
// each of them asks for one pull of its own.
//
// Entries stay until the job is complete, and then until their TTL has passed: the controller of NodeImages removes them, and also
// those of jobs that are gone.
package imagepulljob

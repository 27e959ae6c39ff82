// Package imagepulljob pulls an image on many nodes before pods need it.
//
//	observe.go  reads the ImagePullJob, the NodeImages, and the nodes of pods
//	entry.go    the entry that a job wants in a NodeImage, and how an existing one compares with it
//	plan.go     which nodes begin to pull, which entries change, and which are withdrawn
//	apply.go    carries out the plan, by server-side apply of each NodeImage
//	status.go   counts, completion and events
//
// A job writes one entry into the NodeImage of each node, under its own field manager. So jobs that write to one NodeImage at the same time
// don't overwrite each other, and an entry is withdrawn by applying none. An image that several jobs want on a node has one entry with several
// owners; if they want different settings, the most recently created job decides. Jobs in other namespaces than the job that requested the
// pull share it, but don't change it and provide no credentials: they only add themselves as owners. If the pull fails, each of them requests
// its own pull.
//
// Caches lag, so a job may not see yet that others have requested the same image. It never takes over an entry that it doesn't see: it applies a
// new entry without force, and changes an existing one only if the NodeImage is as it was read. If it's refused, it plans again with a newer
// cache.
//
// Entries stay until the job is complete, and then until their TTL has passed. The controller of NodeImages removes them, as well as the
// entries of jobs that are gone.
package imagepulljob

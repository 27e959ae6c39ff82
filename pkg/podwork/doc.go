// Package podwork writes the pods and claims of a workload: creates, deletes and patches them, and is the only place
// that sets expectations for them.
//
// The idea: a plan names many pods, and each write can fail by itself. A class of writes (all creations, all deletions)
// goes out in batches, each of twice as many, and stops after the batch in which one failed: what fails for one pod mostly
// fails for all. Creations start slowly, with one request, because a quota refuses them; the others start with as many as
// run at once, because steps of a rollout follow each other, and each would wait for the slow start of the one before. What
// only says that the world has moved on is no error:
//
//	delete   NotFound                                  success: it is gone
//	delete   Conflict: it is not as it was seen        left out
//	create   AlreadyExists, and it is our own          success: an earlier pass made it
//	create   no answer or a 5xx, and it is there       success, if it is our own
//	create   the namespace is being deleted            left out: nothing will come of it
//	patch    Conflict, NotFound, another UID           left out: the watch brings the news and the next pass decides
//
// A creation may have a patch that follows it at once; what comes of that one is left to the next pass.
//
// What it won't do: decide anything, retry anything, or record events.
package podwork

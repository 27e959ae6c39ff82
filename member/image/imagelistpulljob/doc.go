// Package imagelistpulljob pulls several images on many nodes, with an ImagePullJob for each.
//
//	observe.go  reads the ImageListPullJob and its ImagePullJobs
//	plan.go     which ImagePullJobs to create, change and delete
//	apply.go    does it
//	status.go   sums
//
// The name of an ImagePullJob follows from its image and the rest of its spec, so that a stale cache creates none twice. One that is
// not complete is changed when the list changes; one that is complete is final, and another one takes its place.
package imagelistpulljob

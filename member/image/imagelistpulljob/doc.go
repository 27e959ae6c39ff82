// Package imagelistpulljob pulls several images on many nodes, with an ImagePullJob for each.
//
//	observe.go  reads the ImageListPullJob and its ImagePullJobs
//	plan.go     which ImagePullJobs to create, change and delete
//	apply.go    carries out the plan
//	status.go   sums up the ImagePullJobs
//
// The name of an ImagePullJob is derived from its image and the rest of its spec, so that a stale cache creates none twice. A job that is not
// complete is changed when the list changes. A complete job is final, and another one replaces it.
package imagelistpulljob

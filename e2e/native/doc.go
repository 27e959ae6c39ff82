// Package native holds our StatefulSet and DaemonSet against those of Kubernetes: one table of scenarios is run with both, on
// a real control plane with simulated nodes, and what could be seen of the two is compared.
//
// A scenario is a body of YAML and steps. Both kinds get the same body in a namespace each, and the same steps at the same
// time; only apiVersion differs, and the place of minReadySeconds. What a namespace's watches tell is put into the order of
// the writes and made into a story, in which pods are called by ordinal or node and revisions by number:
//
//	2@1 deleted
//	2@1 gone
//	2@2 made
//	2@2 ready
//
// After each step the stories must be alike as far as the order is determined, and so must what is left: pods with their
// labels, owners and specs, claims, revisions, and the counters of the status. Where the two are meant to differ, the step
// has both stories in full and the reason.
//
//	story.go    watches → story
//	view.go     objects → what is left at the end of a step, without names and marks that can't be alike
//	compare.go  when two stories are alike
//
//	go test -tags e2e ./e2e/native/...          all
//	go test -tags e2e -v -run ... ./e2e/native  with the stories
//	FLOTILLA_E2E_SELF=1 go test -tags e2e ...   hold native against itself: what differs then is not determined
//	FLOTILLA_E2E_KEEP=1 go test -tags e2e ...   keep the cluster, and use it again
package native

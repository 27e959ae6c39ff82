// Package native compares our StatefulSet and DaemonSet with the ones of Kubernetes: one table of scenarios is run with both, on a real control
// plane with simulated nodes, and their observable behavior is compared.
//
// A scenario is a YAML body and steps. Both kinds get the same body, each in its own namespace, and the same steps at the same time. Only
// apiVersion and the path of minReadySeconds differ. The events of a namespace's watches are sorted by resourceVersion and become a trace, in
// which pods are named by ordinal or node, and revisions by number:
//
//	2@1 deleted
//	2@1 gone
//	2@2 created
//	2@2 ready
//
// After each step the traces must be equal as far as the order is determined, and so must the objects: pods with their labels, owners and
// specs, PVCs, revisions, and the counters in the status. If the two differ intentionally, the step lists both traces in full and the reason.
//
// An AdvancedCronJob with Jobs is compared with a CronJob by what is left of its runs (cronjob_test.go).
//
//	trace.go    watches → trace
//	view.go     objects at the end of a step, without names and metadata that always differ
//	compare.go  when two traces are equal
//
//	go test -tags e2e ./e2e/native/...          all
//	go test -tags e2e -v -run ... ./e2e/native  with the traces
//	FLOTILLA_E2E_SELF=1 go test -tags e2e ...   compare native with itself: what differs then is not determined
//	FLOTILLA_E2E_KEEP=1 go test -tags e2e ...   keep the cluster, and reuse it
package native

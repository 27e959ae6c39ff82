// Package probe runs the probes of one node's NodePodProbe, and reports the results in its status.
//
//	controller.go  observe, plan and apply, for the one NodePodProbe named after the node
//	plan.go        which probes begin and end, and what the status says; pure
//	workers.go     the probes under way, each in a goroutine that counts results up to their thresholds
//	prober.go      one attempt: a command in the container, a request, a connection, a health check
//
// A worker probes one container as long as the container runs. A restarted container, a new address of the pod and a changed probe spec each
// get a new worker. A pod is identified by its UID, and its address is taken from its own status, whatever the NodePodProbe says.
//
// Results are in memory and in the status. A restarted daemon continues from the status: a result belongs to the current container if it was
// found after the container started. So no container is probed within a second of its start, as with OpenKruise, because times in a status are
// whole seconds.
//
// A new state is written at once, and a new message for the same state at most every ten seconds. In total, there is at most one write per
// second. Repeated equal results are not written.
//
// While OpenKruise's daemon runs on the node, that daemon probes and this one does not (see package other), because both would write the
// status.
package probe

// Package probe runs the probes of one node's NodePodProbe, and reports what they find in its status.
//
//	controller.go  observe, plan, apply: for the one NodePodProbe that has the name of the node
//	plan.go        which probes begin and end, and what the status says; pure
//	workers.go     the probes under way, each in a goroutine that counts results up to their thresholds
//	prober.go      one attempt: a command in the container, a request, a connection, a health check
//
// A worker probes one container as long as that runs: a container that is restarted, another address of the pod, and another spec of the probe
// get another worker. A pod is that of its UID, and its address is that in its own status, whatever the NodePodProbe says.
//
// What has been found is in memory and in the status. A daemon that is restarted goes on from the status: a result is that of the present
// container if it was found after that was started. So no container is probed within a second of its start, as with OpenKruise: times in a
// status are whole seconds.
//
// A new state is written at once, and a new message of the same state at most every ten seconds; in all, one write a second. That a
// probe has found the same again is not written.
//
// While OpenKruise's daemon runs on the node it probes, and this one does not (see package other): both would write the status.
package probe

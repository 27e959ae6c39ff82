// Package recreate carries out ContainerRecreateRequests on one node.
//
//	plan.go        which request of a pod is under way, which container is stopped next, and what the status says
//	controller.go  reads a pod and its requests, writes one status, or stops one container
//
// Nothing is kept in memory. Whether a container has been restarted is judged by its ID, and with forceRecreate by its start time. So a daemon
// or a runtime that is restarted in the middle continues, and stops no container twice. The status records that a container is about to be
// stopped before it is stopped.
//
// A request is not trusted: the cache contains only the node's pods, and the runtime must confirm that the container belongs to the pod
// (member/node/stop). Hooks and their ports come from the pod, whatever the request says.
package recreate

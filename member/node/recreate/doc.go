// Package recreate carries out ContainerRecreateRequests on one node.
//
//	plan.go        which request of a pod is under way, which container is stopped next, and what the status says
//	controller.go  reads a pod and its requests, writes one status, or stops one container
//
// Nothing is kept in memory. Whether a container has been restarted is judged by its ID, and with forceRecreate by its start: so a daemon or a
// runtime that is restarted in the middle goes on, and stops no container twice. That a container is about to be stopped is written before.
//
// A request is not trusted: the cache has only pods of the node, and the runtime must say that the container is the pod's (member/node/stop).
// Hooks and their ports are the pod's, whatever the request says.
package recreate

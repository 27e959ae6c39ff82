// Package enhancedliveness runs the liveness probes of pods in the node daemon instead of the kubelet. It restarts failing containers within
// the budget of their workload, so that a fault in all pods at once doesn't restart all of them at once.
//
//	step.go      moves the probes of a new pod from its spec to an annotation, so that the kubelet doesn't run them
//	workload.go  the kinds of workloads, and how to read their budgets
//	observe.go   reads a workload, its pods, their probe results, and their ContainerRecreateRequests
//	plan.go      decides which containers are restarted now, and which wait
//	apply.go     creates a ContainerRecreateRequest for each container to restart
//
// Package nodepodprobe tells node daemons what to probe, and member/node/recreate carries out the requests. A result counts only for the
// container run that it was found for: the names of the probe and of the request are both derived from the container ID. So a container is
// restarted once, whatever crashes between two writes and however outdated a cache is.
//
// A decision made from the cache is checked against the apiserver before anything is written. Requests are kept for an hour: they record how
// often a container was restarted, which gives the back-off. No other state is kept.
package enhancedliveness

// Package enhancedliveness runs the liveness probes of pods by the node daemon instead of the kubelet, and restarts containers that fail
// within the budget of their workload, so that a fault of all pods at once does not restart all of them at once.
//
//	step.go      moves the probes of a new pod from its spec into an annotation, so that the kubelet does not run them
//	workload.go  the kinds of workloads, and what they say about their budget
//	observe.go   reads a workload, its pods, the results of their probes, and the ContainerRecreateRequests for them
//	plan.go      which containers are restarted now, and which wait
//	apply.go     makes a ContainerRecreateRequest for each container to restart
//
// Package nodepodprobe tells node daemons what to probe, and member/node/recreate carries out the requests. A result counts only for the
// container for which it was found: both the name of the probe and the name of the request are derived from the ID of the container. So a
// container is restarted once, whatever crashes between two writes and however old a cache is.
//
// What is decided by the cache is decided again by the apiserver before something is written. Requests are kept for an hour: they tell how
// often a container was restarted, and so after how long it may be again. Nothing else is remembered.
package enhancedliveness

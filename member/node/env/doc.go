// Package env restarts containers whose environment comes from labels and annotations of their pod that an in-place update has changed. It
// also reports what containers were started with.
//
// A kubelet resolves the environment of a container when it starts the container and never changes it. So the daemon stops exactly these
// containers, and the kubelet starts them with the current values. What a container was started with is read from the runtime. What it should
// have been started with, whether an update requests the restart, and in which order, is in the pod (see pkg/pod/inplace). Nothing is stopped
// unless an update in progress requests it.
//
// A stop is like the kubelet's: the preStop hook first, then the rest of the pod's grace period. If a kubelet started a container with the old
// values because it had not seen the new ones yet, the container is stopped again, with growing pauses. No state has to survive: a restarted
// daemon continues from what it observes.
//
// For an update that restarts containers regardless of what they read (keys.RestartContainers), they are stopped in the same way, each only if
// it is still the container from before the update.
//
// The report (keys.RuntimeContainersMeta) is written to pods of our workloads whose containers read metadata by env, and to
// others where an update to another tag of the same image would otherwise have to wait for the kubelet's report.
//
// While OpenKruise's daemon does the same on the node, this one restarts nothing for env and reports nothing (see package other). The two
// would stop the same containers one after the other, and overwrite each other's reports. This daemon continues when the other is gone.
//
// A container whose restart policy is not Always is never restarted, because nothing would start it again; nor is one that
// the kubelet is about to restart itself.
package env

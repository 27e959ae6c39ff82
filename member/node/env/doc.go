// Package env starts containers anew whose environment comes from labels and annotations of their pod that an update in
// place has changed, and reports from what containers were started.
//
// The idea: a kubelet makes the environment of a container when it starts it, and never changes it. So the daemon stops
// exactly these containers, and the kubelet starts them with the values of now. What a container was started with is read
// from the runtime. What it should have, who asks for it and in which order is told by the pod, see pkg/inplace; nothing is
// stopped that no update under way asks for.
//
// A stop is one as the kubelet makes it: the preStop hook, and what is left of the pod's grace period. A kubelet may have
// started a container with the former values because it had not seen the new ones; it is stopped again, with growing
// pauses. Nothing is remembered that matters: a daemon that starts anew goes on from what it finds.
//
// The report (keys.RuntimeContainersMeta) is on pods of our workloads whose containers read metadata by env, and on others
// where an update to another tag of the same image would have to wait without.
//
// What it won't do: restart a container whose restart policy is not Always, which nobody would start again, or one that the
// kubelet is about to start anew by itself.
package env

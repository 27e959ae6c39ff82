// Package lifecycle says where a pod is between creation, update and deletion, as the pod's label tells everybody, and
// writes that label.
//
// The idea: the state lives on the pod, in keys.LifecycleState with the time of its last change in
// keys.LifecycleTimestamp, so that it survives its writer and users' tools can follow it. A pod counts as available only
// in the state Normal, which a pod without the label has too.
//
// What it won't do: it decides no transition. pkg/rollout does, from the facts of pkg/podview.
package lifecycle

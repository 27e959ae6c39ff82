// Package child reads the pods and claims that a workload controls, and finds the workloads that an event concerns.
//
// Who controls an object is told by the UID of its controller reference, and by group and kind, in whatever version the
// reference was written: v1alpha1 and v1beta1 of a kind are the same owner.
package child

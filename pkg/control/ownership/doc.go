// Package ownership reads the pods and PVCs that a workload controls, maps events to the affected workloads, and finds pods that a workload's
// selector matches but that it doesn't control (an overlap).
//
// Control is determined by the UID in the controller reference and by its group and kind, in any version: v1alpha1 and v1beta1 of a kind are the
// same owner.
//
// The field indexes of the manager's cache are registered here, so that listing the pods of a workload doesn't scan all pods. Every Setup that
// lists through an index calls its function; another call for the same kind does nothing, because several controllers need the same index.
package ownership

// Package podpatch is the form of one write to a pod that several packages have a part in: an in-place update changes
// conditions and containers, a lifecycle changes labels, finalizers and conditions, and both go in one request.
//
// The idea: each part adds to a Body, computed from the pod as it was observed; Patch makes the request of it. A patch of
// the status subresource takes metadata as well, so a label, an annotation, a finalizer and a condition cost one write.
//
// What it won't do: decide or send anything.
package podpatch

// Package podpatch builds one patch of a pod from changes by several packages: an in-place update changes conditions and containers, a lifecycle
// changes labels, finalizers and conditions, and all of it is sent in one request.
//
// Each package adds to a Body, computed from the observed pod; Patch returns the request. A patch of the status subresource can change metadata
// as well, so a label, an annotation, a finalizer and a condition take only one write.
//
// Merge is for patches that users write for the pods of a subset: it applies them to an object in memory.
//
// The package neither makes decisions nor sends requests.
package podpatch

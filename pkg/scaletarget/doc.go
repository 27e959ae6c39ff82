// Package scaletarget finds the workload that a pod belongs to: by the controllers in owner references, as far up as the cache knows
// them, and its number of replicas. Kinds that have types here are read as such; any other kind is read as metadata only, so a cache
// holds little of it, and its replicas by its scale subresource.
//
// A cluster's administrator lists kinds of its own in the ConfigMap kruise-configuration, as in OpenKruise; WhiteList reads it.
package scaletarget

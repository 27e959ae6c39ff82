// Package scaletarget finds the workload that a pod belongs to, by following the controllers in owner references as far as the cache knows them,
// and the workload's number of replicas. Kinds with types here are read as such. Any other kind is read as metadata only, so that a cache holds
// little of it; its replicas come from its scale subresource.
//
// A cluster's administrator lists additional kinds in the ConfigMap kruise-configuration, as in OpenKruise; WhiteList reads it.
package scaletarget

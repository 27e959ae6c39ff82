// Package admission is the one mutating webhook for pods, on their creation: the steps of all kinds (podstep.Step), in order.
//
//	run.go       the way of one pod through the steps
//	webhook.go   a request, and its answer as a JSON patch
//	entries.go   which namespaces' pods are sent to it
//	plan.go      the webhook's entries in the MutatingWebhookConfiguration
//
// The chart has no entry for pods. The leader adds one while an object needs it, for the namespaces that have such objects, and removes
// it afterwards: a cluster without any creates its pods as if nothing were installed, also while no replica answers. helm and
// server-side apply leave entries alone that they have not written; helm uninstall deletes the whole configuration. There are two
// entries, because a failurePolicy is an entry's: one for features without which a pod must not be created, and one for
// those without which it may.
//
// A policy of the chart (policy_self.yaml) restricts what entries the manager can add: for the creation of pods, outside exempt
// namespaces, to itself.
package admission

// Package admission is the two webhooks for pods: a mutating one on their creation, the steps of all kinds (podstep.Step) in order,
// and a validating one on requests that end or change them, which the guards of all kinds may refuse (podguard.Guard).
//
//	run.go       the way of one pod through the steps
//	webhook.go   a request, and its answer as a JSON patch
//	guard.go     a request that may be refused, and its answer
//	entries.go   which namespaces' pods are sent to them
//	plan.go      the webhooks' entries in both webhook configurations
//	ask.go       an object that is admitted, and needs its namespace in the entries before it is stored
//	mark.go      how such objects are announced to the leader
//	catchup.go   a pod that comes before the watch event of the object that it is sent for
//	await.go     why workloads of this manager create no pods yet
//
// The chart has no entry for pods. The leader adds one while an object needs it, for the namespaces that have such objects, and removes
// it afterwards: a cluster without any creates and deletes its pods as if nothing were installed, also while no replica answers. helm and
// server-side apply leave entries alone that they have not written; helm uninstall deletes the whole configuration. Each webhook has
// two entries, because a failurePolicy is an entry's: one for features without which a request must not go ahead, and one for
// those without which it may.
//
// A policy of the chart (policy_self.yaml) restricts what entries the manager can add: for these requests, outside exempt
// namespaces, to itself, and never for a pod that is being deleted.
package admission

// Package admission implements the two webhooks for pods. The mutating one runs the steps of all kinds (podwebhook.Step) in order when a pod is
// created. The validating one handles requests that delete or change pods, which the guards of all kinds may refuse (podwebhook.Guard).
//
//	run.go       runs a pod through the steps
//	webhook.go   handles a request, and answers with a JSON patch
//	guard.go     handles a request that may be refused
//	entries.go   decides which namespaces' pods are sent to the webhooks
//	plan.go      computes the webhooks' entries in both webhook configurations
//	ask.go       handles the admission of an object whose namespace needs an entry before the object is stored
//	mark.go      announces such objects to the leader
//	catchup.go   handles pods that arrive before the watch event of the object that they are sent for
//	await.go     tells why this manager's workload controllers don't create pods yet
//
// The chart contains no entry for pods. The leader adds one while an object needs it, for the namespaces with such objects, and removes it
// afterwards. So a cluster without such objects creates and deletes its pods as if nothing were installed, even while no replica answers.
// helm and server-side apply leave alone entries that they have not written. helm uninstall deletes the whole configuration. Each webhook has
// two entries, because a failurePolicy belongs to an entry: one for features without which a request must not proceed, and one for features
// without which it may.
//
// A policy in the chart (policy_self.yaml) restricts which entries the manager can add: only for these requests, outside exempt namespaces,
// calling the manager itself, and never for a pod that is being deleted.
package admission

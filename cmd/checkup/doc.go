// Package checkup checks that an installed manager works: it is what "helm test" runs, in a pod of the manager's
// own image.
//
// It checks what an operator would check, with only the rights to do so: the Deployment has all its replicas, one of
// them leads and keeps renewing its Lease, and the webhooks answer. For the last it creates two objects by dry run,
// which stores nothing: one that must be returned with its defaults, and one that the webhook must refuse, not the
// schema. Both fail if the webhook can't be reached, or if the apiserver does not trust it.
//
// It waits for checks that fail, up to a timeout, and then reports what is missing. It does not call a hub.
package checkup

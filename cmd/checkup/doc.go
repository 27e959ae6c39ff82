// Package checkup checks that an installed manager works. "helm test" runs it, in a pod with the manager's own image.
//
// It checks what an operator would check, with only the permissions needed for that: the Deployment has all its replicas, one of them leads
// and keeps renewing its Lease, and the webhooks answer. For the last check it creates two objects by dry run, which stores nothing: one that
// must be returned with its defaults, and one that the webhook must reject rather than the schema. Both fail if the webhook can't be reached,
// or if the apiserver doesn't trust it.
//
// It retries failed checks until a timeout, and then reports what is missing. It does not call a hub.
package checkup

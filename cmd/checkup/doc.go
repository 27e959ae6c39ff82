// Package checkup asks an installed manager whether it does its work: what "helm test" runs, in a pod of the manager's
// own image.
//
// It looks at what an operator would look at, with rights to no more than that: the Deployment has all its replicas, one of
// them leads and goes on renewing its Lease, and the webhooks answer. For the last it creates two objects by dry run,
// which stores nothing: one that must come back with its defaults, and one that must be refused by the webhook, not by the
// schema. A webhook that can't be reached, or that the apiserver does not trust, shows in both.
//
// It waits for what is not so yet, up to a time, and then says what is missing. It asks nothing of a hub.
package checkup

// Package containerrecreaterequest watches over ContainerRecreateRequests, which the node daemon carries out (member/node/recreate).
//
//	observe.go  reads the request and its pod
//	plan.go     decides whether the request is over, whether the pod must be unready, and what to report about its containers
//	apply.go    carries this out: one write per reconcile, conditional on the version that was read
//	webhook.go  fills in what the daemon needs, from the pod
//
// The daemon writes the phase and the container states. The controller completes requests that the daemon can't complete: the pod is gone,
// the deadline has passed, or no daemon answers. It makes the pod unready before the restart and ready again afterwards, and deletes the
// request after its TTL.
//
// A pod that is unready because of a request that is complete or gone is made ready, whatever happened in between.
package containerrecreaterequest

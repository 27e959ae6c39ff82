// Package containerrecreaterequest watches over ContainerRecreateRequests, which the node daemon carries out (member/node/recreate).
//
//	observe.go  reads the request and its pod
//	plan.go     whether the request is over, whether the pod has to be not ready, and what its containers report
//	apply.go    does it: one write per reconcile, for the version that was read
//	webhook.go  fills in what the daemon goes by, from the pod
//
// The daemon writes the phase and the states of containers. The controller completes a request that the daemon can't: its pod is gone, its
// deadline has passed, or no daemon answers. It makes the pod not ready before and ready again after, and deletes the request after its TTL.
//
// A pod that is not ready for a request that is complete or gone is made ready, whatever happened in between.
package containerrecreaterequest

// Package cluster handles how clusters join the fleet, how they are monitored, and how they leave.
//
// For each accepted MemberCluster the hub keeps a namespace fleet-<cluster> with the member's Lease in it and, in mode Pull, the roles of the
// one user kruise:member:<cluster>. That user may read its rows and contents, report on them, and renew its Lease and its certificate, but
// nothing else. If any of these objects is deleted, it is created again.
//
//	Pull   the member's agent requests a client certificate, first with the token of a ServiceAccount that exists until the
//	       join is done, later with the certificate itself. decide (request.go) approves only the exact request of an agent.
//	Push   the hub reads a kubeconfig from a Secret, refuses what would run a program or read a file on the hub, and runs the
//	       member's agent itself. The agent is passed in as a function, because hub and member don't import each other.
//
// Members show that they are alive by renewing their Leases. tracker measures with the hub's own clock, and only while the hub sees its own
// Lease renewed through the same watch. A member that doesn't renew becomes Unreachable. The controllers of placed kinds then freeze its
// numbers. Nothing is deleted for that reason, however many members are unreachable.
//
// A MemberCluster that is deleted leaves: its rows are withdrawn according to spec.leave.policy, the agent removes its binding, and the hub
// deletes what it kept. A member that has been unreachable for too long finds a tombstone when it is back. The hub keeps connecting to a push
// member until it has followed the tombstone.
//
// controller.go, observe.go, plan.go, apply.go and status.go are the controller of MemberClusters; request.go and approver.go handle
// certificate requests; liveness.go and beat.go track Leases; kubeconfig.go and push.go connect to push members; tombstone.go connects to
// push members that could not be reached while they left.
//
// The package sends no work to members and moves no replicas. It can't revoke a signed certificate, because Kubernetes can't. A member that
// is no longer accepted keeps a valid certificate without any permissions. A new cluster should take the name of one that has left only after
// the old certificate has expired.
package cluster

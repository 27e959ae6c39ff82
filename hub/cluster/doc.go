// Package cluster is how clusters join the fleet, are watched and leave it.
//
// For each accepted MemberCluster the hub keeps a namespace fleet-<cluster> with the member's Lease in it and, in mode
// Pull, the roles of the one user kruise:member:<cluster>: it may read its rows and contents, report on them, and renew
// its Lease and its certificate; nothing else. What somebody deletes of it is made again.
//
//	Pull   the member's agent asks for a client certificate, first with the token of a ServiceAccount that lives until
//	       the join is done, later with the certificate itself. judge takes such a request apart to the last byte.
//	Push   the hub reads a kubeconfig from a Secret, refuses what would run or read anything on the hub, and runs the
//	       member's agent itself. The agent comes in as a function, because hub and member don't know each other.
//
// A member is heard of by renewals of its Lease. Tracker judges by the hub's own clock and only while the hub sees its
// own Lease renewed through the same watch. A silent member is Unreachable: its numbers are frozen by whoever reads
// that; nothing is deleted for silence, however many members are silent.
//
// A MemberCluster that is deleted leaves: its rows are withdrawn by spec.leave.policy, the agent removes its binding, the hub
// removes what it kept. A member that is away for too long finds a tombstone when it comes back; a push member is called
// until it has obeyed it.
//
// controller.go, observe.go, plan.go, apply.go and status.go are the MemberCluster's controller; request.go and
// approver.go judge certificate requests; liveness.go and beat.go listen; kubeconfig.go and push.go connect;
// tombstone.go calls push members that were away while they left.
//
// The package sends no work to members and moves no replicas. It can't take a signed certificate back: Kubernetes knows
// no revocation. A member that is held out keeps a valid certificate which no role is bound to; a new cluster that
// takes the name of one that left should wait until the old certificate has ended.
package cluster

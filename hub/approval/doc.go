// Package approval lets people open gates of type Approval: its webhook says which RolloutApprovals may be created and stamps them, and Given
// says whether a wave has been approved.
//
// An approval is an object and not a field of the rollout, so that RBAC decides who may approve, the audit log says who did, and tools that
// apply the rollout see no drift. It names the UID of its target and a revision, so an old one opens nothing.
//
// Only the owner reference that the webhook sets, and the controller of the target through Obsolete, remove approvals: a hub may have no
// garbage collector. Those that stay don't count.
package approval

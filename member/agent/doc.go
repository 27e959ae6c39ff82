// Package agent is the member's side of a hub. It takes rows (MemberWork) from the hub, applies their objects here, keeps a ledger of what it
// applied, and reports status.
//
// Run works on a link.Link and does not know who opened the connection, so pull and push (in the hub) share one code path. Setup adds what a
// pull member needs to its manager: a loop that opens the connection (package connect) and runs the agent on it.
//
// Four loops share one view of the member:
//
//	binding    tracks which hub this cluster is bound to: the first one that binds it. While unbound, nothing else is written here.
//	rows       runs one reconcile per row: observe, plan (pure), apply, status (pure).
//	kinds      tracks what the member serves. After each change to a CRD, it enqueues the rows whose kind was not served.
//	heartbeat  renews the Lease on the hub, each time after this cluster's apiserver has reported ready.
//
// A row may contain an object of any kind. Package measure is the table of kinds that need more than the defaults: how their health and counts
// are measured, and which of them the agent may always write. The chart's value hub.kinds adds others. The agent watches a kind for as long as
// a row has an object of that kind, in a separate cache.
//
// A kind that is not served may still have objects. A kind that no CRD defines has none: an apiserver deletes the objects before the CRD.
//
// A pull member that can't reach its hub reports why in the conditions of its Membership. If the hub's version is too far from the agent's, the agent
// does nothing: running workloads continue, and nothing is applied or withdrawn, until the versions are compatible again or the cluster leaves.
//
// The ledger (AppliedWork) decides which objects are ours, never their names. A line is written before its object is created, and again with the
// object's UID afterwards. Any other object of that name is foreign and left alone. Deletes carry the UID as a precondition. They follow from a
// withdrawn row, a leaving cluster, a tombstone, or an administrator's annotation on the Membership, never from absence or from an error.
//
// Reads come from caches. Before a write, the object is read again from the apiserver, so a stale cache may cost a request but never causes a
// wrong write. In the steady state a reconcile sends no request.
//
// The agent creates no namespaces. It takes no field away from an object that is not ours unless the row adopts it, and does not stop
// workloads whose hub does not answer.
//
// A known gap: between the read that finds no object and the apply that creates it, another client may create one of that name. If the two
// differ, the apply is refused; if they agree in all fields that we set, the object becomes ours.
//
// Permissions in the member, besides those in measure/kind.go:
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=selfsubjectrulesreviews,verbs=create
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberships,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberships/status,verbs=patch
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=appliedworks,verbs=get;list;create;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
package agent

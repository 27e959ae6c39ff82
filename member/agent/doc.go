// Package agent is the member's side of a hub: it takes rows (MemberWork) from the hub, applies their objects here, keeps a
// ledger of what it applied, and reports status.
//
// Run works on a link.Link and does not know who opened the connection, so pull (in cmd/member) and push (in the hub) share
// one code path. Connect opens the connection of a pull member: it joins with a token, or continues with the stored
// certificate, which it renews before it expires.
//
// Three loops share one view of the binding:
//
//	binding    which hub this cluster is bound to: the first one that came. Unbound, nothing else is written here.
//	rows       one reconcile per row: observe, plan (pure), apply, status (pure).
//	heartbeat  renews the Lease on the hub, each time after this cluster's apiserver has reported ready.
//
// kind.go is the table of kinds: what their health and counts are, and which of them the agent may write.
//
// A pull member that can't reach its hub reports why in the conditions of its Membership. A hub whose version is too far
// from the agent's gets nothing done: what runs continues, nothing is applied or withdrawn, until the versions fit again or
// the cluster leaves.
//
// The ledger (AppliedWork) decides which objects are ours, never their names. A line is written before its object is created,
// and again with the object's UID afterwards. Any other object of that name is foreign and left alone. Deletes carry the UID
// as a precondition, and follow from a withdrawn row, a leaving cluster or a tombstone, never from absence or from an error.
//
// Reads come from caches. Before a write the object is read again from the apiserver, so that a stale cache may cost a
// request but never causes a wrong write. In the steady state a reconcile sends no request.
//
// The agent creates no namespaces, takes no field away from an object that is not ours, and does not stop workloads whose
// hub does not answer.
//
// A known gap: between the read that finds no object and the apply that creates it, another client may create one of that name.
// If the two differ the apply is refused; if they agree in all fields that we set, the object becomes ours.
//
// Rights in the member, besides those in kind.go:
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberships,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberships/status,verbs=patch
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=appliedworks,verbs=get;list;create;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
package agent

// Package agent is the member's end of a connection to a hub: it takes rows from the hub, applies them here, keeps a
// ledger of what it applied, and reports.
//
// The idea: Run works on a link.Link and does not know who dialled, so pull (in cmd/member) and push (in the hub) are
// the same code. Connect makes the connection of a pull member: it joins with a token or goes on with the certificate
// that it stored, and renews that without a gap.
//
// Three loops share one view of the claim:
//
//	claim      who owns this cluster: the first hub that came. Without the claim nothing else is written here.
//	rows       one reconcile per row: observe, plan (pure), apply, status (pure).
//	heartbeat  renews the Lease on the hub, each time only after this cluster's apiserver said that it is ready.
//
// Where a pull member can't reach its hub it says why in the conditions of its Membership. A hub whose version is too far
// from the agent's is not worked for: what runs goes on, nothing is applied or withdrawn, until the versions fit again or
// the cluster leaves.
//
// What is ours is decided by the ledger (AppliedWork), never by a name: a line is written before its object is made and
// again with the object's UID after it. Whatever else has that name is foreign and stays untouched. Deletes carry the
// UID as a precondition and follow from a withdrawn row, a leaving cluster or a tombstone, never from absence or from
// an error.
//
// Reads come from caches; before anything is written the object is read again from the apiserver, so that an old cache
// may cost a request but no wrong write. In the steady state a reconcile makes no request at all.
//
// It won't create namespaces, force a field away from an object that is not ours, judge the health of kinds that it
// does not know (they are Applied), or stop workloads of a hub that went silent.
//
// Trade-off: between the read that finds no object and the apply that makes it, somebody else may make an object of
// that name. If the two differ the apply is refused; if they agree in all that we set, the object becomes ours.
//
// Rights in the member, besides those of the kinds that rows carry:
//
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberships,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberships/status,verbs=patch
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=appliedworks,verbs=get;list;create;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
package agent

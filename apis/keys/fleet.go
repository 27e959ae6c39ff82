package keys

// Keys of the hub and of what it places in members.
const (
	// FleetLeave is a finalizer on a MemberCluster. Written by the hub when the cluster is accepted; removed when
	// the rows of a leaving cluster are withdrawn by spec.leave.policy, or its timeout is over.
	FleetLeave = "fleet.kruise.io/leave"

	// FleetRow is a finalizer on a MemberWork. Written by the hub with the row; removed when the member has reported
	// the row as withdrawn, or the cluster has left. Also on the object on the hub while it may have rows; a member stack
	// beside the hub leaves such an object alone.
	FleetRow = "fleet.kruise.io/row"

	// FleetRowUID is an annotation on an object that a member applied for a row of the hub. Written and read by the
	// member's agent, which touches no object without it; removed when the object is orphaned. Form: the UID of the
	// MemberWork.
	FleetRowUID = "fleet.kruise.io/row-uid"

	// FleetSourceUID is a label on a MemberWork and on a WorkContent. Written by the hub; used by it to find all rows of one
	// source, and to count unused contents. Form: the UID of the object on the hub that the row is a part of, or for which the
	// content was written first.
	FleetSourceUID = "fleet.kruise.io/source-uid"

	// FleetCluster is a label on what the hub keeps for one member (its namespace, rows, roles). Written by the hub; read
	// by it and by users. Form: the MemberCluster's name.
	FleetCluster = "fleet.kruise.io/cluster"

	// FleetClusterUID is an annotation on a member's namespace. Written by the hub when it creates the namespace; a namespace
	// without it, or with that of another MemberCluster, is not used. Form: the MemberCluster's UID.
	FleetClusterUID = "fleet.kruise.io/member-cluster-uid"

	// FleetWithdrawalsPaused is an annotation on a MemberCluster. Written by the hub when it would have withdrawn too many
	// rows of a namespace from the cluster within a minute; while the namespace is there, none of it is withdrawn. Removed by an
	// administrator to confirm. Form: names of namespaces on the hub, separated by commas, and _cluster-scoped for objects in none.
	FleetWithdrawalsPaused = "fleet.kruise.io/withdrawals-paused"

	// FleetSourceNamespace is a label on a WorkContent. Written by the hub: the namespace of the object that it was created for, whose budget
	// of bytes it uses. FleetContentBytes is an annotation beside it: how many bytes the manifest has, which is not in the metadata.
	FleetSourceNamespace = "fleet.kruise.io/source-namespace"
	FleetContentBytes    = "fleet.kruise.io/content-bytes"

	// FleetTemplate is a label on a Deployment or CloneSet on a hub that a WorkloadSpread places in clusters. Written by the user when
	// the object is created, and not changed since: no controller of the hub's own cluster makes pods of it. Form: "true"; "false" is an
	// exception in a namespace of templates.
	//
	// It is also a label on a Namespace of a hub, with which it is created: Deployments and CloneSets in it get the label, and no pods are
	// created in it.
	FleetTemplate = "fleet.kruise.io/template"

	// FleetPaused is an annotation on a Deployment with FleetTemplate, whose own spec.paused is always true. Written by the user, or
	// by the hub's webhook if the Deployment is created paused: what spec.paused is in the members. Form: "true"; anything else is
	// false.
	FleetPaused = "fleet.kruise.io/paused"
)

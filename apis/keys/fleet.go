package keys

// Keys of the hub and of the objects that it places in members.
const (
	// FleetLeave is a finalizer on MemberClusters. The hub sets it when the cluster is accepted. It is removed once the rows of a leaving
	// cluster are withdrawn according to spec.leave.policy, or the timeout has expired.
	FleetLeave = "fleet.kruise.io/leave"

	// FleetRow is a finalizer on MemberWorks. The hub sets it with the row. It is removed once the member has reported the row as withdrawn,
	// or the cluster has left. It is also on the object on the hub while that object may have rows; a member manager in the hub's cluster
	// leaves such an object alone.
	FleetRow = "fleet.kruise.io/row"

	// FleetRowUID is an annotation on objects that a member applied for a row of the hub. The member's agent sets and reads it, and touches no
	// object without it. It is removed when the object is orphaned. Format: the UID of the MemberWork.
	FleetRowUID = "fleet.kruise.io/row-uid"

	// FleetSourceUID is a label on MemberWorks, WorkContents and the hub's ControllerRevisions. The hub sets it, and uses it to find all rows of
	// one source, to count unused contents, and to cache no other revisions. Format: the UID of the object on the hub that the row was created
	// for, that the content was first written for, or that the revision belongs to.
	FleetSourceUID = "fleet.kruise.io/source-uid"

	// FleetCluster is a label on the objects that the hub keeps for one member (its namespace, rows and roles). It is set by the hub and read
	// by the hub and users. Format: the name of the MemberCluster.
	FleetCluster = "fleet.kruise.io/cluster"

	// FleetClusterUID is an annotation on the namespace of a member. The hub sets it when it creates the namespace. It doesn't use a namespace
	// that lacks the annotation or has the UID of another MemberCluster. Format: the UID of the MemberCluster.
	FleetClusterUID = "fleet.kruise.io/member-cluster-uid"

	// FleetWithdrawalsPaused is an annotation on MemberClusters. The hub adds a namespace to it when it would have withdrawn too many rows of
	// the namespace from the cluster within a minute. While the namespace is listed, nothing of it is withdrawn. An administrator removes it
	// to confirm the withdrawals. Format: a comma-separated list of namespaces on the hub, with _cluster-scoped for cluster-scoped objects.
	FleetWithdrawalsPaused = "fleet.kruise.io/withdrawals-paused"

	// FleetSourceNamespace is a label on WorkContents. The hub sets it to the namespace of the object for which the content was created, whose
	// byte budget the content counts against. FleetContentBytes is an annotation on the same objects. It is the size of the manifest in bytes,
	// which can't be told from the metadata otherwise.
	FleetSourceNamespace = "fleet.kruise.io/source-namespace"
	FleetContentBytes    = "fleet.kruise.io/content-bytes"

	// FleetTemplate is a label on Deployments and CloneSets on a hub that a WorkloadSpread places in clusters. Users set it when they create
	// the object, and it can't be changed later. No controller of the hub's own cluster creates pods for the object. Format: "true". In a
	// namespace of templates, "false" makes an exception.
	//
	// It is also a label on Namespaces of a hub, which must be set when the namespace is created. Deployments and CloneSets in such a
	// namespace get the label, and no pods are created in it.
	FleetTemplate = "fleet.kruise.io/template"

	// FleetPaused is an annotation on a Deployment with FleetTemplate, whose own spec.paused is always true. It is the value of spec.paused in
	// the members. It is set by the user, or by the hub's webhook if the Deployment is created paused. Format: "true"; anything else means
	// false.
	FleetPaused = "fleet.kruise.io/paused"
)

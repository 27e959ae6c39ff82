package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MembershipName is the name of the one Membership in a member.
const MembershipName = "default"

// MembershipSpec binds this member to a hub.
type MembershipSpec struct {
	// hub is the hub that this member is bound to. The first hub to connect is written here; another one is refused until an
	// administrator of the member edits or deletes this object. Without it the member is not bound yet; the conditions say why.
	// +optional
	Hub MembershipHub `json:"hub,omitzero"`
}

// MembershipHub names the hub that a member is bound to.
type MembershipHub struct {
	// uid is the UID of the hub's namespace kube-system.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// cluster is this member's name at that hub.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster"`
	// memberClusterUID is the UID of the MemberCluster with which this member joined. A tombstone of an earlier one of the same name
	// is not followed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MemberClusterUID string `json:"memberClusterUID,omitempty"`
	// url is where that hub's apiserver is; empty in mode Push.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`
}

// Condition types of a Membership. The agent of a pull member writes them; in mode Push the MemberCluster on the hub has the
// state of the connection.
const (
	// ConditionConnected is True while this cluster reaches the hub that it joins or has joined; otherwise it has the reason.
	ConditionConnected = "Connected"
)

// MembershipStatus is what the agent knows of the hub.
type MembershipStatus struct {
	// epoch is the lowest epoch of the hub that may delete and scale in here: the highest that a row had, or one more after a row
	// was found to be older than what was applied here, as on a hub that was restored from a backup.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// boundAt is when the member was bound to the hub.
	// +optional
	BoundAt *metav1.Time `json:"boundAt,omitempty"`
	// conditions are Connected and SkewSupported, in a member that joins by pull.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Membership is the hub that this cluster belongs to, and whether it can be reached. There is at most one, named default.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="CLUSTER",type=string,JSONPath=`.spec.hub.cluster`
// +kubebuilder:printcolumn:name="HUB",type=string,JSONPath=`.spec.hub.uid`
// +kubebuilder:printcolumn:name="EPOCH",type=integer,JSONPath=`.status.epoch`
// +kubebuilder:printcolumn:name="CONNECTED",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].reason`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one Membership in a cluster, named default"
type Membership struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the binding; empty until a hub has bound this cluster.
	// +required
	Spec MembershipSpec `json:"spec"`
	// status is what the agent has stored and observed.
	// +optional
	Status MembershipStatus `json:"status,omitempty"`
}

// MembershipList is a list of Membership.
//
// +kubebuilder:object:root=true
type MembershipList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Membership `json:"items"`
}

// AppliedWorkSpec is one line of the ledger. It is written with the object's name before the object is created, and with
// its UID afterwards, so that after a crash in between the object is not mistaken for one that existed before.
type AppliedWorkSpec struct {
	// hubUID is the UID of the hub.
	// +required
	// +kubebuilder:validation:MaxLength=64
	HubUID string `json:"hubUID"`
	// row is the row on that hub.
	// +required
	Row LedgerRow `json:"row"`
	// object is what was applied here.
	// +required
	Object LedgerObject `json:"object"`
	// fieldManager is the name under which it was applied.
	// +required
	// +kubebuilder:validation:MaxLength=128
	FieldManager string `json:"fieldManager"`
	// appliedHash is a hash of what was applied last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AppliedHash string `json:"appliedHash,omitempty"`
	// appliedGeneration is the object's generation after that apply. While both match nothing is applied again.
	// +optional
	AppliedGeneration int64 `json:"appliedGeneration,omitempty"`
	// rowGeneration is the generation of the row that was applied last.
	// +optional
	RowGeneration int64 `json:"rowGeneration,omitempty"`
	// epoch is the hub's epoch at which that was granted. A row that is older than this line at the same epoch is from a backup.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// left are fields of the manifest that others own and that were left to them at that apply, with adoption OwnFields.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	Left []string `json:"left,omitempty"`
}

// LedgerRow names a row.
type LedgerRow struct {
	// name is the row's name in fleet-<cluster>.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the row's UID.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// createdAt is when the row was created, by the hub's clock.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
}

// LedgerObject names an object in this cluster.
type LedgerObject struct {
	// apiVersion is its group and version.
	// +required
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind is its kind.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// namespace is its namespace; empty for cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name is its name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is its UID; empty until it is known. Deletes carry it as a precondition.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}

// AppliedWork is one line of the ledger of what a hub placed in this cluster. It deliberately has no owner: objects are
// deleted because a row was withdrawn, never because garbage collection cascades.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=aw
// +kubebuilder:printcolumn:name="KIND",type=string,JSONPath=`.spec.object.kind`
// +kubebuilder:printcolumn:name="NAMESPACE",type=string,JSONPath=`.spec.object.namespace`
// +kubebuilder:printcolumn:name="OBJECT",type=string,JSONPath=`.spec.object.name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type AppliedWork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the line. There is no status, because one write by one writer stores all of it.
	// +required
	Spec AppliedWorkSpec `json:"spec"`
}

// AppliedWorkList is a list of AppliedWork.
//
// +kubebuilder:object:root=true
type AppliedWorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppliedWork `json:"items"`
}

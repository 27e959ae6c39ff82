package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MembershipName is the name of the only Membership in a member.
const MembershipName = "default"

// MembershipSpec binds this member to a hub.
type MembershipSpec struct {
	// hub is the hub that this member is bound to. The first hub that connects is recorded here; other hubs are refused until an administrator
	// of the member edits or deletes this object. If unset, the member isn't bound yet, and the conditions say why.
	// +optional
	Hub MembershipHub `json:"hub,omitzero"`
}

// MembershipHub identifies the hub that a member is bound to.
type MembershipHub struct {
	// uid is the UID of the namespace kube-system in the hub's cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// cluster is the name of this member on the hub.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster"`
	// memberClusterUID is the UID of the MemberCluster that this member joined as. Tombstones of an earlier MemberCluster with the same name
	// are ignored.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MemberClusterUID string `json:"memberClusterUID,omitempty"`
	// url is the URL of the hub's apiserver. It is empty in mode Push.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`
}

// Condition types of a Membership. They are set by the agent of a pull member. In mode Push, the MemberCluster on the hub reports the state
// of the connection.
const (
	// ConditionConnected is True while this cluster can reach the hub that it has joined or is joining. Otherwise the reason says why it
	// can't.
	ConditionConnected = "Connected"
)

// MembershipStatus is the agent's knowledge of the hub.
type MembershipStatus struct {
	// epoch is the lowest epoch of the hub that may delete objects and scale them in here. It is the highest epoch of any row so far. It is
	// one more than that after a row was found to be older than what was applied here, which happens when the hub was restored from a backup.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// boundAt is the time at which the member was bound to the hub.
	// +optional
	BoundAt *metav1.Time `json:"boundAt,omitempty"`
	// conditions are the current conditions of a member in mode Pull: Connected and SkewSupported.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Membership records the hub that this cluster belongs to, and whether it can be reached. A cluster has at most one, named default.
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

	// spec is the binding to the hub. It is empty until a hub has bound this cluster.
	// +required
	Spec MembershipSpec `json:"spec"`
	// status is the observed state. It is written by the agent.
	// +optional
	Status MembershipStatus `json:"status,omitempty"`
}

// MembershipList is a list of Memberships.
//
// +kubebuilder:object:root=true
type MembershipList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Membership `json:"items"`
}

// AppliedWorkSpec is one line of the ledger. It is written with the object's name before the object is created, and updated with its UID
// afterwards. After a crash in between, the object can't be mistaken for one that existed before.
type AppliedWorkSpec struct {
	// hubUID is the UID of the hub.
	// +required
	// +kubebuilder:validation:MaxLength=64
	HubUID string `json:"hubUID"`
	// row is the row on that hub that the object was applied for.
	// +required
	Row LedgerRow `json:"row"`
	// object is the object that was applied in this cluster.
	// +required
	Object LedgerObject `json:"object"`
	// fieldManager is the field manager used for the apply.
	// +required
	// +kubebuilder:validation:MaxLength=128
	FieldManager string `json:"fieldManager"`
	// appliedHash is a hash of the manifest that was applied last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AppliedHash string `json:"appliedHash,omitempty"`
	// appliedGeneration is the generation of the object after that apply. The object isn't applied again while both the hash and the
	// generation match.
	// +optional
	AppliedGeneration int64 `json:"appliedGeneration,omitempty"`
	// rowGeneration is the generation of the row that was applied last.
	// +optional
	RowGeneration int64 `json:"rowGeneration,omitempty"`
	// epoch is the epoch of the hub that granted this row generation. A row that has the same epoch but an older generation comes from a
	// backup.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// left lists the fields of the manifest that the last apply left to other field managers, with adoption OwnFields.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	Left []string `json:"left,omitempty"`
}

// LedgerRow identifies a row.
type LedgerRow struct {
	// name is the name of the row in the hub's namespace fleet-<cluster>.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the UID of the row.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// createdAt is the creation time of the row, by the hub's clock.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
}

// LedgerObject identifies an object in this cluster.
type LedgerObject struct {
	// apiVersion is the group and version of the object.
	// +required
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind is the kind of the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// namespace is the namespace of the object. It is empty for cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the UID of the object. It is empty until it is known. Deletions use it as a precondition.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}

// AppliedWork is one line of the ledger of the objects that a hub placed in this cluster. It deliberately has no owner reference: objects
// are deleted because their row was withdrawn, never by cascading garbage collection.
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

	// spec is the content of the line. There is no status: a single writer stores everything in one write.
	// +required
	Spec AppliedWorkSpec `json:"spec"`
}

// AppliedWorkList is a list of AppliedWorks.
//
// +kubebuilder:object:root=true
type AppliedWorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppliedWork `json:"items"`
}

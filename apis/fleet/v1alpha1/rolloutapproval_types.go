package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutTargetKind is a kind whose rollouts have gates.
// +kubebuilder:validation:Enum=UnitedDeployment
type RolloutTargetKind string

// RolloutUnitedDeployment is a UnitedDeployment with updateStrategy.type Waves.
const RolloutUnitedDeployment RolloutTargetKind = "UnitedDeployment"

// RolloutTarget identifies the object that is rolled out, in the namespace of the approval.
type RolloutTarget struct {
	// kind is the kind of the object.
	// +required
	Kind RolloutTargetKind `json:"kind"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid is the UID of the object. The hub's webhook fills it in, whatever was sent: an approval doesn't count for a later object with the
	// same name.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}

// RolloutApprovalSpec says what is approved, and by whom.
type RolloutApprovalSpec struct {
	// target is the object that is rolled out.
	// +required
	Target RolloutTarget `json:"target"`

	// revision is the revision that is approved. It must be the one that is rolled out, which is in status.rollout.revision of the target. The
	// approval doesn't count for any other.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision"`

	// wave is the wave whose gate of type Approval opens. It may be approved before its clusters are updated.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self != 'rest'",message="rest is the last wave: no wave waits for its gates, so name an earlier one"
	Wave string `json:"wave"`

	// user is the name of the user who created the approval. The hub's webhook fills it in from the request, whatever was sent.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	User string `json:"user,omitempty"`
}

// RolloutApproval opens the gate of type Approval of a wave, for one revision. Who may create it may approve. It exists only on a hub.
//
// +kubebuilder:object:root=true
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target.name`
// +kubebuilder:printcolumn:name="Wave",type=string,JSONPath=`.spec.wave`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RolloutApproval struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is approved.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an approval never changes: create another one, and delete this one to take it back"
	Spec RolloutApprovalSpec `json:"spec"`
}

// RolloutApprovalList is a list of RolloutApprovals.
//
// +kubebuilder:object:root=true
type RolloutApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RolloutApproval `json:"items"`
}

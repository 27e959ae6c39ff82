package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WorkPhase is the progress of a row in the member.
// +kubebuilder:validation:Enum=Applied;Progressing;Healthy;Degraded;Blocked;Deleting;Withdrawn
type WorkPhase string

// Phases of a MemberWork.
const (
	// WorkApplied means that the object is up to date in the member, but its health is unknown.
	WorkApplied WorkPhase = "Applied"
	// WorkProgressing means that the object's own controller has not reached the desired state yet.
	WorkProgressing WorkPhase = "Progressing"
	// WorkHealthy means that all replicas are available and updated as far as the partition allows. Objects of other kinds are Healthy if
	// kstatus reports them as current.
	WorkHealthy WorkPhase = "Healthy"
	// WorkDegraded means that the object's controller reports a failure or an impossible status.
	WorkDegraded WorkPhase = "Degraded"
	// WorkBlocked means that the agent can't or must not apply the object. Reason and message give the cause.
	WorkBlocked WorkPhase = "Blocked"
	// WorkDeleting means that the row is being withdrawn, but the object still exists.
	WorkDeleting WorkPhase = "Deleting"
	// WorkWithdrawn means that the row was withdrawn. Its object is deleted (Delete) or no longer marked as the hub's (Orphan).
	WorkWithdrawn WorkPhase = "Withdrawn"
)

// Reasons for WorkBlocked and WorkDegraded.
const (
	// ReasonForeignObject means that an object with this name exists and doesn't belong to the hub.
	ReasonForeignObject = "ForeignObject"
	// ReasonNamespaceNotFound means that the namespace doesn't exist in the member.
	ReasonNamespaceNotFound = "NamespaceNotFound"
	// ReasonNamespaceNotAllowed means that the limits of the cluster forbid the namespace.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonContentNotFound means that the WorkContent of the row can't be read.
	ReasonContentNotFound = "ContentNotFound"
	// ReasonInvalid means that the member's apiserver, or one of its webhooks, rejected the object.
	ReasonInvalid = "Invalid"
	// ReasonForbidden means that the agent doesn't have permission for the object in the member.
	ReasonForbidden = "Forbidden"
	// ReasonEpochRegression means that the hub's epoch is lower than one that the member has already seen, for example after a restore of the
	// hub.
	ReasonEpochRegression = "EpochRegression"
	// ReasonDeletionsPaused means that many rows were deleted, but not by the hub.
	ReasonDeletionsPaused = "DeletionsPaused"
	// ReasonDeleteProtected means that the row was withdrawn, but a label protects its object from deletion.
	ReasonDeleteProtected = "DeleteProtected"
	// ReasonKindNotServed means that the member doesn't serve the object's kind, or only in other versions.
	ReasonKindNotServed = "KindNotServed"
	// ReasonKindNotAllowed means that the limits of the cluster forbid the kind, or that no hub places objects of this kind.
	ReasonKindNotAllowed = "KindNotAllowed"
	// ReasonError means that several attempts failed with errors that may be transient, such as a status of 500. The agent retries. Until it
	// succeeds, the rest of the report may be out of date.
	ReasonError = "Error"
	// ReasonImplausibleCounts means that the member reported impossible counts, which were clamped to possible values.
	ReasonImplausibleCounts = "ImplausibleCounts"
)

// Reasons for a row in any phase.
const (
	// ReasonSuspended means that the row is suspended. Phase and counts still describe the object.
	ReasonSuspended = "Suspended"
	// ReasonFieldsLeft means that fields owned by others were left to them, with adoption OwnFields.
	ReasonFieldsLeft = "FieldsLeft"
)

// MemberWorkSpec asks one member to run one object. Only the hub writes it.
//
// +kubebuilder:validation:XValidation:rule="(has(self.apply) || has(self.suspend) && self.suspend) == self.content.ref.startsWith('apply.')",message="content.ref begins with apply. in a row that has apply or suspend, and in no other"
type MemberWorkSpec struct {
	// source is the object on the hub that this row was created for.
	// +required
	Source WorkSource `json:"source"`
	// object is the object that the row places, if source is a Propagation or a ClusterPropagation, which place several objects.
	// +optional
	Object *WorkObject `json:"object,omitempty"`
	// content is the manifest, without the parts that differ by cluster.
	// +required
	Content WorkContentSource `json:"content"`
	// patch is a JSON merge patch (RFC 7396) that is applied to the content. It contains the parts that differ by cluster: replicas, subsets
	// and partitions. It has at most 2 KiB; a row that needs more has its own content.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch runtime.RawExtension `json:"patch,omitempty"`
	// grant contains the numbers of pods that the member may run for the object.
	// +optional
	Grant WorkGrant `json:"grant,omitempty"`
	// deletionPolicy specifies what happens to the object when the row is withdrawn. Delete deletes it, Orphan keeps it. Defaults to Delete.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy LeavePolicy `json:"deletionPolicy,omitempty"`
	// withdrawn is set by the hub before it deletes the row. If a row is deleted without it, somebody else deleted the row. The agent then
	// carries out at most ten such deletions, or 5 % of what it has applied, within a minute, and blocks the rest until withdrawn is set.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty"`
	// apply specifies how the object is applied. By default an object that exists already is not touched, and all fields of the manifest are
	// applied.
	// +optional
	Apply *WorkApply `json:"apply,omitempty"`
	// suspend stops the agent from changing the object. The row is not applied, but still reports the state of the object. If the row is
	// deleted, deletionPolicy applies nevertheless. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// AdoptionPolicy specifies what happens to an object that existed in the member before its row.
// +kubebuilder:validation:Enum=Never;IfEqual;OwnFields;Full
type AdoptionPolicy string

// Adoption policies. An adopted object belongs to the hub from then on, like an object that the hub created: it is deleted or orphaned with
// its row.
const (
	// AdoptNever doesn't adopt the object. The row is blocked.
	AdoptNever AdoptionPolicy = "Never"
	// AdoptIfEqual adopts the object if applying the manifest changes nothing. Otherwise the row is blocked.
	AdoptIfEqual AdoptionPolicy = "IfEqual"
	// AdoptOwnFields applies only the fields of the manifest that nobody else owns, now and later. Other fields are left to their owners.
	AdoptOwnFields AdoptionPolicy = "OwnFields"
	// AdoptFull applies all fields of the manifest.
	AdoptFull AdoptionPolicy = "Full"
)

// WorkApply configures how an object is applied.
type WorkApply struct {
	// adoption specifies what happens to an existing object with this name that doesn't belong to the hub. Never blocks the row. IfEqual
	// adopts the object if applying the manifest changes nothing, and blocks the row otherwise. OwnFields adopts it, but leaves fields that
	// others own to them. Full adopts it and applies all fields. Defaults to Never.
	// +optional
	// +kubebuilder:default=Never
	Adoption AdoptionPolicy `json:"adoption,omitempty"`
	// ignore lists the fields that the agent neither writes nor reverts, such as spec.replicas if an autoscaler in the member sets it. A path
	// consists of field names separated by dots. A name that contains dots is written in brackets: metadata.annotations[example.com/owner]. A
	// path leads through maps only; it can refer to a list as a whole, but not to its items. Only fields below spec and data, and single
	// labels and annotations, can be ignored. A field that is added to this list later keeps its value.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^((spec|data|binaryData|stringData)(\.[A-Za-z0-9_-]+|\[[A-Za-z0-9._/-]+\])+|metadata\.(labels|annotations)(\.[A-Za-z0-9_-]+|\[[A-Za-z0-9._/-]+\]))$`
	Ignore []string `json:"ignore,omitempty"`
}

// WorkSource identifies an object on the hub.
type WorkSource struct {
	// apiVersion is the group and version of the object.
	// +required
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind is the kind of the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// namespace is the namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the UID of the object.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// WorkObject identifies one of several objects that a source places.
type WorkObject struct {
	// apiVersion is the group and version of the object.
	// +required
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind is the kind of the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name is the name of the object. Its namespace is the namespace of the source.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the UID of the object. An object that was deleted and created again has another UID, and gets another row. Rows written by older
	// hubs don't have it until they are written again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}

// InlineContent is the ref of a row that contains its manifest inline. No WorkContent has this name, so agents that don't support inline
// manifests report the row as blocked.
const InlineContent = "inline"

// ApplyContent is the prefix of the ref of a row that has apply or suspend set. No WorkContent has such a name, so agents that don't
// support these fields report the row as blocked, instead of applying what they shouldn't.
const ApplyContent = "apply."

// WorkContentSource is the location of the manifest of a row.
//
// +kubebuilder:validation:XValidation:rule="has(self.inline) == (self.ref == 'inline' || self.ref == 'apply.inline')",message="ref is inline in a row that has its manifest inline, and in no other"
type WorkContentSource struct {
	// ref is the name of a WorkContent in the hub's namespace fleet-system, or "inline" if the manifest is inline. It has the prefix "apply."
	// in rows that have apply or suspend set.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Ref string `json:"ref"`
	// inline is the manifest as JSON text. Manifests of Secrets are always here and never in a WorkContent, so that only the member of this
	// namespace can read them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1572864
	Inline string `json:"inline,omitempty"`
}

// Name returns the name of the WorkContent, or InlineContent.
func (s WorkContentSource) Name() string { return strings.TrimPrefix(s.Ref, ApplyContent) }

// WorkGrant contains the numbers that a member may act on. They are absolute; a newer grant replaces an older one.
type WorkGrant struct {
	// epoch is the epoch of the hub that issued the grant. A member that has seen a higher epoch neither deletes objects nor scales them in.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`
	// replicas is the total number of replicas over all subsets.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`
	// revision is the name of the revision on the hub that the content belongs to. It is set only for objects that a hub rolls out over
	// clusters.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`
	// subsets are the grants by subset. lower and upper are the bounds of what the member may be running until it has acknowledged this
	// generation of the row; after that both equal replicas.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Subsets []SubsetGrant `json:"subsets,omitempty"`
}

// SubsetGrant is the grant of one subset.
type SubsetGrant struct {
	// name is the name of the subset.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// replicas is the number of pods that the subset may run.
	// +required
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// partition is the number of these pods that stay at the old revision.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Partition int32 `json:"partition,omitempty"`
	// lower is the smallest number of pods that the member may be running until it acknowledges the grant.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Lower int32 `json:"lower,omitempty"`
	// upper is the largest number of pods that the member may be running until it acknowledges the grant.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Upper int32 `json:"upper,omitempty"`
	// maxUnavailable is the maximum number of pods that may be unavailable while the subset is updated; 0 means that no update begins. If
	// unset, the template decides. It is set only for objects that a hub rolls out over clusters, like the bounds below.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxUnavailable *int32 `json:"maxUnavailable,omitempty"`
	// unavailableUpper is the largest maxUnavailable that the member may be acting on until it acknowledges the grant.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnavailableUpper int32 `json:"unavailableUpper,omitempty"`
	// updatedUpper is the largest number of pods that the member may update to the new revision until it acknowledges the grant.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UpdatedUpper int32 `json:"updatedUpper,omitempty"`
	// firstOrdinal is the start of the subset's range of 10,000 ordinals, if its pods have ordinals. No other row uses the range while this
	// row names it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FirstOrdinal *int32 `json:"firstOrdinal,omitempty"`
}

// MemberWorkStatus is the report of the member's agent about a row. It has at most 4 KiB, typically 400 bytes. Only the agent writes it.
// The hub doesn't trust it: it clamps numbers to possible values.
type MemberWorkStatus struct {
	// observedGeneration is the generation of the row that the rest of the status describes. The agent has applied it, and the object's own
	// controller has observed it.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is the progress of the row in the member.
	// +optional
	Phase WorkPhase `json:"phase,omitempty"`
	// reason is a CamelCase word that says why the row is Blocked or Degraded, or gives other information about it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message says what is wrong and what to do about it.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
	// revision is the revision that the object's controller is updating to.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`
	// counts are the numbers of pods, summed over all subsets.
	// +optional
	Counts WorkCounts `json:"counts,omitempty"`
	// subsets are the numbers of pods by subset.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Subsets []SubsetCounts `json:"subsets,omitempty"`
	// drift lists the paths that others changed in the member since the last report and that the agent reverted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=128
	Drift []string `json:"drift,omitempty"`
}

// WorkCounts contains numbers of pods.
type WorkCounts struct {
	// desired is the number of pods that the object in the member asks for.
	// +optional
	Desired int32 `json:"desired,omitempty"`
	// replicas is the number of existing pods.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ready is the number of ready pods.
	// +optional
	Ready int32 `json:"ready,omitempty"`
	// available is the number of pods that have been ready for long enough.
	// +optional
	Available int32 `json:"available,omitempty"`
	// updated is the number of pods at the newest revision.
	// +optional
	Updated int32 `json:"updated,omitempty"`
	// updatedReady is the number of ready pods at the newest revision.
	// +optional
	UpdatedReady int32 `json:"updatedReady,omitempty"`
	// updatedAvailable is the number of available pods at the newest revision.
	// +optional
	UpdatedAvailable int32 `json:"updatedAvailable,omitempty"`
	// unschedulable is the number of pods that could not be scheduled for longer than the object allows.
	// +optional
	Unschedulable int32 `json:"unschedulable,omitempty"`
}

// SubsetCounts contains the numbers of pods of one subset.
type SubsetCounts struct {
	// name is the name of the subset.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// partition is the partition that is in force.
	// +optional
	Partition int32 `json:"partition,omitempty"`

	WorkCounts `json:",inline"`
}

// MemberWork is a row: an object that the hub wants in one member, and its state there.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=mw
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.content.ref`
// +kubebuilder:printcolumn:name="KIND",type=string,JSONPath=`.spec.source.kind`
// +kubebuilder:printcolumn:name="SOURCE",type=string,JSONPath=`.spec.source.name`
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="GRANTED",type=integer,JSONPath=`.spec.grant.replicas`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.counts.ready`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type MemberWork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the request of the hub. Like status it is atomic: each has a single writer, and tracking the owners of individual fields would
	// only make every row larger.
	// +required
	// +structType=atomic
	Spec MemberWorkSpec `json:"spec"`
	// status is the report of the member's agent.
	// +optional
	// +structType=atomic
	Status MemberWorkStatus `json:"status,omitempty"`
}

// MemberWorkList is a list of MemberWorks.
//
// +kubebuilder:object:root=true
type MemberWorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MemberWork `json:"items"`
}

// WorkContent is a manifest that rows refer to. Its name is a keyed hash of its bytes: it can't be guessed, and the content never changes.
// Members can get a WorkContent by name, but can't list them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=wc
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.manifest == oldSelf.manifest",message="a WorkContent never changes: the hub writes a new one"
type WorkContent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// manifest is the object to apply as JSON text, without the parts that differ by cluster. It is a string so that the bytes from which the
	// name is computed are preserved.
	// +required
	// +kubebuilder:validation:MaxLength=1048576
	Manifest string `json:"manifest"`
}

// WorkContentList is a list of WorkContents.
//
// +kubebuilder:object:root=true
type WorkContentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkContent `json:"items"`
}

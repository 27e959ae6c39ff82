package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WorkPhase is the progress of a member with a row.
// +kubebuilder:validation:Enum=Applied;Progressing;Healthy;Degraded;Blocked;Deleting;Withdrawn
type WorkPhase string

// Phases of a MemberWork.
const (
	// WorkApplied: the object is up to date in the member; its health is not known.
	WorkApplied WorkPhase = "Applied"
	// WorkProgressing: the object's own controller has not reached the desired state.
	WorkProgressing WorkPhase = "Progressing"
	// WorkHealthy: all replicas are available and updated as far as the partition allows; other kinds: current by kstatus.
	WorkHealthy WorkPhase = "Healthy"
	// WorkDegraded: the object's controller reports a failure, or an impossible status.
	WorkDegraded WorkPhase = "Degraded"
	// WorkBlocked: the agent must not or cannot apply it; reason and message have the cause.
	WorkBlocked WorkPhase = "Blocked"
	// WorkDeleting: the row is being withdrawn; the object still exists.
	WorkDeleting WorkPhase = "Deleting"
	// WorkWithdrawn: the row was withdrawn; its object is deleted (Delete) or no longer marked as ours (Orphan).
	WorkWithdrawn WorkPhase = "Withdrawn"
)

// Reasons of WorkBlocked and WorkDegraded.
const (
	// ReasonForeignObject: an object of that name exists and is not ours.
	ReasonForeignObject = "ForeignObject"
	// ReasonNamespaceNotFound: the member has no such namespace.
	ReasonNamespaceNotFound = "NamespaceNotFound"
	// ReasonNamespaceNotAllowed: the cluster's limits forbid the namespace.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonContentNotFound: the row's WorkContent can't be read.
	ReasonContentNotFound = "ContentNotFound"
	// ReasonInvalid: the member's apiserver, or one of its webhooks, refused the object.
	ReasonInvalid = "Invalid"
	// ReasonForbidden: the agent has no right to the object in the member.
	ReasonForbidden = "Forbidden"
	// ReasonEpochRegression: the hub's epoch is lower than one the member has seen (a restored hub).
	ReasonEpochRegression = "EpochRegression"
	// ReasonDeletionsPaused: many rows were deleted, and not by the hub.
	ReasonDeletionsPaused = "DeletionsPaused"
	// ReasonDeleteProtected: the row was withdrawn, and a label protects its object from deletion.
	ReasonDeleteProtected = "DeleteProtected"
	// ReasonKindNotServed: the member does not serve the object's kind, or serves other versions of it only.
	ReasonKindNotServed = "KindNotServed"
	// ReasonKindNotAllowed: the cluster's limits forbid the kind, or it is one that no hub places.
	ReasonKindNotAllowed = "KindNotAllowed"
	// ReasonError: several attempts have failed, each with an answer that may be another one next time, such as a status of 500. It is tried
	// again, and what is reported else may be old.
	ReasonError = "Error"
	// ReasonNonsense: the counts that the member reported are impossible and were cut to possible ones.
	ReasonNonsense = "NonsenseCounts"
)

// Reasons of a row in any phase.
const (
	// ReasonSuspended: the row is suspended; what its object is, the phase and the counts say.
	ReasonSuspended = "Suspended"
	// ReasonFieldsLeft: with adoption OwnFields, fields that others own have been left to them.
	ReasonFieldsLeft = "FieldsLeft"
)

// MemberWorkSpec asks one member for one object. Only the hub writes it.
//
// +kubebuilder:validation:XValidation:rule="(has(self.apply) || has(self.suspend) && self.suspend) == self.content.ref.startsWith('apply.')",message="content.ref begins with apply. in a row that has apply or suspend, and in no other"
type MemberWorkSpec struct {
	// source is the object on the hub that this row is a part of.
	// +required
	Source WorkSource `json:"source"`
	// object is the one object of several that source stands for, of which this row is, if it is a Propagation or a ClusterPropagation.
	// +optional
	Object *WorkObject `json:"object,omitempty"`
	// content is the manifest without what differs by cluster.
	// +required
	Content WorkContentSource `json:"content"`
	// patch is a JSON merge patch (RFC 7396) on the content: what differs by cluster (replicas, subsets, partitions).
	// At most 2 KiB; a row that needs more has content of its own.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch runtime.RawExtension `json:"patch,omitempty"`
	// grant is what the member may run of the object.
	// +optional
	Grant WorkGrant `json:"grant,omitempty"`
	// deletionPolicy is what happens to the object when the row is withdrawn: Delete (default) or Orphan.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy LeavePolicy `json:"deletionPolicy,omitempty"`
	// withdrawn is set by the hub before it deletes the row. A row that is deleted without it was deleted by somebody else: the
	// agent follows at most ten such deletions, or 5 % of what it has applied, within a minute, and blocks the rest until this
	// is true.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty"`
	// apply is how the object is applied, where it is not by default: an object that exists already is not touched, and all
	// fields of the manifest are applied.
	// +optional
	Apply *WorkApply `json:"apply,omitempty"`
	// suspend stops the agent from changing the object: the row reports its state and is not applied. The deletion of the row is
	// carried out nevertheless, by deletionPolicy.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// AdoptionPolicy is what happens to an object that exists in the member before its row does.
// +kubebuilder:validation:Enum=Never;IfEqual;OwnFields;Full
type AdoptionPolicy string

// Adoption policies. An object that is adopted is the hub's from then on, like one that it has made: it is deleted or orphaned
// with its row.
const (
	// AdoptNever blocks the row.
	AdoptNever AdoptionPolicy = "Never"
	// AdoptIfEqual adopts the object if to apply the manifest would change nothing; otherwise the row is blocked.
	AdoptIfEqual AdoptionPolicy = "IfEqual"
	// AdoptOwnFields applies the fields of the manifest that nobody else owns, now and later. The others are left to their owners.
	AdoptOwnFields AdoptionPolicy = "OwnFields"
	// AdoptFull applies all fields of the manifest.
	AdoptFull AdoptionPolicy = "Full"
)

// WorkApply is how an object is applied.
type WorkApply struct {
	// adoption is what happens to an object of that name that is not the hub's. Default Never.
	// +optional
	// +kubebuilder:default=Never
	Adoption AdoptionPolicy `json:"adoption,omitempty"`
	// ignore are fields that the agent neither writes nor reverts, such as spec.replicas where the member has an autoscaler. A path
	// is names with dots; a name with dots of its own is in brackets: metadata.annotations[example.com/owner]. It leads to a field
	// in maps; of a list it names the whole. Only fields below spec and data, and single labels and annotations, can be ignored. A
	// field that is ignored later keeps its value.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^((spec|data|binaryData|stringData)(\.[A-Za-z0-9_-]+|\[[A-Za-z0-9._/-]+\])+|metadata\.(labels|annotations)(\.[A-Za-z0-9_-]+|\[[A-Za-z0-9._/-]+\]))$`
	Ignore []string `json:"ignore,omitempty"`
}

// WorkSource names an object on the hub.
type WorkSource struct {
	// apiVersion is its group and version.
	// +required
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind is its kind.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// namespace is its namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name is its name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is its UID.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// WorkObject names an object that a source places beside others.
type WorkObject struct {
	// apiVersion is its group and version.
	// +required
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind is its kind.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name is its name. Its namespace is that of source.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is its UID. An object that was deleted and created again is another one, and gets another row. Rows of older hubs lack it until
	// they are written again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}

// InlineContent is the ref of a row that has its manifest inline. No WorkContent has that name, so an agent which does not know inline
// manifests reports the row as blocked.
const InlineContent = "inline"

// ApplyContent precedes the ref of a row that has apply or suspend. No WorkContent has such a name, so an agent which does not know
// these fields reports the row as blocked, and does not apply what it should not.
const ApplyContent = "apply."

// WorkContentSource is where the manifest of a row is.
//
// +kubebuilder:validation:XValidation:rule="has(self.inline) == (self.ref == 'inline' || self.ref == 'apply.inline')",message="ref is inline in a row that has its manifest inline, and in no other"
type WorkContentSource struct {
	// ref names a WorkContent in the hub's namespace fleet-system, or is inline; after apply. in a row that has apply or suspend.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Ref string `json:"ref"`
	// inline is the manifest, as JSON text. A manifest with a Secret is here and never in a WorkContent: only the member of this
	// namespace may read it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1572864
	Inline string `json:"inline,omitempty"`
}

// Name returns the name of the WorkContent, or InlineContent.
func (s WorkContentSource) Name() string { return strings.TrimPrefix(s.Ref, ApplyContent) }

// WorkGrant holds the numbers that a member may act on. They are absolute; a newer grant replaces an older one.
type WorkGrant struct {
	// epoch is the epoch of the hub that granted. A member that has seen a higher one neither deletes nor scales in.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`
	// replicas is the sum over subsets.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`
	// subsets is the grant by subset. lower and upper bound what the member may be running until it has acknowledged
	// this generation of the row; once it has, both equal replicas.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Subsets []SubsetGrant `json:"subsets,omitempty"`
}

// SubsetGrant is the grant of one subset.
type SubsetGrant struct {
	// name is the subset's name in the slice.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// replicas is how many pods the subset may run.
	// +required
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// partition is how many of them stay at the old revision.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Partition int32 `json:"partition,omitempty"`
	// lower is the smallest number that the member may be running until it acknowledges the grant.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Lower int32 `json:"lower,omitempty"`
	// upper is the largest number that the member may be running until it acknowledges the grant.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Upper int32 `json:"upper,omitempty"`
	// firstOrdinal begins the subset's range of 10,000 ordinals, where its pods have ordinals. No other row has the range while
	// this one names it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FirstOrdinal *int32 `json:"firstOrdinal,omitempty"`
}

// MemberWorkStatus is what the member's agent reports of a row: at most 4 KiB, typically 400 bytes. Only the agent
// writes it, and the hub does not trust it: numbers are cut to what is possible.
type MemberWorkStatus struct {
	// observedGeneration is the generation of the row that the numbers below belong to: the agent applied it and the
	// object's own controller has seen it.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is the progress of the member.
	// +optional
	Phase WorkPhase `json:"phase,omitempty"`
	// reason is a CamelCase word: why the row is Blocked or Degraded, or what else is to be known of it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message is what is wrong and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
	// revision is the revision that the object's controller updates to.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`
	// counts sums the subsets.
	// +optional
	Counts WorkCounts `json:"counts,omitempty"`
	// subsets are the counts by subset.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Subsets []SubsetCounts `json:"subsets,omitempty"`
	// drift lists the paths that others changed in the member since the last report, and that were reverted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=128
	Drift []string `json:"drift,omitempty"`
}

// WorkCounts are numbers of pods.
type WorkCounts struct {
	// desired is how many the object in the member asks for.
	// +optional
	Desired int32 `json:"desired,omitempty"`
	// replicas is how many there are.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ready is how many are ready.
	// +optional
	Ready int32 `json:"ready,omitempty"`
	// available is how many have been ready for long enough.
	// +optional
	Available int32 `json:"available,omitempty"`
	// updated is how many are at the newest revision.
	// +optional
	Updated int32 `json:"updated,omitempty"`
	// updatedReady is how many of those are ready.
	// +optional
	UpdatedReady int32 `json:"updatedReady,omitempty"`
	// unschedulable is how many could not be scheduled for longer than the object allows.
	// +optional
	Unschedulable int32 `json:"unschedulable,omitempty"`
}

// SubsetCounts are the numbers of one subset.
type SubsetCounts struct {
	// name is the subset's name in the slice.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// partition is the partition in force.
	// +optional
	Partition int32 `json:"partition,omitempty"`

	WorkCounts `json:",inline"`
}

// MemberWork is a row: one object that the hub wants in one member, and its state there.
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

	// spec is what the hub asks for. It is atomic, as status is: each has one writer, so that a list of who owns which field
	// would only make every row longer.
	// +required
	// +structType=atomic
	Spec MemberWorkSpec `json:"spec"`
	// status is what the member's agent reports.
	// +optional
	// +structType=atomic
	Status MemberWorkStatus `json:"status,omitempty"`
}

// MemberWorkList is a list of MemberWork.
//
// +kubebuilder:object:root=true
type MemberWorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MemberWork `json:"items"`
}

// WorkContent is a manifest that rows refer to. Its name is a keyed hash of its bytes: it can't be guessed, and it is
// never changed. Members may get one by name and not list them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=wc
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.manifest == oldSelf.manifest",message="a WorkContent never changes: the hub writes a new one"
type WorkContent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// manifest is the object to apply, as JSON text, without what differs by cluster. It is a string so that its bytes
	// stay those that the name was computed from.
	// +required
	// +kubebuilder:validation:MaxLength=1048576
	Manifest string `json:"manifest"`
}

// WorkContentList is a list of WorkContent.
//
// +kubebuilder:object:root=true
type WorkContentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkContent `json:"items"`
}

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterMode is who opens the connection between hub and member.
// +kubebuilder:validation:Enum=Pull;Push
type ClusterMode string

// Modes of a MemberCluster.
const (
	// ModePull: the agent in the member connects to the hub with a client certificate of its own.
	ModePull ClusterMode = "Pull"
	// ModePush: the hub connects to the member with a kubeconfig from a Secret of its own, or of Cluster API.
	ModePush ClusterMode = "Push"
)

// ClusterPhase is a human-readable one-word summary of status.conditions.
// +kubebuilder:validation:Enum=Pending;Joining;Ready;Unreachable;Leaving
type ClusterPhase string

// Phases of a MemberCluster.
const (
	// ClusterPending: not accepted yet; nothing is prepared for it.
	ClusterPending ClusterPhase = "Pending"
	// ClusterJoining: accepted, but its agent was not seen yet.
	ClusterJoining ClusterPhase = "Joining"
	// ClusterReady: its agent renews its Lease, and the member is bound to this hub.
	ClusterReady ClusterPhase = "Ready"
	// ClusterUnreachable: no renewal was seen for failAfterSeconds; its numbers are frozen.
	ClusterUnreachable ClusterPhase = "Unreachable"
	// ClusterLeaving: the object is being deleted; rows are withdrawn by spec.leave.policy.
	ClusterLeaving ClusterPhase = "Leaving"
)

// LeavePolicy is what happens to the objects that the hub placed in a member that leaves.
// +kubebuilder:validation:Enum=Orphan;Delete
type LeavePolicy string

// Leave policies; the deletion policy of a row has the same values.
const (
	// LeaveOrphan keeps the objects and removes our annotation and managed fields from them.
	LeaveOrphan LeavePolicy = "Orphan"
	// LeaveDelete deletes them, by UID.
	LeaveDelete LeavePolicy = "Delete"
)

// MemberClusterSpec is what an administrator of the fleet configures for one cluster.
// +kubebuilder:validation:XValidation:rule="self.mode != 'Push' || has(self.push)",message="mode Push needs push.kubeconfigSecretRef or push.capiClusterRef: name the Secret with the member's kubeconfig, or the Cluster of Cluster API"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Pull' || !has(self.push)",message="push is for mode Push only: remove push or set mode: Push"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Push' || !has(self.pull)",message="pull is for mode Pull only: remove pull or set mode: Pull"
type MemberClusterSpec struct {
	// mode is who opens the connection: Pull (the member's agent, the default) or Push (the hub).
	// It can't change once the cluster has joined: let it leave and join again.
	// +optional
	// +kubebuilder:default=Pull
	Mode ClusterMode `json:"mode,omitempty"`

	// push is how the hub connects to a member in mode Push.
	// +optional
	Push *PushAccess `json:"push,omitempty"`

	// pull configures the certificate of a member in mode Pull.
	// +optional
	Pull *PullAccess `json:"pull,omitempty"`

	// accepted admits the cluster to the fleet. While it is false nothing is prepared for the cluster, no certificate is signed
	// and no work is sent; setting it back to false freezes the cluster. Changing it needs the verb "accept" on
	// memberclusters besides "update".
	// +optional
	Accepted bool `json:"accepted,omitempty"`

	// identity is the identity of the cluster. The hub writes it at the first join; from then on a cluster with another UID is
	// refused, so that another cluster can't use the name.
	// +optional
	Identity *ClusterIdentity `json:"identity,omitempty"`

	// region is where the cluster runs, as information for users and selectors.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`

	// zone is the failure zone that the cluster runs in.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`

	// provider is who runs the cluster's machines.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider,omitempty"`

	// taints keep objects away that do not tolerate them. Key and effect together are unique.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=16
	Taints []ClusterTaint `json:"taints,omitempty"`

	// limits bounds what the hub may ask of this cluster.
	// +optional
	Limits *ClusterLimits `json:"limits,omitempty"`

	// heartbeat is after how long a member without renewals is unreachable, and one that renews again is ready.
	// +optional
	// +kubebuilder:default={}
	Heartbeat Heartbeat `json:"heartbeat,omitempty"`

	// leave is what happens to the placed objects when this MemberCluster is deleted.
	// +optional
	// +kubebuilder:default={}
	Leave Leave `json:"leave,omitempty"`
}

// PushAccess is where the kubeconfig of a member is: in a named Secret, or in that of a Cluster of Cluster API.
// +kubebuilder:validation:XValidation:rule="has(self.kubeconfigSecretRef) != has(self.capiClusterRef)",message="push needs exactly one of kubeconfigSecretRef and capiClusterRef: remove one, or name a Secret or a Cluster"
type PushAccess struct {
	// kubeconfigSecretRef names the Secret. Its kubeconfig must carry its credentials inline: exec plugins, auth
	// providers and file paths are refused, because they would run or read on the hub.
	// +optional
	KubeconfigSecretRef *SecretKeyRef `json:"kubeconfigSecretRef,omitempty"`

	// capiClusterRef names a Cluster of Cluster API on the hub. The kubeconfig is the one that Cluster API keeps in Secret
	// <name>-kubeconfig beside it; the same is refused in it. The hub connects once the Cluster's control plane is
	// initialized. When the Cluster is deleted, the hub deletes this MemberCluster, which leaves by spec.leave.
	// +optional
	CAPIClusterRef *CAPIClusterRef `json:"capiClusterRef,omitempty"`
}

// CAPIClusterRef points to a Cluster of Cluster API on the hub.
type CAPIClusterRef struct {
	// namespace is the Cluster's namespace. The hub may read Clusters and their kubeconfigs only where its chart allows it
	// (value clusterAPI.namespaces): by default nowhere.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name is the Cluster's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// SecretKeyRef points to one key of a Secret on the hub.
type SecretKeyRef struct {
	// namespace is the Secret's namespace. The hub may read Secrets only where its chart allows it: by default in its own
	// namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name is the Secret's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key is the key that holds the kubeconfig; default "value", as Cluster API writes it.
	// +optional
	// +kubebuilder:default=value
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// PullAccess configures the client certificate of a pull member.
type PullAccess struct {
	// certTTLSeconds is the lifetime that the agent requests for its client certificate; default 86400 (a day), at least 600, the
	// minimum of Kubernetes. The signer may give less. The certificate is renewed at 70 % of its lifetime.
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=31536000
	CertTTLSeconds int32 `json:"certTTLSeconds,omitempty"`
}

// ClusterIdentity distinguishes a cluster from another one of the same name.
type ClusterIdentity struct {
	// clusterUID is the UID of the member's namespace kube-system.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID"`
}

// ClusterLimits bounds what the hub asks of a cluster.
type ClusterLimits struct {
	// maxReplicasPerObject caps the replicas that one object may get in this cluster; unset means no cap.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxReplicasPerObject *int32 `json:"maxReplicasPerObject,omitempty"`
	// qps caps the agent's requests per second to this member's apiserver; default 20.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	QPS int32 `json:"qps,omitempty"`
	// burst is how many requests the agent may send at once; default 40.
	// +optional
	// +kubebuilder:default=40
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2000
	Burst int32 `json:"burst,omitempty"`
	// allowedNamespaces lists the namespaces that objects may be placed in; empty means all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	AllowedNamespaces []string `json:"allowedNamespaces,omitempty"`
	// allowedKinds lists the kinds of objects that may be placed; empty means all. An object needs all kinds that the hub makes of it
	// in a member: a WorkloadSpread needs that of its workload too.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=64
	AllowedKinds []GroupKind `json:"allowedKinds,omitempty"`
}

// GroupKind names a kind, in any version.
type GroupKind struct {
	// group is its API group; empty is the core group.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	Group string `json:"group"`
	// kind is its kind, such as Deployment.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind"`
}

// MaxServedKinds is how many kinds status.kinds of a MemberCluster can have.
const MaxServedKinds = 128

// ServedKind is a kind that a member serves, and that its agent may write.
type ServedKind struct {
	// group is its API group; empty is the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// kind is its kind.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// versions are the versions that are served, sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	Versions []string `json:"versions,omitempty"`
}

// Heartbeat holds the times after which a member counts as unreachable or ready. All durations are measured with the hub's clock,
// from when it sees a renewal; the clocks of members don't matter.
// +kubebuilder:validation:XValidation:rule="!has(self.failAfterSeconds) || !has(self.leaseSeconds) || self.failAfterSeconds > self.leaseSeconds",message="failAfterSeconds must be greater than leaseSeconds, or each late renewal would count as a failure"
type Heartbeat struct {
	// leaseSeconds is the duration of the Lease; the agent renews it every third of that. Default 15.
	// +optional
	// +kubebuilder:default=15
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	LeaseSeconds int32 `json:"leaseSeconds,omitempty"`
	// failAfterSeconds is how long no renewal may be seen before the cluster is Unreachable. Default 45.
	// +optional
	// +kubebuilder:default=45
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=86400
	FailAfterSeconds int32 `json:"failAfterSeconds,omitempty"`
	// recoverAfterSeconds is how long an unreachable cluster must renew without a gap before it is Ready again.
	// Default 60.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	RecoverAfterSeconds int32 `json:"recoverAfterSeconds,omitempty"`
}

// Leave is how a cluster leaves the fleet.
type Leave struct {
	// policy is Orphan (default: keep the placed objects, without our annotation and managed fields) or Delete.
	// +optional
	// +kubebuilder:default=Orphan
	Policy LeavePolicy `json:"policy,omitempty"`
	// timeoutSeconds is how long the hub waits for the member to finish. After it the hub leaves a tombstone, which
	// the member follows when it is back, and forgets the cluster. Default 600.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// Condition types of a MemberCluster. The member's agent writes APIHealthy, OwnedByThisHub and Released; the hub
// writes the others. Each has one writer.
const (
	// ConditionReady is the summary: accepted, alive, bound to this hub and healthy.
	ConditionReady = "Ready"
	// ConditionAccepted is True while spec.accepted is.
	ConditionAccepted = "Accepted"
	// ConditionCredentialValid is True while the hub has a usable kubeconfig (Push), or has signed the agent's request (Pull).
	ConditionCredentialValid = "CredentialValid" //nolint:gosec // a condition, not a credential
	// ConditionProvisioned is True while Cluster API says that the cluster of push.capiClusterRef has an initialized control plane
	// and is not being deleted. Other members do not have it.
	ConditionProvisioned = "Provisioned"
	// ConditionHeartbeatFresh follows the Lease, with hysteresis.
	ConditionHeartbeatFresh = "HeartbeatFresh"
	// ConditionAPIHealthy is True while the member's own apiserver answers the agent.
	ConditionAPIHealthy = "APIHealthy"
	// ConditionOwnedByThisHub is False where the member is bound to another hub.
	ConditionOwnedByThisHub = "OwnedByThisHub"
	// ConditionSkewSupported is False where the versions of hub and agent are too far apart to work together. It exists
	// once the agent has reported its version. In a pull member the agent writes one on its Membership too.
	ConditionSkewSupported = "SkewSupported"
	// ConditionSchedulable is False where the cluster has taints.
	ConditionSchedulable = "Schedulable"
	// ConditionReleased is True when a leaving member has removed its binding: nothing of this hub is left in it.
	ConditionReleased = "Released"
)

// ReasonUnsteady is the reason of condition Ready while the member's reports change so often that the hub does not believe them.
const ReasonUnsteady = "Unsteady"

// MemberClusterStatus is the observed state of a member cluster, as hub and agent report it.
type MemberClusterStatus struct {
	// observedGeneration is the generation of the spec that the hub acted on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is a human-readable summary; automation should read conditions.
	// +optional
	Phase ClusterPhase `json:"phase,omitempty"`
	// conditions are Ready, Accepted, Provisioned, CredentialValid, HeartbeatFresh, SkewSupported, Schedulable (by the hub), APIHealthy,
	// OwnedByThisHub and Released (by the agent).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// hub identifies this hub; the agent binds the member to it. Written by the hub.
	// +optional
	Hub *HubIdentity `json:"hub,omitempty"`
	// clusterUID is the identity of the member. Written by the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`
	// credential describes the certificate that the agent uses. Written by the agent; the hub does not trust it for
	// access, only shows it.
	// +optional
	Credential *CredentialStatus `json:"credential,omitempty"`
	// kubernetesVersion is the version of the member's apiserver. Written by the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// agentVersion is the version of the agent. Written by the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AgentVersion string `json:"agentVersion,omitempty"`
	// kinds are those that the member serves and that the agent may write, sorted by group and kind. Empty: not known. A list of 128 may
	// lack others. Written by the agent. The hub places nothing new of a kind that is not in it; it withdraws nothing because of it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Kinds []ServedKind `json:"kinds,omitempty"`
	// unclaimedObjects is how many objects the member applied for rows that do not exist on the hub: after a restore of the member
	// or of the hub, or when a row was removed by force. They stay until an administrator of the member decides. Written by the
	// agent.
	// +optional
	UnclaimedObjects int32 `json:"unclaimedObjects,omitempty"`
	// rows counts the rows of this cluster. Written by the hub.
	// +optional
	Rows *RowCounts `json:"rows,omitempty"`
}

// HubIdentity identifies a hub.
type HubIdentity struct {
	// uid is the UID of the hub's namespace kube-system.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// epoch grows each time a hub is promoted, for example after a restore. A member stores the highest that it has seen.
	// +required
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch"`
	// version is the version of the hub's program. An agent takes no work of a hub whose version is too far from its own.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// CredentialStatus describes a client certificate.
type CredentialStatus struct {
	// notAfter is when it expires.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// lastRenewal is when the agent got it.
	// +optional
	LastRenewal *metav1.Time `json:"lastRenewal,omitempty"`
	// serial is its serial number, hexadecimal.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Serial string `json:"serial,omitempty"`
}

// RowCounts counts the rows of a cluster by their phase.
type RowCounts struct {
	// total is how many rows there are.
	// +optional
	Total int32 `json:"total"`
	// applied is how many were applied at their present generation.
	// +optional
	Applied int32 `json:"applied"`
	// healthy is how many are Healthy.
	// +optional
	Healthy int32 `json:"healthy"`
	// degraded is how many are Blocked or Degraded.
	// +optional
	Degraded int32 `json:"degraded"`
}

// MemberCluster is one cluster of the fleet, as the hub knows it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mc
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="MODE",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="ACCEPTED",type=boolean,JSONPath=`.spec.accepted`
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="SCHEDULABLE",type=string,JSONPath=`.status.conditions[?(@.type=="Schedulable")].status`,priority=1
// +kubebuilder:printcolumn:name="ROWS",type=integer,JSONPath=`.status.rows.total`
// +kubebuilder:printcolumn:name="VERSION",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="the name of a member cluster has at most 40 characters, because namespaces and subset names are made of it"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a member cluster is a DNS label: lower case letters, digits and '-'"
// +kubebuilder:validation:XValidation:rule="self.metadata.name != 'system'",message="the name system is taken: fleet-system is the hub's own namespace"
// +kubebuilder:validation:XValidation:rule="self.metadata.name != 'local'",message="the name local is reserved for the hub's own cluster: choose another name for a member"
type MemberCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what an administrator configures for the cluster.
	// +required
	Spec MemberClusterSpec `json:"spec"`
	// status is the observed state, as hub and agent report it.
	// +optional
	Status MemberClusterStatus `json:"status,omitempty"`
}

// MemberClusterList is a list of MemberCluster.
//
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MemberCluster `json:"items"`
}

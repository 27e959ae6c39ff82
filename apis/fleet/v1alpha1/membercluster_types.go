package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterMode specifies which side opens the connection between hub and member.
// +kubebuilder:validation:Enum=Pull;Push
type ClusterMode string

// Modes of a MemberCluster.
const (
	// ModePull means that the agent in the member connects to the hub with its own client certificate.
	ModePull ClusterMode = "Pull"
	// ModePush means that the hub connects to the member with a kubeconfig from a Secret on the hub, or from Cluster API.
	ModePush ClusterMode = "Push"
)

// ClusterPhase is a human-readable one-word summary of status.conditions.
// +kubebuilder:validation:Enum=Pending;Joining;Ready;Unreachable;Leaving
type ClusterPhase string

// Phases of a MemberCluster.
const (
	// ClusterPending means that the cluster is not accepted yet. Nothing is prepared for it.
	ClusterPending ClusterPhase = "Pending"
	// ClusterJoining means that the cluster is accepted, but the hub has not heard from its agent yet.
	ClusterJoining ClusterPhase = "Joining"
	// ClusterReady means that the agent renews its Lease and the member is bound to this hub.
	ClusterReady ClusterPhase = "Ready"
	// ClusterUnreachable means that the hub has seen no renewal for failAfterSeconds. The counts of the cluster are frozen.
	ClusterUnreachable ClusterPhase = "Unreachable"
	// ClusterLeaving means that the MemberCluster is being deleted. Its rows are withdrawn according to spec.leave.policy.
	ClusterLeaving ClusterPhase = "Leaving"
)

// LeavePolicy specifies what happens to the objects that the hub placed in a member when it leaves.
// +kubebuilder:validation:Enum=Orphan;Delete
type LeavePolicy string

// Leave policies. The deletion policy of a row has the same values.
const (
	// LeaveOrphan keeps the objects, and removes the hub's annotation and managed fields from them.
	LeaveOrphan LeavePolicy = "Orphan"
	// LeaveDelete deletes the objects by UID.
	LeaveDelete LeavePolicy = "Delete"
)

// MemberClusterSpec is the configuration of one cluster. It is written by an administrator of the fleet.
// +kubebuilder:validation:XValidation:rule="self.mode != 'Push' || has(self.push)",message="mode Push needs push.kubeconfigSecretRef or push.capiClusterRef: name the Secret with the member's kubeconfig, or the Cluster of Cluster API"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Pull' || !has(self.push)",message="push is for mode Push only: remove push or set mode: Push"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Push' || !has(self.pull)",message="pull is for mode Pull only: remove pull or set mode: Pull"
type MemberClusterSpec struct {
	// mode specifies which side opens the connection. With Pull, the agent in the member connects to the hub. With Push, the hub connects to
	// the member. The mode can't change after the cluster has joined: let the cluster leave, then join again. Defaults to Pull.
	// +optional
	// +kubebuilder:default=Pull
	Mode ClusterMode `json:"mode,omitempty"`

	// push specifies how the hub connects to the member. It is required in mode Push and not allowed in mode Pull.
	// +optional
	Push *PushAccess `json:"push,omitempty"`

	// pull configures the client certificate of a member. It is allowed in mode Pull only.
	// +optional
	Pull *PullAccess `json:"pull,omitempty"`

	// accepted admits the cluster to the fleet. While it is false, the hub prepares nothing for the cluster, signs no certificate and sends no
	// work. Setting it back to false freezes the cluster. Changing it requires the verb "accept" on memberclusters in addition to "update".
	// Defaults to false.
	// +optional
	Accepted bool `json:"accepted,omitempty"`

	// identity is the identity of the cluster. The hub sets it when the cluster joins for the first time. From then on it refuses clusters
	// with another UID, so that no other cluster can take over the name.
	// +optional
	Identity *ClusterIdentity `json:"identity,omitempty"`

	// region is the region that the cluster runs in. It is informational, for users and selectors.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`

	// zone is the failure zone that the cluster runs in.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`

	// provider is the provider of the cluster's machines.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider,omitempty"`

	// taints keep objects away from the cluster unless they tolerate them. The combination of key and effect is unique.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=16
	Taints []ClusterTaint `json:"taints,omitempty"`

	// limits restricts what the hub may place in the cluster, and how fast.
	// +optional
	Limits *ClusterLimits `json:"limits,omitempty"`

	// heartbeat configures when a member that doesn't renew its Lease becomes unreachable, and when it becomes ready again.
	// +optional
	// +kubebuilder:default={}
	Heartbeat Heartbeat `json:"heartbeat,omitempty"`

	// leave configures what happens to the placed objects when this MemberCluster is deleted.
	// +optional
	// +kubebuilder:default={}
	Leave Leave `json:"leave,omitempty"`
}

// PushAccess is the location of the kubeconfig of a member: a named Secret, or the Secret of a Cluster API Cluster.
// +kubebuilder:validation:XValidation:rule="has(self.kubeconfigSecretRef) != has(self.capiClusterRef)",message="push needs exactly one of kubeconfigSecretRef and capiClusterRef: remove one, or name a Secret or a Cluster"
type PushAccess struct {
	// kubeconfigSecretRef refers to the Secret with the kubeconfig. The kubeconfig must contain its credentials inline. Exec plugins, auth
	// providers and file paths are refused, because they would execute or read files on the hub.
	// +optional
	KubeconfigSecretRef *SecretKeyRef `json:"kubeconfigSecretRef,omitempty"`

	// capiClusterRef refers to a Cluster API Cluster on the hub. Its kubeconfig is read from the Secret <name>-kubeconfig in the same
	// namespace, with the same restrictions as kubeconfigSecretRef. The hub connects once the control plane of the Cluster is initialized.
	// When the Cluster is deleted, the hub deletes this MemberCluster, which then leaves according to spec.leave.
	// +optional
	CAPIClusterRef *CAPIClusterRef `json:"capiClusterRef,omitempty"`
}

// CAPIClusterRef refers to a Cluster API Cluster on the hub.
type CAPIClusterRef struct {
	// namespace is the namespace of the Cluster. The hub can read Clusters and their kubeconfigs only in the namespaces listed in the chart
	// value clusterAPI.namespaces, which is empty by default.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name is the name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// SecretKeyRef refers to one key of a Secret on the hub.
type SecretKeyRef struct {
	// namespace is the namespace of the Secret. The hub can read Secrets only in the namespaces that its chart allows. By default this is the
	// hub's own namespace only.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key is the key of the Secret that contains the kubeconfig. Defaults to "value", the key that Cluster API uses.
	// +optional
	// +kubebuilder:default=value
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// PullAccess configures the client certificate of a pull member.
type PullAccess struct {
	// certTTLSeconds is the lifetime that the agent requests for its client certificate, in seconds. The minimum is 600, which is the minimum
	// of Kubernetes. The signer may issue a shorter one. The certificate is renewed after 70 % of its lifetime. Defaults to 86400 (one day).
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=31536000
	CertTTLSeconds int32 `json:"certTTLSeconds,omitempty"`
}

// ClusterIdentity distinguishes a cluster from other clusters with the same name.
type ClusterIdentity struct {
	// clusterUID is the UID of the namespace kube-system in the member.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID"`
}

// ClusterLimits restricts what the hub may place in a cluster, and how fast.
type ClusterLimits struct {
	// maxReplicasPerObject is the maximum number of replicas of one object in this cluster. If unset, there is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxReplicasPerObject *int32 `json:"maxReplicasPerObject,omitempty"`
	// qps is the maximum number of requests per second from the agent to this member's apiserver. Defaults to 20.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	QPS int32 `json:"qps,omitempty"`
	// burst is the maximum number of requests that the agent may send in one burst. Defaults to 40.
	// +optional
	// +kubebuilder:default=40
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2000
	Burst int32 `json:"burst,omitempty"`
	// allowedNamespaces lists the namespaces in which objects may be placed. If empty, all namespaces are allowed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	AllowedNamespaces []string `json:"allowedNamespaces,omitempty"`
	// allowedKinds lists the kinds of objects that may be placed. If empty, all kinds are allowed. All kinds that the hub creates in a member
	// for an object must be listed: for example, a WorkloadSpread also needs the kind of its workload.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=64
	AllowedKinds []GroupKind `json:"allowedKinds,omitempty"`
}

// GroupKind identifies a kind in any version.
type GroupKind struct {
	// group is the API group of the kind. Empty means the core group.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	Group string `json:"group"`
	// kind is the name of the kind, such as Deployment.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind"`
}

// MaxServedKinds is the maximum number of entries in status.kinds of a MemberCluster.
const MaxServedKinds = 128

// ServedKind is a kind that a member serves and its agent is allowed to write.
type ServedKind struct {
	// group is the API group of the kind. Empty means the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// kind is the name of the kind.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// versions lists the served versions, sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	Versions []string `json:"versions,omitempty"`
}

// Heartbeat configures when a member counts as unreachable and as ready. All durations are measured by the hub's clock from the time at
// which the hub sees a renewal; the clocks of members don't matter.
// +kubebuilder:validation:XValidation:rule="!has(self.failAfterSeconds) || !has(self.leaseSeconds) || self.failAfterSeconds > self.leaseSeconds",message="failAfterSeconds must be greater than leaseSeconds, or each late renewal would count as a failure"
type Heartbeat struct {
	// leaseSeconds is the duration of the member's Lease, in seconds. The agent renews it after every third of this duration. Defaults to 15.
	// +optional
	// +kubebuilder:default=15
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	LeaseSeconds int32 `json:"leaseSeconds,omitempty"`
	// failAfterSeconds is the time without a renewal, in seconds, after which the cluster becomes Unreachable. It must be greater than
	// leaseSeconds. Defaults to 45.
	// +optional
	// +kubebuilder:default=45
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=86400
	FailAfterSeconds int32 `json:"failAfterSeconds,omitempty"`
	// recoverAfterSeconds specifies how long, in seconds, an unreachable cluster must renew its Lease without a gap before it is Ready again.
	// Defaults to 60.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	RecoverAfterSeconds int32 `json:"recoverAfterSeconds,omitempty"`
}

// Leave configures how a cluster leaves the fleet.
type Leave struct {
	// policy specifies what happens to the placed objects. Orphan keeps them, and removes the hub's annotation and managed fields from them.
	// Delete deletes them. Defaults to Orphan.
	// +optional
	// +kubebuilder:default=Orphan
	Policy LeavePolicy `json:"policy,omitempty"`
	// timeoutSeconds specifies how long, in seconds, the hub waits for the member to finish. When it expires, the hub leaves a tombstone,
	// which the member processes when it reconnects, and forgets the cluster. Defaults to 600.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// Condition types of a MemberCluster. The agent of the member sets APIHealthy, OwnedByThisHub and Released; the hub sets all others. Each
// condition has a single writer.
const (
	// ConditionReady is the summary: True if the member is accepted, alive, bound to this hub and healthy.
	ConditionReady = "Ready"
	// ConditionAccepted is True while spec.accepted is true.
	ConditionAccepted = "Accepted"
	// ConditionCredentialValid is True while the hub has a usable kubeconfig (Push), or has signed the agent's request (Pull).
	ConditionCredentialValid = "CredentialValid" //nolint:gosec // a condition, not a credential
	// ConditionProvisioned is True while Cluster API reports that the cluster in push.capiClusterRef has an initialized control plane and is
	// not being deleted. Members without capiClusterRef don't have it.
	ConditionProvisioned = "Provisioned"
	// ConditionHeartbeatFresh follows the member's Lease, with hysteresis.
	ConditionHeartbeatFresh = "HeartbeatFresh"
	// ConditionAPIHealthy is True while the agent can reach the member's own apiserver.
	ConditionAPIHealthy = "APIHealthy"
	// ConditionOwnedByThisHub is False if the member is bound to another hub.
	ConditionOwnedByThisHub = "OwnedByThisHub"
	// ConditionSkewSupported is False if the versions of hub and agent are too far apart to work together. It is set once the agent has
	// reported its version. In a pull member the agent also sets it on the Membership.
	ConditionSkewSupported = "SkewSupported"
	// ConditionSchedulable is False if the cluster has taints.
	ConditionSchedulable = "Schedulable"
	// ConditionReleased is True once a leaving member has removed its binding and has nothing of this hub left.
	ConditionReleased = "Released"
)

// ReasonUnsteady is the reason of condition Ready while the member's reports change so often that the hub doesn't trust them.
const ReasonUnsteady = "Unsteady"

// MemberClusterStatus is the observed state of a member cluster, as reported by hub and agent.
type MemberClusterStatus struct {
	// observedGeneration is the generation of the spec that the hub last acted on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is a human-readable summary. Automation should use conditions instead.
	// +optional
	Phase ClusterPhase `json:"phase,omitempty"`
	// conditions are the current conditions. The hub sets Ready, Accepted, Provisioned, CredentialValid, HeartbeatFresh, SkewSupported and
	// Schedulable. The agent sets APIHealthy, OwnedByThisHub and Released.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// hub identifies this hub. The agent binds the member to it. It is set by the hub.
	// +optional
	Hub *HubIdentity `json:"hub,omitempty"`
	// clusterUID is the UID of the member's namespace kube-system. It is set by the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`
	// credential describes the certificate that the agent uses. It is set by the agent. The hub shows it, and never uses it to grant access.
	// +optional
	Credential *CredentialStatus `json:"credential,omitempty"`
	// kubernetesVersion is the version of the member's apiserver. It is set by the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// agentVersion is the version of the agent. It is set by the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AgentVersion string `json:"agentVersion,omitempty"`
	// kinds lists the kinds that the member serves and the agent is allowed to write, sorted by group and kind. If empty, they are not known.
	// If it has 128 entries, it may be incomplete. The hub places no new objects of kinds that are not listed, but doesn't withdraw existing
	// ones because of it. It is set by the agent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Kinds []ServedKind `json:"kinds,omitempty"`
	// unclaimedObjects is the number of objects that the member applied for rows that don't exist on the hub. This happens after the member or
	// the hub was restored, or when a row was removed by force. The objects stay until an administrator of the member decides. It is set by
	// the agent.
	// +optional
	UnclaimedObjects int32 `json:"unclaimedObjects,omitempty"`
	// rows are the numbers of rows of this cluster. They are set by the hub.
	// +optional
	Rows *RowCounts `json:"rows,omitempty"`
}

// HubIdentity identifies a hub.
type HubIdentity struct {
	// uid is the UID of the namespace kube-system in the hub's cluster.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// epoch increases each time a hub is promoted, for example after a restore. Members store the highest epoch that they have seen.
	// +required
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch"`
	// version is the version of the hub. An agent accepts no work from a hub whose version is too far from its own.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// CredentialStatus describes a client certificate.
type CredentialStatus struct {
	// notAfter is the time at which the certificate expires.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// lastRenewal is the time at which the agent obtained the certificate.
	// +optional
	LastRenewal *metav1.Time `json:"lastRenewal,omitempty"`
	// serial is the serial number of the certificate, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Serial string `json:"serial,omitempty"`
}

// RowCounts are the numbers of rows of a cluster by phase.
type RowCounts struct {
	// total is the total number of rows.
	// +optional
	Total int32 `json:"total"`
	// applied is the number of rows that were applied at their current generation.
	// +optional
	Applied int32 `json:"applied"`
	// healthy is the number of rows in phase Healthy.
	// +optional
	Healthy int32 `json:"healthy"`
	// degraded is the number of rows in phase Blocked or Degraded.
	// +optional
	Degraded int32 `json:"degraded"`
}

// MemberCluster represents one cluster of the fleet on the hub.
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

	// spec is the configuration of the cluster.
	// +required
	Spec MemberClusterSpec `json:"spec"`
	// status is the observed state, as reported by hub and agent.
	// +optional
	Status MemberClusterStatus `json:"status,omitempty"`
}

// MemberClusterList is a list of MemberClusters.
//
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MemberCluster `json:"items"`
}

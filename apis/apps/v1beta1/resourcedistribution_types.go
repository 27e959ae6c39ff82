package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ResourceDistributionSpec is the desired state of a ResourceDistribution.
//
// +kubebuilder:validation:XValidation:rule="has(self.resource) != has(self.source)",message="give either resource, with the content, or source, which names an object that exists"
// +kubebuilder:validation:XValidation:rule="has(self.source) && has(oldSelf.resource) ? self.source.kind == oldSelf.resource.kind && self.source.name == oldSelf.resource.metadata.name : !has(self.resource) || !has(oldSelf.source) || (self.resource.kind == oldSelf.source.kind && self.resource.metadata.name == oldSelf.source.name)",message="kind and name can't be changed: the copies have them. Make another ResourceDistribution"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.targets.clusters)",message="source is read in one cluster: with targets.clusters give resource, with the content"
type ResourceDistributionSpec struct {
	// resource is the Secret or ConfigMap that is copied to each target namespace. Its apiVersion, kind and metadata.name are immutable.
	// Either resource or source must be set.
	// +optional
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XValidation:rule="self.apiVersion == oldSelf.apiVersion && self.kind == oldSelf.kind && self.metadata.name == oldSelf.metadata.name",message="apiVersion, kind and metadata.name of resource can't be changed: the copies have them. Make another ResourceDistribution"
	Resource runtime.RawExtension `json:"resource,omitzero"`

	// source refers to a Secret or ConfigMap whose content is distributed, and distributed again after each change. Users who create the
	// ResourceDistribution or change its spec must be allowed to get that object. kind and name are immutable. Either resource or source must
	// be set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind && self.name == oldSelf.name",message="kind and name of source can't be changed: the copies have them. Make another ResourceDistribution"
	Source *ResourceDistributionSource `json:"source,omitempty"`

	// targets selects the target namespaces.
	// +required
	Targets ResourceDistributionTargets `json:"targets"`
}

// ResourceDistributionSource refers to a Secret or ConfigMap.
type ResourceDistributionSource struct {
	// kind is the kind of the object: Secret or ConfigMap.
	// +required
	// +kubebuilder:validation:Enum=Secret;ConfigMap
	Kind string `json:"kind"`

	// namespace is the namespace of the object. It doesn't get a copy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name is the name of the object. The copies have the same name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ResourceDistributionTargets selects namespaces: those that match allNamespaces, includedNamespaces or namespaceSelector, except those in
// excludedNamespaces. kube-system and kube-public are never selected.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusters) == has(oldSelf.clusters)",message="clusters can't be added or removed: what was distributed would be left behind. Make another ResourceDistribution, and delete this one"
type ResourceDistributionTargets struct {
	// allNamespaces selects all namespaces. Defaults to false.
	// +optional
	AllNamespaces bool `json:"allNamespaces,omitempty"`

	// excludedNamespaces lists namespaces that are never selected.
	// +optional
	ExcludedNamespaces ResourceDistributionNamespaces `json:"excludedNamespaces,omitempty"`

	// includedNamespaces selects namespaces by name.
	// +optional
	IncludedNamespaces ResourceDistributionNamespaces `json:"includedNamespaces,omitempty"`

	// namespaceSelector selects namespaces by labels. An empty selector selects none.
	// +optional
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// clusters selects the member clusters to distribute to, instead of the hub's own cluster. The namespaces are then selected in each of
	// these clusters. It is allowed only on a hub, and can't be added to or removed from an existing object.
	// +optional
	Clusters *ResourceDistributionClusters `json:"clusters,omitempty"`
}

// ResourceDistributionClusters selects member clusters: the clusters that match all, names or selector, except those in excluded.
//
// +kubebuilder:validation:XValidation:rule="[has(self.all) && self.all, has(self.names), has(self.selector)].filter(set, set).size() == 1",message="clusters needs exactly one of all, names and selector"
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || (has(self.selector.matchLabels) && self.selector.matchLabels.size() > 0) || (has(self.selector.matchExpressions) && self.selector.matchExpressions.size() > 0)",fieldPath=".selector",message="an empty selector is ambiguous: use all for every cluster, or give labels"
type ResourceDistributionClusters struct {
	// all selects every member cluster, including those that join later. Defaults to false.
	// +optional
	All bool `json:"all,omitempty"`

	// names selects clusters by name. A cluster that doesn't exist yet gets its copies once it has joined.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`

	// selector selects clusters by the labels of their MemberClusters. It must not be empty.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// excluded lists clusters, by name, that are never selected.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Excluded []string `json:"excluded,omitempty"`
}

// ResourceDistributionNamespaces is a list of namespaces.
type ResourceDistributionNamespaces struct {
	// list contains the namespaces.
	// +optional
	// +listType=atomic
	List []ResourceDistributionNamespace `json:"list,omitempty"`
}

// ResourceDistributionNamespace identifies a namespace.
type ResourceDistributionNamespace struct {
	// name is the name of the namespace.
	// +optional
	Name string `json:"name,omitempty"`
}

// ResourceDistributionStatus is the most recently observed state of a ResourceDistribution.
type ResourceDistributionStatus struct {
	// desired is the number of target namespaces, including those in includedNamespaces that don't exist.
	// +optional
	Desired int32 `json:"desired,omitempty"`

	// succeeded is the number of target namespaces whose copy is up to date.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is the number of target namespaces whose copy is not up to date.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the current conditions: six for the kinds of failures, always in the same order, and Ready, Reconciling and Stalled. On a
	// hub, objects with clusters have PlacementFailed and CopyFailed, and Withdrawing while they are being deleted.
	// +optional
	// +listType=atomic
	Conditions []ResourceDistributionCondition `json:"conditions,omitempty"`

	// selectedClusters is the number of selected member clusters. It is set only on a hub.
	// +optional
	SelectedClusters int32 `json:"selectedClusters,omitempty"`

	// staleClusters is the number of clusters that have a part of the object but don't respond, so that their numbers are out of date. It is
	// set only on a hub.
	// +optional
	StaleClusters int32 `json:"staleClusters,omitempty"`

	// clusters are the statuses of the 20 clusters that most need attention: first those with a reason, then those that lack copies. It is set
	// only on a hub.
	// +optional
	// +listType=map
	// +listMapKey=cluster
	// +kubebuilder:validation:MaxItems=20
	Clusters []ResourceDistributionClusterStatus `json:"clusters,omitempty"`
}

// ResourceDistributionClusterStatus is the observed state of one member cluster.
type ResourceDistributionClusterStatus struct {
	// cluster is the name of the MemberCluster.
	// +required
	Cluster string `json:"cluster"`

	// desired is the number of target namespaces in the cluster.
	// +optional
	Desired int32 `json:"desired,omitempty"`

	// succeeded is the number of target namespaces whose copy is up to date.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is desired minus succeeded.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// observedGeneration is the generation of the object that the cluster has acted on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// stale is true while the cluster doesn't respond, so that its numbers are out of date.
	// +optional
	Stale bool `json:"stale,omitempty"`

	// reason is one word that says why the cluster isn't in the desired state. It is empty if it is.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message explains the reason.
	// +optional
	Message string `json:"message,omitempty"`
}

// ResourceDistributionConditionType is a kind of failure.
type ResourceDistributionConditionType string

// Condition types of a ResourceDistribution. Status True means that there is a failure.
const (
	// ResourceDistributionGetResourceFailed means that the source or the copies could not be read.
	ResourceDistributionGetResourceFailed ResourceDistributionConditionType = "GetResourceFailed"
	// ResourceDistributionCreateResourceFailed means that copies could not be created.
	ResourceDistributionCreateResourceFailed ResourceDistributionConditionType = "CreateResourceFailed"
	// ResourceDistributionUpdateResourceFailed means that copies could not be updated.
	ResourceDistributionUpdateResourceFailed ResourceDistributionConditionType = "UpdateResourceFailed"
	// ResourceDistributionDeleteResourceFailed means that copies in namespaces that are no longer targets could not be deleted.
	ResourceDistributionDeleteResourceFailed ResourceDistributionConditionType = "DeleteResourceFailed"
	// ResourceDistributionConflictOccurred means that a namespace has an object with this kind and name that isn't a copy of this resource.
	ResourceDistributionConflictOccurred ResourceDistributionConditionType = "ConflictOccurred"
	// ResourceDistributionNamespaceNotExists means that includedNamespaces lists namespaces that don't exist.
	ResourceDistributionNamespaceNotExists ResourceDistributionConditionType = "NamespaceNotExists"
	// ResourceDistributionPlacementFailed means that member clusters don't get their part, or don't respond. It exists only on a hub.
	ResourceDistributionPlacementFailed ResourceDistributionConditionType = "PlacementFailed"
	// ResourceDistributionCopyFailed means that member clusters report one of the failures above. It exists only on a hub.
	ResourceDistributionCopyFailed ResourceDistributionConditionType = "CopyFailed"
	// ResourceDistributionWithdrawing means that the object is being deleted and member clusters still have their part. It exists only on a
	// hub.
	ResourceDistributionWithdrawing ResourceDistributionConditionType = "Withdrawing"
)

// ResourceDistributionCondition describes one kind of failure.
type ResourceDistributionCondition struct {
	// type is the kind of failure.
	// +required
	Type ResourceDistributionConditionType `json:"type"`

	// status is True if the failure exists, and False otherwise.
	// +required
	Status metav1.ConditionStatus `json:"status"`

	// lastTransitionTime is the last time at which the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// reason is one word that identifies the cause. It is Succeeded if there is no failure.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message explains the reason. If there are several errors, it is the first one.
	// +optional
	Message string `json:"message,omitempty"`

	// failedNamespaces are the affected namespaces.
	// +optional
	// +listType=atomic
	FailedNamespaces []string `json:"failedNamespaces,omitempty"`
}

// ResourceDistribution keeps a copy of a Secret or ConfigMap in many namespaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=distributor
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failed`
type ResourceDistribution struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the ResourceDistribution.
	// +optional
	Spec ResourceDistributionSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status ResourceDistributionStatus `json:"status,omitempty"`
}

// ResourceDistributionList is a list of ResourceDistribution.
//
// +kubebuilder:object:root=true
type ResourceDistributionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceDistribution `json:"items"`
}

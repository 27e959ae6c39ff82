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
	// resource is the Secret or ConfigMap of which each target namespace gets a copy. Its apiVersion, kind and metadata.name can't be
	// changed. Either resource or source is required.
	// +optional
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XValidation:rule="self.apiVersion == oldSelf.apiVersion && self.kind == oldSelf.kind && self.metadata.name == oldSelf.metadata.name",message="apiVersion, kind and metadata.name of resource can't be changed: the copies have them. Make another ResourceDistribution"
	Resource runtime.RawExtension `json:"resource,omitzero"`

	// source names a Secret or ConfigMap whose content is distributed, and with each change again. Who creates the ResourceDistribution
	// or changes its spec must be allowed to get it. kind and name can't be changed. Either resource or source is required.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind && self.name == oldSelf.name",message="kind and name of source can't be changed: the copies have them. Make another ResourceDistribution"
	Source *ResourceDistributionSource `json:"source,omitempty"`

	// targets are the namespaces.
	// +required
	Targets ResourceDistributionTargets `json:"targets"`
}

// ResourceDistributionSource names a Secret or ConfigMap.
type ResourceDistributionSource struct {
	// kind is Secret or ConfigMap.
	// +required
	// +kubebuilder:validation:Enum=Secret;ConfigMap
	Kind string `json:"kind"`

	// namespace is its namespace, which gets no copy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name is its name, which the copies have too.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ResourceDistributionTargets are namespaces: those that allNamespaces, includedNamespaces or namespaceSelector select, without those
// of excludedNamespaces, and never kube-system and kube-public.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusters) == has(oldSelf.clusters)",message="clusters can't be added or removed: what was distributed would be left behind. Make another ResourceDistribution, and delete this one"
type ResourceDistributionTargets struct {
	// allNamespaces selects all. Default false.
	// +optional
	AllNamespaces bool `json:"allNamespaces,omitempty"`

	// excludedNamespaces are never targets.
	// +optional
	ExcludedNamespaces ResourceDistributionNamespaces `json:"excludedNamespaces,omitempty"`

	// includedNamespaces selects by name.
	// +optional
	IncludedNamespaces ResourceDistributionNamespaces `json:"includedNamespaces,omitempty"`

	// namespaceSelector selects by labels. An empty one selects none.
	// +optional
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// clusters makes a hub distribute to member clusters, and not to its own. Namespaces are then selected in each of them. Only on a
	// hub. It can't be added to or removed from an object.
	// +optional
	Clusters *ResourceDistributionClusters `json:"clusters,omitempty"`
}

// ResourceDistributionClusters are member clusters: those that all, names or selector select, without those of excluded.
//
// +kubebuilder:validation:XValidation:rule="[has(self.all) && self.all, has(self.names), has(self.selector)].filter(set, set).size() == 1",message="clusters needs exactly one of all, names and selector"
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || (has(self.selector.matchLabels) && self.selector.matchLabels.size() > 0) || (has(self.selector.matchExpressions) && self.selector.matchExpressions.size() > 0)",fieldPath=".selector",message="an empty selector is ambiguous: use all for every cluster, or give labels"
type ResourceDistributionClusters struct {
	// all selects every member cluster, also those that join later. Default false.
	// +optional
	All bool `json:"all,omitempty"`

	// names selects by name. A cluster that does not exist yet gets its copies when it has joined.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`

	// selector selects by labels of MemberClusters. It must not be empty.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// excluded are never selected.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Excluded []string `json:"excluded,omitempty"`
}

// ResourceDistributionNamespaces is a list of namespaces.
type ResourceDistributionNamespaces struct {
	// list has the namespaces.
	// +optional
	// +listType=atomic
	List []ResourceDistributionNamespace `json:"list,omitempty"`
}

// ResourceDistributionNamespace is a namespace.
type ResourceDistributionNamespace struct {
	// name is its name.
	// +optional
	Name string `json:"name,omitempty"`
}

// ResourceDistributionStatus is the most recently observed state of a ResourceDistribution.
type ResourceDistributionStatus struct {
	// desired is the number of target namespaces, with those of includedNamespaces that don't exist.
	// +optional
	Desired int32 `json:"desired,omitempty"`

	// succeeded is how many of them have the copy as it should be.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is how many do not.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are six, always in the same order, and Ready, Reconciling and Stalled; on a hub, of an object with clusters, PlacementFailed and CopyFailed, and Withdrawing
	// while it is being deleted.
	// +optional
	// +listType=atomic
	Conditions []ResourceDistributionCondition `json:"conditions,omitempty"`

	// selectedClusters is how many member clusters are selected. Only on a hub.
	// +optional
	SelectedClusters int32 `json:"selectedClusters,omitempty"`

	// staleClusters is how many clusters have a part and do not answer: their numbers are old. Only on a hub.
	// +optional
	StaleClusters int32 `json:"staleClusters,omitempty"`

	// clusters are the worst 20: first those with a reason, then those that lack copies. Only on a hub.
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

	// desired is how many of its namespaces are targets.
	// +optional
	Desired int32 `json:"desired,omitempty"`

	// succeeded is how many of them have the copy as it should be.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is desired without succeeded.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// observedGeneration is the generation of the object that the cluster has acted on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// stale is true if the cluster does not answer, so that its numbers are old.
	// +optional
	Stale bool `json:"stale,omitempty"`

	// reason is why the cluster is not as desired, in one word; empty if it is.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is why, in words.
	// +optional
	Message string `json:"message,omitempty"`
}

// ResourceDistributionConditionType is a kind of failure.
type ResourceDistributionConditionType string

// Types of conditions. Status True means that there is the failure.
const (
	// ResourceDistributionGetResourceFailed: the source or the copies could not be read.
	ResourceDistributionGetResourceFailed ResourceDistributionConditionType = "GetResourceFailed"
	// ResourceDistributionCreateResourceFailed: copies could not be created.
	ResourceDistributionCreateResourceFailed ResourceDistributionConditionType = "CreateResourceFailed"
	// ResourceDistributionUpdateResourceFailed: copies could not be changed.
	ResourceDistributionUpdateResourceFailed ResourceDistributionConditionType = "UpdateResourceFailed"
	// ResourceDistributionDeleteResourceFailed: copies in namespaces that are not targets any more could not be deleted.
	ResourceDistributionDeleteResourceFailed ResourceDistributionConditionType = "DeleteResourceFailed"
	// ResourceDistributionConflictOccurred: the namespace has an object of that kind and name that is not a copy of this one.
	ResourceDistributionConflictOccurred ResourceDistributionConditionType = "ConflictOccurred"
	// ResourceDistributionNamespaceNotExists: includedNamespaces names namespaces that don't exist.
	ResourceDistributionNamespaceNotExists ResourceDistributionConditionType = "NamespaceNotExists"
	// ResourceDistributionPlacementFailed: member clusters do not get their part, or do not answer. Only on a hub.
	ResourceDistributionPlacementFailed ResourceDistributionConditionType = "PlacementFailed"
	// ResourceDistributionCopyFailed: member clusters report one of the failures above. Only on a hub.
	ResourceDistributionCopyFailed ResourceDistributionConditionType = "CopyFailed"
	// ResourceDistributionWithdrawing: the object is being deleted, and member clusters still have their part. Only on a hub.
	ResourceDistributionWithdrawing ResourceDistributionConditionType = "Withdrawing"
)

// ResourceDistributionCondition is one kind of failure.
type ResourceDistributionCondition struct {
	// type is the kind of failure.
	// +required
	Type ResourceDistributionConditionType `json:"type"`

	// status is True if there is the failure, else False.
	// +required
	Status metav1.ConditionStatus `json:"status"`

	// lastTransitionTime is the last time at which the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// reason is why, in one word; Succeeded if there is no failure.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is why, in words; of several errors the first.
	// +optional
	Message string `json:"message,omitempty"`

	// failedNamespaces are the namespaces concerned.
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

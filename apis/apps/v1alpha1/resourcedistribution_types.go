package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
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
	Source *appsv1beta1.ResourceDistributionSource `json:"source,omitempty"`

	// targets are the namespaces.
	// +required
	Targets ResourceDistributionTargets `json:"targets"`
}

// ResourceDistributionTargets are namespaces: those that allNamespaces, includedNamespaces or namespaceLabelSelector select, without
// those of excludedNamespaces, and never kube-system and kube-public.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusters) == has(oldSelf.clusters)",message="clusters can't be added or removed: what was distributed would be left behind. Make another ResourceDistribution, and delete this one"
type ResourceDistributionTargets struct {
	// allNamespaces selects all. Default false.
	// +optional
	AllNamespaces bool `json:"allNamespaces,omitempty"`

	// excludedNamespaces are never targets.
	// +optional
	ExcludedNamespaces appsv1beta1.ResourceDistributionNamespaces `json:"excludedNamespaces,omitempty"`

	// includedNamespaces selects by name.
	// +optional
	IncludedNamespaces appsv1beta1.ResourceDistributionNamespaces `json:"includedNamespaces,omitempty"`

	// namespaceLabelSelector selects by labels. An empty one selects none.
	// +optional
	NamespaceLabelSelector metav1.LabelSelector `json:"namespaceLabelSelector,omitempty"`

	// clusters makes a hub distribute to member clusters, and not to its own. Namespaces are then selected in each of them. Only on a
	// hub. It can't be added to or removed from an object.
	// +optional
	Clusters *appsv1beta1.ResourceDistributionClusters `json:"clusters,omitempty"`
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

	// conditions are six, always in the same order; on a hub, of an object with clusters, PlacementFailed and CopyFailed, and Withdrawing
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
	Clusters []appsv1beta1.ResourceDistributionClusterStatus `json:"clusters,omitempty"`
}

// ResourceDistributionCondition is one kind of failure.
type ResourceDistributionCondition struct {
	// type is the kind of failure.
	// +required
	Type appsv1beta1.ResourceDistributionConditionType `json:"type"`

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

	// failedNamespace are the namespaces concerned.
	// +optional
	// +listType=atomic
	FailedNamespaces []string `json:"failedNamespace,omitempty"`
}

// ResourceDistribution keeps a copy of a Secret or ConfigMap in many namespaces.
//
// +kubebuilder:object:root=true
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

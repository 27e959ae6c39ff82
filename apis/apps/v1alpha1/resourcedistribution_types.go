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
	Source *appsv1beta1.ResourceDistributionSource `json:"source,omitempty"`

	// targets selects the target namespaces.
	// +required
	Targets ResourceDistributionTargets `json:"targets"`
}

// ResourceDistributionTargets selects namespaces: those that match allNamespaces, includedNamespaces or namespaceLabelSelector, except
// those in excludedNamespaces. kube-system and kube-public are never selected.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusters) == has(oldSelf.clusters)",message="clusters can't be added or removed: what was distributed would be left behind. Make another ResourceDistribution, and delete this one"
type ResourceDistributionTargets struct {
	// allNamespaces selects all namespaces. Defaults to false.
	// +optional
	AllNamespaces bool `json:"allNamespaces,omitempty"`

	// excludedNamespaces lists namespaces that are never selected.
	// +optional
	ExcludedNamespaces appsv1beta1.ResourceDistributionNamespaces `json:"excludedNamespaces,omitempty"`

	// includedNamespaces selects namespaces by name.
	// +optional
	IncludedNamespaces appsv1beta1.ResourceDistributionNamespaces `json:"includedNamespaces,omitempty"`

	// namespaceLabelSelector selects namespaces by labels. An empty selector selects none.
	// +optional
	NamespaceLabelSelector metav1.LabelSelector `json:"namespaceLabelSelector,omitempty"`

	// clusters selects the member clusters to distribute to, instead of the hub's own cluster. The namespaces are then selected in each of
	// these clusters. It is allowed only on a hub, and can't be added to or removed from an existing object.
	// +optional
	Clusters *appsv1beta1.ResourceDistributionClusters `json:"clusters,omitempty"`
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
	Clusters []appsv1beta1.ResourceDistributionClusterStatus `json:"clusters,omitempty"`
}

// ResourceDistributionCondition describes one kind of failure.
type ResourceDistributionCondition struct {
	// type is the kind of failure.
	// +required
	Type appsv1beta1.ResourceDistributionConditionType `json:"type"`

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

	// failedNamespace lists the affected namespaces.
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

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PropagationSpec describes which objects of the hub's cluster are placed in which member clusters.
type PropagationSpec struct {
	// selectors select the objects to place. An object that matches several selectors is placed once. A Propagation selects objects in its own
	// namespace, a ClusterPropagation selects cluster-scoped objects. At most 500 objects can be selected.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Selectors []PropagationSelector `json:"selectors"`

	// dependencies specifies whether objects in the same namespace that the selected objects depend on, such as ConfigMaps that their pod
	// templates refer to, are placed with them. Off places only the selected objects. Auto also places their dependencies. Only places the
	// dependencies without the selected objects; it is for UnitedDeployments, whose subsets name the clusters. Defaults to Off, which is the
	// only value that a ClusterPropagation allows.
	// +optional
	Dependencies DependencyPolicy `json:"dependencies,omitempty"`

	// clusters selects the member clusters in which the objects are placed.
	// +required
	Clusters PropagationClusters `json:"clusters"`

	// tolerations are the cluster taints that the objects tolerate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []ClusterToleration `json:"tolerations,omitempty"`

	// replicas specifies how the replicas of Deployments, CloneSets, StatefulSets and Advanced StatefulSets are divided over the clusters. By
	// default each cluster runs as many replicas as the object specifies. Objects of other kinds are placed unchanged. A ClusterPropagation
	// must not set it.
	// +optional
	Replicas *PropagationReplicas `json:"replicas,omitempty"`

	// overrides change objects for some of the clusters. They are applied in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Overrides []PropagationOverride `json:"overrides,omitempty"`

	// apply specifies how the objects are applied in the members: what happens to objects that exist there already, and which fields are left
	// to other owners. By default existing objects are not touched, and all fields are applied.
	// +optional
	Apply *WorkApply `json:"apply,omitempty"`

	// deletionPolicy specifies what happens to an object in a member when it is no longer placed there. Delete deletes it, Orphan keeps it.
	// Defaults to Delete.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy LeavePolicy `json:"deletionPolicy,omitempty"`

	// suspend stops changes in members. Objects that are withdrawn are still deleted or orphaned.
	// +optional
	Suspend *PropagationSuspend `json:"suspend,omitempty"`
}

// DependencyPolicy specifies whether the dependencies of selected objects are placed with them.
// +kubebuilder:validation:Enum=Off;Auto;Only
type DependencyPolicy string

// Policies for dependencies.
const (
	// DependenciesOff means that only selected objects are placed.
	DependenciesOff DependencyPolicy = "Off"
	// DependenciesAuto means that ConfigMaps, PersistentVolumeClaims, ServiceAccounts and Services that pod templates refer to, and disruption
	// budgets that select their pods, are placed in the same clusters, as far as the hub places these kinds. Secrets are not placed; the
	// status lists them.
	DependenciesAuto DependencyPolicy = "Auto"
	// DependenciesOnly is like DependenciesAuto, but the selected objects, which are UnitedDeployments, are not placed themselves: their
	// subsets name clusters.
	DependenciesOnly DependencyPolicy = "Only"
)

// PropagationSelector selects objects of one kind by name or by labels.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.labelSelector)",message="a selector needs exactly one of name and labelSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.labelSelector) || (has(self.labelSelector.matchLabels) && self.labelSelector.matchLabels.size() > 0) || (has(self.labelSelector.matchExpressions) && self.labelSelector.matchExpressions.size() > 0)",fieldPath=".labelSelector",message="an empty selector would select every object of the kind: give labels, or a name"
type PropagationSelector struct {
	// apiVersion is the group and version in which the objects are read on the hub and applied in the members.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name selects one object by name. If it doesn't exist yet, it is placed once it does.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// labelSelector selects objects by labels. It must not be empty.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// PropagationClusters selects member clusters: the clusters that match all, names or selector, except those in excluded.
//
// +kubebuilder:validation:XValidation:rule="[has(self.all) && self.all, has(self.names), has(self.selector)].filter(set, set).size() == 1",message="clusters needs exactly one of all, names and selector"
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || (has(self.selector.matchLabels) && self.selector.matchLabels.size() > 0) || (has(self.selector.matchExpressions) && self.selector.matchExpressions.size() > 0)",fieldPath=".selector",message="an empty selector is ambiguous: use all for every cluster, or give labels"
type PropagationClusters struct {
	// all selects every member cluster, including those that join later. Defaults to false.
	// +optional
	All bool `json:"all,omitempty"`

	// names selects clusters by name. A cluster that doesn't exist yet gets the objects once it has joined.
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

// ReplicaDivision specifies how replicas are divided over clusters.
// +kubebuilder:validation:Enum=Duplicated;Weighted;Ordered
type ReplicaDivision string

// Divisions of replicas.
const (
	// DivisionDuplicated means that each cluster runs as many replicas as the object specifies.
	DivisionDuplicated ReplicaDivision = "Duplicated"
	// DivisionWeighted means that the clusters share the replicas of the object in proportion to their weights.
	DivisionWeighted ReplicaDivision = "Weighted"
	// DivisionOrdered means that the clusters are filled up to their maximums in the order of shares.
	DivisionOrdered ReplicaDivision = "Ordered"
)

// PropagationReplicas describes how the replicas of workloads are divided over the clusters.
//
// +kubebuilder:validation:XValidation:rule="self.division != 'Ordered' || has(self.shares)",fieldPath=".shares",message="division Ordered needs shares: they are its order"
// +kubebuilder:validation:XValidation:rule="self.division != 'Duplicated' || !has(self.shares)",fieldPath=".shares",message="with division Duplicated each cluster runs all replicas: remove shares, or choose Weighted or Ordered"
// +kubebuilder:validation:XValidation:rule="self.division == 'Weighted' || !has(self.shares) || !self.shares.exists(s, has(s.weight))",fieldPath=".shares",message="only division Weighted has weights: remove weight, or choose Weighted"
type PropagationReplicas struct {
	// division specifies how replicas are divided. With Duplicated, each cluster runs as many replicas as the object specifies. With Weighted,
	// the clusters share the replicas in proportion to the weights in shares. With Ordered, the clusters are filled up to their maxReplicas in
	// the order of shares.
	// +required
	Division ReplicaDivision `json:"division"`

	// shares are the clusters' shares of the replicas. If several shares match a cluster, the first one applies. A cluster that no share
	// matches gets the object with zero replicas. If there are no shares at all, all clusters share evenly.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Shares []PropagationShare `json:"shares,omitempty"`
}

// PropagationShare is the share of the replicas for each of the matching clusters.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusters) != has(self.clusterSelector)",message="a share needs exactly one of clusters and clusterSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.clusterSelector) || (has(self.clusterSelector.matchLabels) && self.clusterSelector.matchLabels.size() > 0) || (has(self.clusterSelector.matchExpressions) && self.clusterSelector.matchExpressions.size() > 0)",fieldPath=".clusterSelector",message="an empty selector is ambiguous: give labels, or clusters by name"
type PropagationShare struct {
	// clusters lists the matching clusters by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Clusters []string `json:"clusters,omitempty"`

	// clusterSelector selects the matching clusters by the labels of their MemberClusters. It must not be empty.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// weight is the weight of each of these clusters, with division Weighted. A cluster with weight 0 gets no replicas. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`

	// maxReplicas is the maximum number of replicas of an object in each of these clusters. If unset, only the limits of the MemberCluster
	// apply.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
}

// PropagationOverride changes objects for the matching clusters.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusters) != has(self.clusterSelector)",message="an override needs exactly one of clusters and clusterSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.clusterSelector) || (has(self.clusterSelector.matchLabels) && self.clusterSelector.matchLabels.size() > 0) || (has(self.clusterSelector.matchExpressions) && self.clusterSelector.matchExpressions.size() > 0)",fieldPath=".clusterSelector",message="an empty selector would match every cluster: change the object itself, or give labels"
type PropagationOverride struct {
	// clusters lists the matching clusters by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Clusters []string `json:"clusters,omitempty"`

	// clusterSelector selects the matching clusters by the labels of their MemberClusters. It must not be empty.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// kind restricts the override to objects of this kind. If empty, it applies to all kinds.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// name restricts the override to objects with this name. If empty, it applies to all names.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// patches are applied to the object in order.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Patches []PropagationPatch `json:"patches"`
}

// PatchOperation is an operation of JSON Patch (RFC 6902).
// +kubebuilder:validation:Enum=add;replace;remove
type PatchOperation string

// Operations of JSON Patch.
const (
	PatchAdd     PatchOperation = "add"
	PatchReplace PatchOperation = "replace"
	PatchRemove  PatchOperation = "remove"
)

// PropagationPatch is one operation of JSON Patch (RFC 6902).
type PropagationPatch struct {
	// op is the operation: add, replace or remove.
	// +required
	Op PatchOperation `json:"op"`

	// path is a JSON pointer (RFC 6901) to the field to change, such as /spec/replicas or /metadata/labels/example.com~1zone. It must not lead
	// to apiVersion, kind, status, or metadata other than labels and annotations. An object that doesn't have the path is not placed, and the
	// status reports it.
	// +required
	// +kubebuilder:validation:Pattern=`^(/([^/~]|~[01])+)+$`
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`

	// value is the value for add and replace. It may have any type except null. It must not be set for remove.
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
}

// PropagationSuspend selects the clusters in which changes stop.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.all) && self.all && has(self.clusters))",message="give either all or clusters"
type PropagationSuspend struct {
	// all suspends changes in every cluster. Defaults to false.
	// +optional
	All bool `json:"all,omitempty"`

	// clusters lists, by name, the clusters in which changes are suspended.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Clusters []string `json:"clusters,omitempty"`
}

// Condition types of a Propagation.
const (
	// PropagationPlaced is True if every selected object has a row in every selected cluster. Otherwise reason and message give the first
	// obstacle.
	PropagationPlaced = "Placed"
	// PropagationHealthy is True if every object is up to date and healthy in every cluster, as far as the members report.
	PropagationHealthy = "Healthy"
	// PropagationWithdrawing exists only while the Propagation is being deleted. It says what the deletion waits for.
	PropagationWithdrawing = "Withdrawing"
)

// PropagationStatus is the observed state. A place is one object in one cluster.
type PropagationStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the current conditions: Placed, Healthy, Ready, Reconciling and Stalled, and Withdrawing while the object is being
	// deleted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// objects is the number of selected objects, including their dependencies.
	// +optional
	Objects int32 `json:"objects,omitempty"`

	// clusters is the number of selected clusters.
	// +optional
	Clusters int32 `json:"clusters,omitempty"`

	// staleClusters is the number of those clusters that have objects but don't respond, so that their counts are out of date.
	// +optional
	StaleClusters int32 `json:"staleClusters,omitempty"`

	// desired is the desired number of places: objects times clusters.
	// +optional
	Desired int32 `json:"desired,omitempty"`

	// applied is the number of places in which the member has applied the current version of the object.
	// +optional
	Applied int32 `json:"applied,omitempty"`

	// healthy is the number of applied places in which the object is healthy.
	// +optional
	Healthy int32 `json:"healthy,omitempty"`

	// divided lists the replicas of objects whose replicas are divided, by kind, name and cluster. It has at most 200 entries. If there are
	// more, those that differ from the desired state come first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Divided []PropagationPart `json:"divided,omitempty"`

	// problems lists the first 20 places that differ from the desired state, by cluster, kind and name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []PropagationProblem `json:"problems,omitempty"`
}

// PropagationPart is the number of replicas of an object in one cluster.
type PropagationPart struct {
	// kind is the kind of the object.
	// +required
	Kind string `json:"kind"`

	// name is the name of the object.
	// +required
	Name string `json:"name"`

	// cluster is the name of the MemberCluster.
	// +required
	Cluster string `json:"cluster"`

	// desired is the number of replicas that the cluster should have.
	// +required
	Desired int32 `json:"desired"`

	// granted is the number of replicas that the cluster is asked to run now. It differs from desired while replicas move between clusters.
	// +required
	Granted int32 `json:"granted"`

	// available is the number of available replicas in the cluster's last report.
	// +required
	Available int32 `json:"available"`
}

// PropagationProblem describes a place, an object in all clusters, or a cluster for all objects, that differs from the desired state.
type PropagationProblem struct {
	// cluster is the name of the MemberCluster. If empty, the problem affects all clusters.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// kind is the kind of the object. If empty, the problem affects all objects.
	// +optional
	Kind string `json:"kind,omitempty"`

	// name is the name of the object. If empty, the problem affects all objects.
	// +optional
	Name string `json:"name,omitempty"`

	// reason is the reason in one word.
	// +required
	Reason string `json:"reason"`

	// message explains the problem and what to do about it.
	// +optional
	Message string `json:"message,omitempty"`
}

// Propagation places objects of its namespace in member clusters, in the namespace with the same name. It exists only on a hub.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=prop
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.healthy`
// +kubebuilder:printcolumn:name="Placed",type=string,JSONPath=`.status.conditions[?(@.type=="Placed")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Propagation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec PropagationSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status PropagationStatus `json:"status,omitempty"`
}

// PropagationList is a list of Propagations.
//
// +kubebuilder:object:root=true
type PropagationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Propagation `json:"items"`
}

// ClusterPropagation places cluster-scoped objects in member clusters. It exists only on a hub.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cprop
// +kubebuilder:validation:XValidation:rule="!has(self.spec.replicas)",fieldPath=".spec.replicas",message="only a Propagation divides replicas: workloads are in namespaces"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.dependencies) || self.spec.dependencies == 'Off'",fieldPath=".spec.dependencies",message="only a Propagation has dependencies, in its namespace: select here what is in none, such as a SidecarSet"
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.healthy`
// +kubebuilder:printcolumn:name="Placed",type=string,JSONPath=`.status.conditions[?(@.type=="Placed")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterPropagation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec PropagationSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status PropagationStatus `json:"status,omitempty"`
}

// ClusterPropagationList is a list of ClusterPropagations.
//
// +kubebuilder:object:root=true
type ClusterPropagationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterPropagation `json:"items"`
}

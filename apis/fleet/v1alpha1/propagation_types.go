package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PropagationSpec places objects of the hub's cluster in member clusters, as they are there.
type PropagationSpec struct {
	// selectors select objects; an object that several select is placed once. A Propagation selects in its own namespace, a
	// ClusterPropagation objects that are in none. At most 500 objects can be selected.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Selectors []PropagationSelector `json:"selectors"`

	// dependencies is whether what the pod templates of the selected objects need in their namespace is placed with them: Off (default),
	// Auto, or Only, for UnitedDeployments, which are placed by their own subsets. A ClusterPropagation has Off.
	// +optional
	Dependencies DependencyPolicy `json:"dependencies,omitempty"`

	// clusters are the member clusters that the objects are placed in.
	// +required
	Clusters PropagationClusters `json:"clusters"`

	// tolerations are the taints of clusters that the objects tolerate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []ClusterToleration `json:"tolerations,omitempty"`

	// replicas is how the replicas of Deployments, CloneSets and StatefulSets, also advanced ones, are divided over the clusters. By default
	// each cluster runs as many as the object says. Other objects go to each cluster as they are. A ClusterPropagation has none.
	// +optional
	Replicas *PropagationReplicas `json:"replicas,omitempty"`

	// overrides change objects for some clusters, in their order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Overrides []PropagationOverride `json:"overrides,omitempty"`

	// apply is how the objects are applied in the members: what happens to an object that exists there, and which fields are left to
	// others. By default an object that exists is not touched, and all fields are applied.
	// +optional
	Apply *WorkApply `json:"apply,omitempty"`

	// deletionPolicy is what happens to an object in a member that is not to be there any more: Delete (default) or Orphan.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy LeavePolicy `json:"deletionPolicy,omitempty"`

	// suspend stops changes in members. What is withdrawn is withdrawn nevertheless.
	// +optional
	Suspend *PropagationSuspend `json:"suspend,omitempty"`
}

// DependencyPolicy is whether objects are placed that selected ones need.
// +kubebuilder:validation:Enum=Off;Auto;Only
type DependencyPolicy string

// Policies for dependencies.
const (
	// DependenciesOff: what is not selected is not placed.
	DependenciesOff DependencyPolicy = "Off"
	// DependenciesAuto: ConfigMaps, PersistentVolumeClaims, ServiceAccounts and Services that pod templates name, and budgets that match
	// their labels, are placed in the same clusters, as far as the hub places these kinds. Secrets are not: the status names them.
	DependenciesAuto DependencyPolicy = "Auto"
	// DependenciesOnly: as Auto, and the selected objects, which are UnitedDeployments, are not placed: their subsets name clusters.
	DependenciesOnly DependencyPolicy = "Only"
)

// PropagationSelector selects objects of one kind, by name or by labels.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.labelSelector)",message="a selector needs exactly one of name and labelSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.labelSelector) || (has(self.labelSelector.matchLabels) && self.labelSelector.matchLabels.size() > 0) || (has(self.labelSelector.matchExpressions) && self.labelSelector.matchExpressions.size() > 0)",fieldPath=".labelSelector",message="an empty selector would select every object of the kind: give labels, or a name"
type PropagationSelector struct {
	// apiVersion is the group and version in which the objects are read, and applied in the members.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`

	// kind is their kind.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name selects one object. One that does not exist yet is placed when it does.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// labelSelector selects by labels. It must not be empty.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// PropagationClusters are member clusters: those that all, names or selector select, without those of excluded.
//
// +kubebuilder:validation:XValidation:rule="[has(self.all) && self.all, has(self.names), has(self.selector)].filter(set, set).size() == 1",message="clusters needs exactly one of all, names and selector"
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || (has(self.selector.matchLabels) && self.selector.matchLabels.size() > 0) || (has(self.selector.matchExpressions) && self.selector.matchExpressions.size() > 0)",fieldPath=".selector",message="an empty selector is ambiguous: use all for every cluster, or give labels"
type PropagationClusters struct {
	// all selects every member cluster, also those that join later. Default false.
	// +optional
	All bool `json:"all,omitempty"`

	// names selects by name. A cluster that does not exist yet gets the objects when it has joined.
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

// ReplicaDivision is how replicas are divided over clusters.
// +kubebuilder:validation:Enum=Duplicated;Weighted;Ordered
type ReplicaDivision string

// Divisions.
const (
	// DivisionDuplicated: each cluster runs as many as the object says.
	DivisionDuplicated ReplicaDivision = "Duplicated"
	// DivisionWeighted: the clusters share the replicas of the object in proportion to weights.
	DivisionWeighted ReplicaDivision = "Weighted"
	// DivisionOrdered: the clusters are filled up to their maximums, in the order of shares.
	DivisionOrdered ReplicaDivision = "Ordered"
)

// PropagationReplicas divides the replicas of workloads over the clusters.
//
// +kubebuilder:validation:XValidation:rule="self.division != 'Ordered' || has(self.shares)",fieldPath=".shares",message="division Ordered needs shares: they are its order"
// +kubebuilder:validation:XValidation:rule="self.division != 'Duplicated' || !has(self.shares)",fieldPath=".shares",message="with division Duplicated each cluster runs all replicas: remove shares, or choose Weighted or Ordered"
// +kubebuilder:validation:XValidation:rule="self.division == 'Weighted' || !has(self.shares) || !self.shares.exists(s, has(s.weight))",fieldPath=".shares",message="only division Weighted has weights: remove weight, or choose Weighted"
type PropagationReplicas struct {
	// division is Duplicated, Weighted or Ordered.
	// +required
	Division ReplicaDivision `json:"division"`

	// shares are the parts of clusters; of a cluster that several match, the first one holds. A cluster that none matches gets the object
	// with no replicas, unless there are no shares: then all clusters share evenly.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Shares []PropagationShare `json:"shares,omitempty"`
}

// PropagationShare is the part of the replicas that each of some clusters gets.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusters) != has(self.clusterSelector)",message="a share needs exactly one of clusters and clusterSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.clusterSelector) || (has(self.clusterSelector.matchLabels) && self.clusterSelector.matchLabels.size() > 0) || (has(self.clusterSelector.matchExpressions) && self.clusterSelector.matchExpressions.size() > 0)",fieldPath=".clusterSelector",message="an empty selector is ambiguous: give labels, or clusters by name"
type PropagationShare struct {
	// clusters are the clusters by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Clusters []string `json:"clusters,omitempty"`

	// clusterSelector selects clusters by labels of MemberClusters. It must not be empty.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// weight is that of each of these clusters, with division Weighted; default 1. With 0 it gets no replicas.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`

	// maxReplicas is the most replicas that each of these clusters gets of an object. Default no limit but that of the MemberCluster.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
}

// PropagationOverride changes objects for some clusters.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusters) != has(self.clusterSelector)",message="an override needs exactly one of clusters and clusterSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.clusterSelector) || (has(self.clusterSelector.matchLabels) && self.clusterSelector.matchLabels.size() > 0) || (has(self.clusterSelector.matchExpressions) && self.clusterSelector.matchExpressions.size() > 0)",fieldPath=".clusterSelector",message="an empty selector would match every cluster: change the object itself, or give labels"
type PropagationOverride struct {
	// clusters are the clusters by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Clusters []string `json:"clusters,omitempty"`

	// clusterSelector selects clusters by labels of MemberClusters. It must not be empty.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// kind restricts the override to objects of that kind; default all kinds.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// name restricts the override to objects of that name; default all names.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// patches change the object in their order.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Patches []PropagationPatch `json:"patches"`
}

// PatchOperation is an operation of JSON Patch (RFC 6902).
// +kubebuilder:validation:Enum=add;replace;remove
type PatchOperation string

// Operations.
const (
	PatchAdd     PatchOperation = "add"
	PatchReplace PatchOperation = "replace"
	PatchRemove  PatchOperation = "remove"
)

// PropagationPatch is one operation of JSON Patch (RFC 6902).
type PropagationPatch struct {
	// op is add, replace or remove.
	// +required
	Op PatchOperation `json:"op"`

	// path is a JSON pointer (RFC 6901), such as /spec/replicas or /metadata/labels/example.com~1zone. apiVersion, kind, status, and
	// metadata without labels and annotations, can't be changed. An object that has no such path is not placed, and its status says so.
	// +required
	// +kubebuilder:validation:Pattern=`^(/([^/~]|~[01])+)+$`
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`

	// value is the value of add and replace, of any type but null. remove has none.
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
}

// PropagationSuspend stops changes in members.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.all) && self.all && has(self.clusters))",message="give either all or clusters"
type PropagationSuspend struct {
	// all suspends every cluster. Default false.
	// +optional
	All bool `json:"all,omitempty"`

	// clusters suspends some, by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Clusters []string `json:"clusters,omitempty"`
}

// Types of conditions of a Propagation.
const (
	// PropagationPlaced: every object that is selected has its row in every cluster that is selected. Otherwise reason and message
	// name what keeps the first one away.
	PropagationPlaced = "Placed"
	// PropagationHealthy: every object is up to date and healthy in every cluster, as far as the members report.
	PropagationHealthy = "Healthy"
	// PropagationWithdrawing is only there while the Propagation is being deleted, and says what that waits for.
	PropagationWithdrawing = "Withdrawing"
)

// PropagationStatus is the observed state. A place is an object in a cluster.
type PropagationStatus struct {
	// observedGeneration is the generation of the spec that the rest of the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Placed and Healthy, Ready, Reconciling and Stalled, and Withdrawing while the object is being deleted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// objects is how many objects are selected, with their dependencies.
	// +optional
	Objects int32 `json:"objects,omitempty"`

	// clusters is how many clusters are selected.
	// +optional
	Clusters int32 `json:"clusters,omitempty"`

	// staleClusters is how many of them have objects and do not answer: their numbers are old.
	// +optional
	StaleClusters int32 `json:"staleClusters,omitempty"`

	// desired is how many places there should be: objects times clusters.
	// +optional
	Desired int32 `json:"desired,omitempty"`

	// applied is at how many of them the member has applied the object as it is now.
	// +optional
	Applied int32 `json:"applied,omitempty"`

	// healthy is how many of those are healthy.
	// +optional
	Healthy int32 `json:"healthy,omitempty"`

	// divided are the replicas of the objects whose replicas are divided, by kind, name and cluster: at most 200 lines, of more those
	// first that are not as desired.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Divided []PropagationPart `json:"divided,omitempty"`

	// problems are the first 20 places that are not as desired, by cluster, kind and name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []PropagationProblem `json:"problems,omitempty"`
}

// PropagationPart is the part of the replicas of an object in one cluster.
type PropagationPart struct {
	// kind is the object's kind.
	// +required
	Kind string `json:"kind"`

	// name is the object's name.
	// +required
	Name string `json:"name"`

	// cluster is the name of the MemberCluster.
	// +required
	Cluster string `json:"cluster"`

	// desired is how many replicas the cluster should have.
	// +required
	Desired int32 `json:"desired"`

	// granted is how many it is asked to run now. It differs while replicas move.
	// +required
	Granted int32 `json:"granted"`

	// available is how many are available by its last report.
	// +required
	Available int32 `json:"available"`
}

// PropagationProblem is a place, an object in all clusters, or a cluster for all objects, which is not as desired.
type PropagationProblem struct {
	// cluster is the name of the MemberCluster; empty is all.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// kind is the object's kind; empty is all.
	// +optional
	Kind string `json:"kind,omitempty"`

	// name is the object's name; empty is all.
	// +optional
	Name string `json:"name,omitempty"`

	// reason is why, in one word.
	// +required
	Reason string `json:"reason"`

	// message is why, in words, and what to do.
	// +optional
	Message string `json:"message,omitempty"`
}

// Propagation places objects of its namespace in member clusters, in the namespace of the same name. Only on a hub.
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

// ClusterPropagation places objects that are in no namespace in member clusters. Only on a hub.
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

package v1alpha1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// StatefulSetSpec is the desired state of a StatefulSet. It has fewer fields than v1beta1; values of the others are preserved.
//
// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.maxUnavailable) || self.updateStrategy.rollingUpdate.maxUnavailable == 1",fieldPath=".updateStrategy",message="rollingUpdate.maxUnavailable must be 1 with podManagementPolicy OrderedReady, which changes one pod at a time: leave it out, or use Parallel"
// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.unorderedUpdate)",fieldPath=".updateStrategy",message="rollingUpdate.unorderedUpdate needs podManagementPolicy Parallel: OrderedReady updates by ordinal"
type StatefulSetSpec struct {
	// replicas is the desired number of pods. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// selector selects the pods. It must not be empty and must match the labels of template. It is immutable.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// template describes the pods to create, as a PodTemplateSpec. Its restartPolicy must be Always. Changing it creates a new revision, which
	// is rolled out according to updateStrategy.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// volumeClaimTemplates are the PVCs that are created for each pod, as a list of PersistentVolumeClaims. They are named
	// <template>-<statefulset>-<ordinal>.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// serviceName is the name of the headless Service that provides the DNS names of the pods. It becomes their subdomain. It is immutable.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`

	// podManagementPolicy specifies how pods are created and deleted when the StatefulSet is scaled. With OrderedReady, this happens one pod
	// at a time, each when its predecessors are available. With Parallel, pods don't wait for each other. It is immutable. Defaults to
	// OrderedReady.
	// +optional
	// +kubebuilder:validation:Enum=OrderedReady;Parallel;""
	PodManagementPolicy appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`

	// updateStrategy configures how pods are updated to the revision of template.
	// +optional
	UpdateStrategy appsv1beta1.StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// StatefulSet runs pods with stable names, stable ordinals and their own PVCs. It updates them in place if only images or metadata change.
// v1beta1 can also skip ordinals, resize PVCs and hold pods with hooks.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=sts;asts
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].name`
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].image`
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(oldSelf.spec) || self.spec.selector == oldSelf.spec.selector",fieldPath=".spec.selector",message="selector can't be changed: make a new StatefulSet"
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(oldSelf.spec) || ((has(self.spec.serviceName) && size(self.spec.serviceName) > 0) == (has(oldSelf.spec.serviceName) && size(oldSelf.spec.serviceName) > 0) && (!has(self.spec.serviceName) || !has(oldSelf.spec.serviceName) || self.spec.serviceName == oldSelf.spec.serviceName))",fieldPath=".spec.serviceName",message="serviceName can't be changed, it is part of the pods: delete the StatefulSet with --cascade=orphan and create it with the new one, then delete the pods one by one"
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(oldSelf.spec) || (has(self.spec.podManagementPolicy) && self.spec.podManagementPolicy == 'Parallel') == (has(oldSelf.spec.podManagementPolicy) && oldSelf.spec.podManagementPolicy == 'Parallel')",fieldPath=".spec.podManagementPolicy",message="podManagementPolicy can't be changed: delete the StatefulSet with --cascade=orphan and create it with the new one, its pods and PVCs stay"
type StatefulSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the StatefulSet.
	// +optional
	Spec StatefulSetSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status appsv1beta1.StatefulSetStatus `json:"status,omitempty"`
}

// StatefulSetList is a list of StatefulSet.
//
// +kubebuilder:object:root=true
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StatefulSet `json:"items"`
}

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// DaemonSetSpec is the desired state of a DaemonSet. The annotation keys.DaemonSetProgressiveCreate on the DaemonSet takes the place of
// scaleStrategy.partitionedScaling in v1beta1.
type DaemonSetSpec struct {
	// selector selects the pods. It must not be empty and must match the labels of template. It is immutable.
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// template describes the pod to create on each node, as a PodTemplateSpec. Its restartPolicy must be Always. Its nodeSelector, affinity
	// and tolerations determine the eligible nodes.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`

	// updateStrategy configures how pods are updated to the revision of template.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.rollingUpdate.rollingUpdateType) || self.rollingUpdate.rollingUpdateType != 'Surging' || !has(self.rollingUpdate.maxUnavailable) || self.rollingUpdate.maxUnavailable == 0 || self.rollingUpdate.maxUnavailable == '0%'",fieldPath=".rollingUpdate.maxUnavailable",message="rollingUpdateType Surging makes the new pod first: set maxUnavailable to 0, or use Standard"
	UpdateStrategy appsv1beta1.DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// minReadySeconds specifies how long a pod must be ready before it counts as available, in seconds. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// burstReplicas is the maximum number of pods that are created, and that are deleted or updated in place, before the result is observed.
	// Value can be an absolute number (ex: 5) or a percentage of the eligible nodes (ex: 10%), which is rounded down. Defaults to 250.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="burstReplicas can't be negative: leave it out for 250"
	BurstReplicas *intstr.IntOrString `json:"burstReplicas,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep that no pod uses. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// lifecycle configures hooks that hold pods before deletion. The inPlaceUpdate hook is not supported.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.inPlaceUpdate)",fieldPath=".inPlaceUpdate",message="a DaemonSet has no inPlaceUpdate hook: remove it; preDelete holds pods that are recreated"
	Lifecycle *pods.Lifecycle `json:"lifecycle,omitempty"`
}

// DaemonSetStatus is the observed state of a DaemonSet.
type DaemonSetStatus struct {
	appsv1beta1.DaemonSetStatus `json:",inline"`

	// daemonSetHash is the old name of updateRevision.
	// +optional
	DaemonSetHash string `json:"daemonSetHash,omitempty"`
}

// DaemonSet runs one pod on each eligible node. It updates pods in place if only images or metadata change, or creates the new pod next to
// the old one. It can update selected nodes first.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=daemon;ads
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.status.desiredNumberScheduled`
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=`.status.currentNumberScheduled`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.numberReady`
// +kubebuilder:printcolumn:name="UP-TO-DATE",type=integer,JSONPath=`.status.updatedNumberScheduled`
// +kubebuilder:printcolumn:name="AVAILABLE",type=integer,JSONPath=`.status.numberAvailable`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].name`
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].image`
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(oldSelf.spec) || self.spec.selector == oldSelf.spec.selector",fieldPath=".spec.selector",message="selector can't be changed: make a new DaemonSet"
type DaemonSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the DaemonSet.
	// +optional
	Spec DaemonSetSpec `json:"spec,omitempty"`

	// status is the most recently observed state.
	// +optional
	Status DaemonSetStatus `json:"status,omitempty"`
}

// DaemonSetList is a list of DaemonSet.
//
// +kubebuilder:object:root=true
type DaemonSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DaemonSet `json:"items"`
}

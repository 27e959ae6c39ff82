package pods

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// Placement specifies how a hub places replicas in clusters.
type Placement struct {
	// tolerations allow replicas to be placed in clusters with matching taints. A cluster that a subset names is not tolerated automatically.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []fleetv1alpha1.ClusterToleration `json:"tolerations,omitempty"`

	// reallocation limits how replicas move from one cluster to another.
	// +optional
	Reallocation *Reallocation `json:"reallocation,omitempty"`
}

// Reallocation limits the disruption while replicas move from one cluster to another. Both numbers apply to all clusters together. A move
// scales out the destination within maxSurge, and scales in the source as replicas become available in the destination.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || (self.maxSurge != 0 && self.maxSurge != '0%') || (has(self.maxUnavailable) && self.maxUnavailable != 0 && self.maxUnavailable != '0%')",message="with maxSurge 0 and maxUnavailable 0 no replica can move: raise one of them"
type Reallocation struct {
	// maxSurge is the maximum number of replicas by which all clusters together may exceed spec.replicas while replicas move. Value can be an
	// absolute number (ex: 5) or a percentage of spec.replicas (ex: 10%), which is rounded up. If it is 0, maxUnavailable must allow at least
	// one replica. Defaults to 25%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxSurge can't be negative"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is the maximum number of available replicas by which all clusters together may fall short of spec.replicas because
	// replicas move. Value can be an absolute number (ex: 5) or a percentage of spec.replicas (ex: 10%), which is rounded down. Defaults to 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxUnavailable can't be negative"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

package pods

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// Placement is how a hub places replicas over clusters.
type Placement struct {
	// tolerations let replicas be placed in clusters with these taints. A cluster that a subset names is not tolerated for that.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []fleetv1alpha1.ClusterToleration `json:"tolerations,omitempty"`

	// reallocation bounds how replicas move from one cluster to another.
	// +optional
	Reallocation *Reallocation `json:"reallocation,omitempty"`
}

// Reallocation bounds what may happen while replicas move from one cluster to another. Both numbers count over all
// clusters. A move grows the destination within maxSurge and shrinks the source as replicas become available there.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || (self.maxSurge != 0 && self.maxSurge != '0%') || (has(self.maxUnavailable) && self.maxUnavailable != 0 && self.maxUnavailable != '0%')",message="with maxSurge 0 and maxUnavailable 0 no replica can move: raise one of them"
type Reallocation struct {
	// maxSurge is by how many replicas all clusters together may exceed spec.replicas while replicas move: a number or a
	// percentage of spec.replicas, rounded up. Default 25%. With 0, maxUnavailable must allow at least one.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxSurge can't be negative"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is by how many available replicas all clusters together may fall short of spec.replicas because
	// replicas move: a number or a percentage of spec.replicas, rounded down. Default 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxUnavailable can't be negative"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

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
	Tolerations []ClusterToleration `json:"tolerations,omitempty"`

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

// TolerationOperator is how a toleration compares values.
// +kubebuilder:validation:Enum=Exists;Equal
type TolerationOperator string

// Operators of tolerations.
const (
	// TolerationExists tolerates every value.
	TolerationExists TolerationOperator = "Exists"
	// TolerationEqual tolerates one value.
	TolerationEqual TolerationOperator = "Equal"
)

// ClusterToleration lets an object be placed in clusters with a taint.
//
// +kubebuilder:validation:XValidation:rule="!has(self.value) || size(self.value) == 0 || !has(self.operator) || self.operator != 'Exists'",message="operator Exists tolerates every value: remove value, or set operator: Equal"
// +kubebuilder:validation:XValidation:rule="(has(self.key) && size(self.key) > 0) || (has(self.operator) && self.operator == 'Exists')",message="a toleration without key tolerates every taint: set operator: Exists, or name a key"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'Evict')",message="tolerationSeconds is how long replicas stay in spite of a taint that evicts: set effect: Evict, or remove tolerationSeconds"
type ClusterToleration struct {
	// key is the taint's; empty, with operator Exists, tolerates every taint.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key,omitempty"`
	// operator is Equal (default: the taint has this value) or Exists (it may have any).
	// +optional
	Operator TolerationOperator `json:"operator,omitempty"`
	// value is the taint's, for operator Equal.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// effect is the taint's; empty tolerates all effects.
	// +optional
	Effect fleetv1alpha1.TaintEffect `json:"effect,omitempty"`
	// tolerationSeconds is for how long, from the taint's timeAdded, replicas stay that the taint evicts. They do not grow meanwhile.
	// Unset tolerates the taint for ever; 0 does not tolerate it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

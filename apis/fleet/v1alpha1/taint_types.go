package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TaintEffect is the effect of a taint on objects that don't tolerate it.
// +kubebuilder:validation:Enum=NoPlace;NoNewPlace;Evict
type TaintEffect string

// Effects of taints, from weakest to strongest.
const (
	// NoNewPlace means that objects that aren't in the cluster yet are not placed there. Objects that are there may grow.
	NoNewPlace TaintEffect = "NoNewPlace"
	// NoPlace means that no object is placed in the cluster and none grows there. Objects keep what they have, and may shrink.
	NoPlace TaintEffect = "NoPlace"
	// Evict means NoPlace, and that replicas move to other clusters, each when its replacement is available.
	Evict TaintEffect = "Evict"
)

// ClusterTaint keeps objects away from a cluster unless they tolerate it.
type ClusterTaint struct {
	// key is the taint key. It has the form of a label key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Key string `json:"key"`
	// value is the taint value. It has the form of a label value.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`
	Value string `json:"value,omitempty"`
	// effect is the effect on objects that don't tolerate the taint. NoNewPlace keeps out objects that aren't there yet. NoPlace also prevents
	// objects that are there from growing. Evict also moves replicas to other clusters, each when its replacement is available.
	// +required
	Effect TaintEffect `json:"effect"`
	// timeAdded is the time at which the taint was added. It is set by the hub.
	// +optional
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
}

// String returns the taint in the format of kubectl: key=value:effect.
func (t *ClusterTaint) String() string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// TaintNames returns the taints in the format of kubectl.
func TaintNames(taints []ClusterTaint) []string {
	names := make([]string, len(taints))
	for i := range taints {
		names[i] = taints[i].String()
	}
	return names
}

// Strength orders effects: a stronger effect includes the weaker ones.
func (e TaintEffect) Strength() int {
	return slices.Index([]TaintEffect{NoNewPlace, NoPlace, Evict}, e)
}

// TolerationOperator specifies how a toleration compares the value of a taint.
// +kubebuilder:validation:Enum=Exists;Equal
type TolerationOperator string

// Operators of tolerations.
const (
	// TolerationExists tolerates any value.
	TolerationExists TolerationOperator = "Exists"
	// TolerationEqual tolerates exactly one value.
	TolerationEqual TolerationOperator = "Equal"
)

// ClusterToleration allows an object to be placed in clusters that have a matching taint.
//
// +kubebuilder:validation:XValidation:rule="!has(self.value) || size(self.value) == 0 || !has(self.operator) || self.operator != 'Exists'",message="operator Exists tolerates every value: remove value, or set operator: Equal"
// +kubebuilder:validation:XValidation:rule="(has(self.key) && size(self.key) > 0) || (has(self.operator) && self.operator == 'Exists')",message="a toleration without key tolerates every taint: set operator: Exists, or name a key"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'Evict')",message="tolerationSeconds is how long replicas stay in spite of a taint that evicts: set effect: Evict, or remove tolerationSeconds"
type ClusterToleration struct {
	// key is the key of the taint. If empty, operator must be Exists, and the toleration matches all taints.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key,omitempty"`
	// operator specifies how value is compared with the value of the taint. Equal requires the same value; Exists matches any value. Defaults
	// to Equal.
	// +optional
	Operator TolerationOperator `json:"operator,omitempty"`
	// value is the value of the taint. It is used with operator Equal only.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// effect is the effect of the taint. If empty, the toleration matches all effects.
	// +optional
	Effect TaintEffect `json:"effect,omitempty"`
	// tolerationSeconds specifies how long replicas stay in a cluster with a taint of effect Evict, counted from the taint's timeAdded. They
	// don't grow in that time. If unset, the taint is tolerated forever; with 0, it is not tolerated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

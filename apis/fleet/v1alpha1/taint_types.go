package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TaintEffect is what a taint does to objects that do not tolerate it.
// +kubebuilder:validation:Enum=NoPlace;NoNewPlace;Evict
type TaintEffect string

// Effects of taints, from the weakest to the strongest.
const (
	// NoNewPlace: objects that are not in the cluster are not placed there. Those that are may grow.
	NoNewPlace TaintEffect = "NoNewPlace"
	// NoPlace: nothing is placed and nothing grows. Objects keep what they have, and may shrink.
	NoPlace TaintEffect = "NoPlace"
	// Evict: like NoPlace, and replicas move to other clusters, each as its replacement is available.
	Evict TaintEffect = "Evict"
)

// ClusterTaint keeps objects that do not tolerate it away from a cluster.
type ClusterTaint struct {
	// key is the name of the taint, like the key of a label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Key string `json:"key"`
	// value is the value of the taint, like the value of a label.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`
	Value string `json:"value,omitempty"`
	// effect is NoNewPlace (objects that are not there yet stay away), NoPlace (nothing grows there either) or Evict (replicas move
	// to other clusters as they become available there).
	// +required
	Effect TaintEffect `json:"effect"`
	// timeAdded is when the taint was added. The hub sets it.
	// +optional
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
}

// String returns the taint as kubectl writes it: key=value:effect.
func (t *ClusterTaint) String() string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// TaintNames returns taints as kubectl writes them.
func TaintNames(taints []ClusterTaint) []string {
	names := make([]string, len(taints))
	for i := range taints {
		names[i] = taints[i].String()
	}
	return names
}

// Strength orders effects: a stronger one does all that a weaker one does.
func (e TaintEffect) Strength() int {
	return slices.Index([]TaintEffect{NoNewPlace, NoPlace, Evict}, e)
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
	Effect TaintEffect `json:"effect,omitempty"`
	// tolerationSeconds is for how long, from the taint's timeAdded, replicas stay that the taint evicts. They do not grow meanwhile.
	// Unset tolerates the taint for ever; 0 does not tolerate it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

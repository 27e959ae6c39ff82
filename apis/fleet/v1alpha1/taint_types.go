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

package podpatch

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// Status is the subresource that takes conditions.
const Status = "status"

// reasonGates is the kubelet's reason for a pod that is not ready because of a readiness gate, as in kube 1.36.
const reasonGates = "ReadinessGatesNotReady"

// Patch is one write to a pod. It has the pod's UID, so that it never changes another pod of the same name.
type Patch struct {
	Type types.PatchType
	// Subresource is where the patch is sent to; empty for the pod itself.
	Subresource string
	Data        []byte
}

// Body is the content of a strategic merge patch. A nil value removes the key.
type Body struct {
	Metadata Meta           `json:"metadata"`
	Spec     map[string]any `json:"spec,omitempty"`
	Status   BodyStatus     `json:"status,omitzero"`
}

// Meta is the part of a Body about metadata.
type Meta struct {
	UID types.UID `json:"uid,omitempty"`
	// ResourceVersion, if set, makes the write apply to that version of the pod only; otherwise it is refused with a
	// conflict.
	ResourceVersion string             `json:"resourceVersion,omitempty"`
	Labels          map[string]*string `json:"labels,omitempty"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
	// Finalizers are added; existing ones stay.
	Finalizers []string `json:"finalizers,omitempty"`
}

// BodyStatus is the part of a Body about status. Conditions of other types stay as they are.
type BodyStatus struct {
	// Phase, if set, is the pod's. A kubelet stops the containers of a pod that has ended.
	Phase      corev1.PodPhase `json:"phase,omitempty"`
	Conditions []Condition     `json:"conditions,omitempty"`
}

// Condition replaces these fields of the pod's condition of its type; a nil reason or message is removed.
type Condition struct {
	Type               corev1.PodConditionType `json:"type"`
	Status             corev1.ConditionStatus  `json:"status"`
	LastTransitionTime metav1.Time             `json:"lastTransitionTime"`
	// LastProbeTime stays as it is if it is nil.
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`
	Reason        *string      `json:"reason"`
	Message       *string      `json:"message"`
}

// New returns a Body that changes nothing.
func New(pod *corev1.Pod) Body {
	return Body{Metadata: Meta{UID: pod.UID, Labels: map[string]*string{}, Annotations: map[string]*string{}}}
}

// ForDeletion returns a Body that labels this version of a pod for deletion by its workload.
func ForDeletion(pod *corev1.Pod) Body {
	b := New(pod)
	b.Observed(pod)
	b.Metadata.Labels[keys.SpecifiedDelete] = new("true")
	return b
}

// Set adds a condition. Its time is now, unless the pod has the condition with that status already. An empty reason
// or message is removed.
func (b *Body) Set(pod *corev1.Pod, t corev1.PodConditionType, s corev1.ConditionStatus, reason, message string, now time.Time) {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	if c := Find(pod, t); c != nil && c.Status == s {
		at = c.LastTransitionTime
	}
	b.Status.Conditions = append(b.Status.Conditions, Condition{
		Type: t, Status: s, LastTransitionTime: at, Reason: orNil(reason), Message: orNil(message),
	})
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Unready adds that the pod is not ready because of a readiness gate, if it is ready. The kubelet would do so by
// itself, but endpoints should drop the pod now, and no budget may count it.
func (b *Body) Unready(pod *corev1.Pod, now time.Time) {
	if Ready(pod) {
		b.Set(pod, corev1.PodReady, corev1.ConditionFalse, reasonGates, "", now)
	}
}

// Observed makes the write apply to the observed version of the pod only.
func (b *Body) Observed(pod *corev1.Pod) { b.Metadata.ResourceVersion = pod.ResourceVersion }

// Patch returns the request. The pod's name is part of an error.
func (b Body) Patch(pod *corev1.Pod, subresource string) (Patch, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return Patch{}, fmt.Errorf("write a patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return Patch{Type: types.StrategicMergePatchType, Subresource: subresource, Data: data}, nil
}

// Ended reports whether nothing of a pod runs any more.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Active reports whether a pod has neither ended nor is being deleted.
func Active(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !Ended(pod) }

// Ready reports whether a pod is ready by its condition.
func Ready(pod *corev1.Pod) bool {
	c := Find(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Find returns the pod's condition of a type, nil if it has none.
func Find(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Gated reports whether the pod has the readiness gate of a condition.
func Gated(pod *corev1.Pod, t corev1.PodConditionType) bool {
	for _, g := range pod.Spec.ReadinessGates {
		if g.ConditionType == t {
			return true
		}
	}
	return false
}

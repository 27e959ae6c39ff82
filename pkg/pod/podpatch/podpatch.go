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

// Status is the subresource for conditions.
const Status = "status"

// reasonGates is the kubelet's reason for a pod that is not ready because of a readiness gate, as in Kubernetes 1.36.
const reasonGates = "ReadinessGatesNotReady"

// Patch is one write to a pod. It contains the pod's UID, so that it never changes another pod with the same name.
type Patch struct {
	Type types.PatchType
	// Subresource is the target of the patch; empty for the pod itself.
	Subresource string
	Data        []byte
}

// Body is the content of a strategic merge patch. A nil value removes the key.
type Body struct {
	Metadata Meta           `json:"metadata"`
	Spec     map[string]any `json:"spec,omitempty"`
	Status   BodyStatus     `json:"status,omitzero"`
}

// Meta is the metadata part of a Body.
type Meta struct {
	UID types.UID `json:"uid,omitempty"`
	// ResourceVersion, if set, makes the write apply only to that version of the pod; otherwise it fails with a conflict.
	ResourceVersion string             `json:"resourceVersion,omitempty"`
	Labels          map[string]*string `json:"labels,omitempty"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
	// Finalizers are added; existing ones stay.
	Finalizers []string `json:"finalizers,omitempty"`
}

// BodyStatus is the status part of a Body. Conditions of other types stay unchanged.
type BodyStatus struct {
	// Phase, if set, becomes the pod's phase. The kubelet stops the containers of a pod that has ended.
	Phase      corev1.PodPhase `json:"phase,omitempty"`
	Conditions []Condition     `json:"conditions,omitempty"`
}

// Condition replaces these fields of the pod's condition with that type; a nil reason or message is removed.
type Condition struct {
	Type               corev1.PodConditionType `json:"type"`
	Status             corev1.ConditionStatus  `json:"status"`
	LastTransitionTime metav1.Time             `json:"lastTransitionTime"`
	// LastProbeTime stays unchanged if it is nil.
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

// Set adds a condition. Its transition time is now, unless the pod already has the condition with that status. An empty reason or message is
// removed.
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

// Unready adds a Ready condition that is False because of a readiness gate, if the pod is ready. The kubelet would do that on its own, but
// endpoints should drop the pod right away, and no budget may count it.
func (b *Body) Unready(pod *corev1.Pod, now time.Time) {
	if Ready(pod) {
		b.Set(pod, corev1.PodReady, corev1.ConditionFalse, reasonGates, "", now)
	}
}

// Observed makes the write apply only to the observed version of the pod.
func (b *Body) Observed(pod *corev1.Pod) { b.Metadata.ResourceVersion = pod.ResourceVersion }

// Patch returns the request. An error contains the pod's name.
func (b Body) Patch(pod *corev1.Pod, subresource string) (Patch, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return Patch{}, fmt.Errorf("write a patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return Patch{Type: types.StrategicMergePatchType, Subresource: subresource, Data: data}, nil
}

// Ended reports whether all containers of a pod have stopped for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Active reports whether a pod has neither ended nor is being deleted.
func Active(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !Ended(pod) }

// Ready reports whether a pod's Ready condition is True.
func Ready(pod *corev1.Pod) bool {
	c := Find(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Find returns the pod's condition of a type, or nil.
func Find(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Gated reports whether the pod has a readiness gate for this condition.
func Gated(pod *corev1.Pod, t corev1.PodConditionType) bool {
	for _, g := range pod.Spec.ReadinessGates {
		if g.ConditionType == t {
			return true
		}
	}
	return false
}

package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/revision"
)

// ReasonStart is the reason of the condition InPlaceUpdateReady while it is False.
const ReasonStart = "StartInPlaceUpdate"

// reasonGates is the kubelet's reason for a pod that is not ready because of a readiness gate, as in kube 1.36.
const reasonGates = "ReadinessGatesNotReady"

// Patch is one write to a pod. It holds the pod's UID, so that it never reaches another pod of the same name.
type Patch struct {
	Type types.PatchType
	// Subresource is "status" or empty.
	Subresource string
	Data        []byte
}

// body is the content of a patch. Values are nil where a key is taken off.
type body struct {
	Metadata meta           `json:"metadata"`
	Spec     map[string]any `json:"spec,omitempty"`
	Status   map[string]any `json:"status,omitempty"`
}

type meta struct {
	UID             types.UID          `json:"uid,omitempty"`
	ResourceVersion string             `json:"resourceVersion,omitempty"`
	Labels          map[string]*string `json:"labels,omitempty"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
}

func (b body) patch(pod *corev1.Pod, subresource string) (Patch, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return Patch{}, fmt.Errorf("write a patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return Patch{Type: types.StrategicMergePatchType, Subresource: subresource, Data: data}, nil
}

// Gated tells whether the pod has the readiness gate InPlaceUpdateReady.
func Gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		return g.ConditionType == keys.InPlaceUpdateReady
	})
}

// Closed tells whether the pod is out of service for an update in place: its gate is closed, or it has none and its
// lifecycle says so.
func Closed(pod *corev1.Pod) bool {
	c := condition(pod, keys.InPlaceUpdateReady)
	return c != nil && c.Status == corev1.ConditionFalse || lifecycle.Of(pod) == pods.LifecycleUpdating
}

// Mark is the first write: it takes the pod out of service. The pod should be Gated; of one that is not, only the
// lifecycle changes.
func Mark(pod *corev1.Pod, now time.Time) (Patch, error) {
	b := body{Metadata: state(pod, pods.LifecycleUpdating, now)}
	for _, k := range []string{keys.InPlaceUpdateState, keys.InPlaceUpdateStateOld} {
		b.Metadata.Annotations[k] = nil
	}
	if Gated(pod) {
		conditions := []map[string]any{switched(pod, keys.InPlaceUpdateReady, corev1.ConditionFalse, ReasonStart, now)}
		// The kubelet would follow by itself, but endpoints should drop the pod now, and the budget must not count it.
		if ready := condition(pod, corev1.PodReady); ready != nil && ready.Status == corev1.ConditionTrue {
			conditions = append(conditions, switched(pod, corev1.PodReady, corev1.ConditionFalse, reasonGates, now))
		}
		b.Status = map[string]any{"conditions": conditions}
	}
	return b.patch(pod, "status")
}

// Write is the second write: images, labels, annotations, the revision and the record, in one request. name is the revision's
// name of the ControllerRevision. What a former controller left Pending is written too.
func (e Edit) Write(pod *corev1.Pod, name string, now time.Time) (Patch, error) {
	e = pending(pod).after(e)
	record, err := newRecord(pod, e.Images, name, now).marshal()
	if err != nil {
		return Patch{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	m := meta{UID: pod.UID, Labels: map[string]*string{}, Annotations: map[string]*string{}}
	if !e.Quiet() {
		m = state(pod, pods.LifecycleUpdating, now)
	}
	maps.Copy(m.Labels, e.Labels)
	maps.Copy(m.Annotations, e.Annotations)
	m.Labels[keys.ControllerRevisionHash], m.Labels[keys.PodTemplateHash] = &name, new(revision.Short(name))
	m.Annotations[keys.InPlaceUpdateState] = &record
	for _, k := range []string{keys.InPlaceUpdateStateOld, keys.InPlaceUpdateGrace, keys.InPlaceUpdateGraceOld} {
		m.Annotations[k] = nil
	}
	b := body{Metadata: m}
	if !e.Quiet() {
		containers := make([]map[string]any, 0, len(e.Images))
		for _, name := range slices.Sorted(maps.Keys(e.Images)) {
			containers = append(containers, map[string]any{"name": name, "image": e.Images[name]})
		}
		b.Spec = map[string]any{"containers": containers}
	}
	return b.patch(pod, "")
}

// Release is the last write: it puts the pod into service, after an update, after one that was called off, and after its
// creation. If the gate is closed, the write applies to the observed version of the pod only and else is refused with a
// conflict: a late writer must not open a gate that was closed for the next update.
func Release(pod *corev1.Pod, now time.Time) (Patch, error) {
	b := body{Metadata: state(pod, pods.LifecycleNormal, now)}
	if Closed(pod) {
		b.Metadata.ResourceVersion = pod.ResourceVersion
	}
	if Gated(pod) {
		b.Status = map[string]any{"conditions": []map[string]any{
			switched(pod, keys.InPlaceUpdateReady, corev1.ConditionTrue, "", now),
		}}
	}
	return b.patch(pod, "status")
}

// state is the metadata of a write that brings the pod to s. The time of a state that the pod has already stays.
func state(pod *corev1.Pod, s pods.LifecycleState, now time.Time) meta {
	m := meta{UID: pod.UID, Labels: map[string]*string{}, Annotations: map[string]*string{}}
	if pod.Labels[keys.LifecycleState] == string(s) {
		return m
	}
	for k, v := range lifecycle.Label(s) {
		m.Labels[k] = &v
	}
	for k, v := range lifecycle.Annotation(now) {
		m.Annotations[k] = &v
	}
	return m
}

// switched is a condition as a strategic merge patch: it replaces fields of the condition of its type, and takes the
// message of the former status off.
func switched(pod *corev1.Pod, t corev1.PodConditionType, s corev1.ConditionStatus, reason string, now time.Time) map[string]any {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	if c := condition(pod, t); c != nil && c.Status == s {
		at = c.LastTransitionTime
	}
	out := map[string]any{"type": t, "status": s, "lastTransitionTime": at, "reason": nil, "message": nil}
	if reason != "" {
		out["reason"] = reason
	}
	return out
}

func condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

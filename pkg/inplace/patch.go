package inplace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
)

// ReasonStart is the reason of the condition InPlaceUpdateReady while it is False.
const ReasonStart = "StartInPlaceUpdate"

// Gated tells whether the pod has the readiness gate InPlaceUpdateReady.
func Gated(pod *corev1.Pod) bool { return podpatch.Gated(pod, keys.InPlaceUpdateReady) }

// Closed tells whether the pod is out of service for an update in place: its gate is closed, or it has none and its
// lifecycle says so.
func Closed(pod *corev1.Pod) bool {
	c := podpatch.Find(pod, keys.InPlaceUpdateReady)
	return c != nil && c.Status == corev1.ConditionFalse || lifecycle.Of(pod) == pods.LifecycleUpdating
}

// Mark is the first write: it takes the pod out of service. The pod should be Gated; of one that is not, only the
// lifecycle changes.
func Mark(pod *corev1.Pod, now time.Time) (podpatch.Patch, error) {
	b := lifecycle.Enter(pod, pods.LifecycleUpdating, now)
	for _, k := range []string{keys.InPlaceUpdateState, keys.InPlaceUpdateStateOld} {
		b.Metadata.Annotations[k] = nil
	}
	if Gated(pod) {
		b.Set(pod, keys.InPlaceUpdateReady, corev1.ConditionFalse, ReasonStart, "", now)
		b.Unready(pod, now)
	}
	return b.Patch(pod, podpatch.Status)
}

// Write is the second write: images, labels, annotations, the revision and the record, in one request. revision is the
// name of the ControllerRevision. What a former controller left Pending is written too.
func (e Edit) Write(pod *corev1.Pod, revision string, now time.Time) (podpatch.Patch, error) {
	e = pending(pod).after(e)
	record, err := newRecord(pod, e.Images, revision, now).marshal()
	if err != nil {
		return podpatch.Patch{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	b := podpatch.New(pod)
	if !e.Quiet() {
		b = lifecycle.Enter(pod, pods.LifecycleUpdating, now)
	}
	m := b.Metadata
	maps.Copy(m.Labels, e.Labels)
	maps.Copy(m.Annotations, e.Annotations)
	hash := revision[strings.LastIndex(revision, "-")+1:]
	m.Labels[keys.ControllerRevisionHash], m.Labels[keys.PodTemplateHash] = &revision, &hash
	m.Annotations[keys.InPlaceUpdateState] = &record
	for _, k := range []string{keys.InPlaceUpdateStateOld, keys.InPlaceUpdateGrace, keys.InPlaceUpdateGraceOld} {
		m.Annotations[k] = nil
	}
	if !e.Quiet() {
		containers := make([]map[string]any, 0, len(e.Images))
		for _, name := range slices.Sorted(maps.Keys(e.Images)) {
			containers = append(containers, map[string]any{"name": name, "image": e.Images[name]})
		}
		b.Spec = map[string]any{"containers": containers}
	}
	return b.Patch(pod, "")
}

// Release is the last write: it opens the gate and brings the pod into the state that b holds, as Enter and Serve of
// pkg/lifecycle make it. It comes after an update, after one that was called off, and after the pod's creation. If the
// gate is closed, the write applies to the observed version of the pod only and else is refused with a conflict: a late
// writer must not open a gate that was closed for the next update.
func Release(pod *corev1.Pod, b podpatch.Body, now time.Time) (podpatch.Patch, error) {
	if Closed(pod) {
		b.Observed(pod)
	}
	if Gated(pod) {
		b.Set(pod, keys.InPlaceUpdateReady, corev1.ConditionTrue, "", "", now)
	}
	return b.Patch(pod, podpatch.Status)
}

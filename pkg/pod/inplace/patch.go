package inplace

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// ReasonStart is the reason of the condition InPlaceUpdateReady while it is False.
const ReasonStart = "StartInPlaceUpdate"

// Gated reports whether the pod has the readiness gate InPlaceUpdateReady.
func Gated(pod *corev1.Pod) bool { return podpatch.Gated(pod, keys.InPlaceUpdateReady) }

// Closed reports whether the pod is out of service for an in-place update: its gate is closed, or it has no gate and its lifecycle state is
// Updating.
func Closed(pod *corev1.Pod) bool {
	c := podpatch.Find(pod, keys.InPlaceUpdateReady)
	return c != nil && c.Status == corev1.ConditionFalse || lifecycle.Of(pod) == pods.LifecycleUpdating
}

// Drained returns when the grace period for traffic ends for a pod that is marked but not written: grace after its gate was closed. It is the
// zero time for a pod without a closed gate, which has no traffic to drain.
func Drained(pod *corev1.Pod, grace time.Duration) time.Time {
	c := podpatch.Find(pod, keys.InPlaceUpdateReady)
	if grace <= 0 || c == nil || c.Status != corev1.ConditionFalse || Recorded(pod) {
		return time.Time{}
	}
	// The condition's time has a resolution of seconds.
	return c.LastTransitionTime.Add(grace + time.Second)
}

// MarkUnready is the first write: it takes the pod out of service. The pod should be Gated; otherwise only its lifecycle changes. Like all
// writes of an update, it applies only to the observed version of the pod and otherwise fails with a conflict: a stale cache must not begin an
// update again.
func MarkUnready(pod *corev1.Pod, now time.Time) (podpatch.Patch, error) {
	b := lifecycle.Enter(pod, pods.LifecycleUpdating, now)
	b.Observed(pod)
	for _, k := range []string{keys.InPlaceUpdateState, keys.InPlaceUpdateStateOld} {
		b.Metadata.Annotations[k] = nil
	}
	if Gated(pod) {
		b.Set(pod, keys.InPlaceUpdateReady, corev1.ConditionFalse, ReasonStart, "", now)
		b.Unready(pod, now)
	}
	return b.Patch(pod, podpatch.Status)
}

// Write is the second write: images, labels, annotations, the revision and the record in one request, and resources, which the API server takes
// in a separate request. Send the patches in this order, each only if the one before succeeded; if one did not, Progress reports Next. to holds
// the changes of the labels that record the ControllerRevision, at least keys.ControllerRevisionHash. If several containers have launch
// priorities, only the first batch is written. Anything that an earlier update left unwritten is written too.
func (u Update) Write(pod *corev1.Pod, to map[string]*string, now time.Time) ([]podpatch.Patch, error) {
	whole := remainingOf(pod, recordOf(pod)).all().after(u)
	first, later := whole.trim(pod).split(&pod.Spec)
	b := podpatch.New(pod)
	if !u.MetadataOnly() {
		b = lifecycle.Enter(pod, pods.LifecycleUpdating, now)
	}
	b.Observed(pod)
	maps.Copy(b.Metadata.Labels, to)
	return first.patches(pod, b, newRecord(pod, *to[keys.ControllerRevisionHash], whole, first, later, now))
}

// Continue writes what Progress reports as next: another batch, resources that are not written yet, or an update that another controller left in
// its grace period. Send the patches as described at Write.
func Continue(pod *corev1.Pod, now time.Time) ([]podpatch.Patch, error) {
	r := recordOf(pod)
	rest := remainingOf(pod, r)
	b := podpatch.New(pod)
	b.Observed(pod)
	switch {
	case !rest.grace.empty():
		whole := rest.all()
		first, later := whole.trim(pod).split(&pod.Spec)
		return first.patches(pod, b, newRecord(pod, r.Revision, whole, first, later, now))
	case len(rest.resize) > 0:
		p, err := resize(pod, b, rest.resize)
		return []podpatch.Patch{p}, err
	default:
		first, later := rest.later.split(&pod.Spec)
		return first.patches(pod, b, r.nextBatch(pod, first, later, now))
	}
}

// patches returns the requests that write one batch.
func (u Update) patches(pod *corev1.Pod, b podpatch.Body, r record) ([]podpatch.Patch, error) {
	raw, err := r.marshal()
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	maps.Copy(b.Metadata.Labels, u.Labels)
	maps.Copy(b.Metadata.Annotations, u.Annotations)
	b.Metadata.Annotations[keys.InPlaceUpdateState] = &raw
	for _, k := range []string{keys.InPlaceUpdateStateOld, keys.InPlaceUpdateGrace, keys.InPlaceUpdateGraceOld} {
		b.Metadata.Annotations[k] = nil
	}
	b.Spec = Fields(pod, u.Images, "image")
	p, err := b.Patch(pod, "")
	if err != nil || len(u.Resources) == 0 {
		return []podpatch.Patch{p}, err
	}
	q, err := resize(pod, podpatch.New(pod), u.Resources)
	return []podpatch.Patch{p, q}, err
}

// resize writes resources, and takes only the preconditions from b. As in Kubernetes 1.36, the API server ignores everything else in such a
// request, and rejects resources in any other.
func resize(
	pod *corev1.Pod, b podpatch.Body, resources map[string]corev1.ResourceRequirements,
) (podpatch.Patch, error) {
	b.Spec = Fields(pod, resources, "resources")
	return b.Patch(pod, "resize")
}

// Fields returns a spec that sets one field of containers, with the values by container name.
func Fields[V any](pod *corev1.Pod, values map[string]V, field string) map[string]any {
	if len(values) == 0 {
		return nil
	}
	out := map[string]any{}
	for list, containers := range map[string][]corev1.Container{
		"containers": pod.Spec.Containers, "initContainers": pod.Spec.InitContainers,
	} {
		var entries []map[string]any
		for i := range containers {
			if v, ok := values[containers[i].Name]; ok {
				entries = append(entries, map[string]any{"name": containers[i].Name, field: v})
			}
		}
		if entries != nil {
			out[list] = entries
		}
	}
	return out
}

// MarkReady is the last write: it opens the gate and sets the lifecycle state from b, which Enter and Serve of pkg/pod/lifecycle return. It follows
// an update, a cancelled update, and the pod's creation. If the gate is closed, the write applies only to the observed version of the pod and
// otherwise fails with a conflict: a late write must not open a gate that was closed for the next update.
func MarkReady(pod *corev1.Pod, b podpatch.Body, now time.Time) (podpatch.Patch, error) {
	if Closed(pod) {
		b.Observed(pod)
		if r := recordOf(pod); len(r.NextContainerResources) > 0 {
			// They are written. If they stayed in the record, OpenKruise would wait for them.
			r.NextContainerResources = nil
			raw, err := r.marshal()
			if err != nil {
				return podpatch.Patch{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			b.Metadata.Annotations[keys.InPlaceUpdateState] = &raw
		}
	}
	if Gated(pod) {
		b.Set(pod, keys.InPlaceUpdateReady, corev1.ConditionTrue, "", "", now)
	}
	return b.Patch(pod, podpatch.Status)
}

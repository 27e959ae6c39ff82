package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// record is what a pod carries about its last update: the fields that every writer of the annotation knows, and ours.
type record struct {
	pods.InPlaceUpdateState

	// LastContainerIDs are the IDs of the changed containers before the update, by name: they tell a restart where the new
	// image has the same ID as the old one. Absent in records of other writers.
	LastContainerIDs map[string]string `json:"lastContainerIDs,omitempty"`
}

// grace is what of a pending update is read from keys.InPlaceUpdateGrace.
type grace struct {
	ContainerImages map[string]string `json:"containerImages"`
	MetaDataPatch   []byte            `json:"metaDataPatch"`
}

// Recorded tells whether the pod carries the record of an update, under way or done.
func Recorded(pod *corev1.Pod) bool {
	return annotation(pod, keys.InPlaceUpdateState, keys.InPlaceUpdateStateOld) != ""
}

// recordOf reads the pod's record. One that nobody can read is as good as none: the update then counts as done.
func recordOf(pod *corev1.Pod) record {
	var r record
	if err := json.Unmarshal([]byte(annotation(pod, keys.InPlaceUpdateState, keys.InPlaceUpdateStateOld)), &r); err != nil {
		return record{}
	}
	return r
}

func annotation(pod *corev1.Pod, names ...string) string {
	for _, n := range names {
		if v := pod.Annotations[n]; v != "" {
			return v
		}
	}
	return ""
}

// Pending tells whether a part of the update that the pod's revision label speaks of has not been written to its spec:
// another controller, from which the pod was taken over, left it in its grace period or between two batches. Write of
// any Edit, also of the zero one, writes that part too.
func Pending(pod *corev1.Pod) bool {
	e := pending(pod)
	return len(e.Images)+len(e.Labels)+len(e.Annotations) > 0
}

func pending(pod *corev1.Pod) Edit {
	var g grace
	var meta struct {
		Metadata struct{ Labels, Annotations map[string]*string }
	}
	if raw := annotation(pod, keys.InPlaceUpdateGrace, keys.InPlaceUpdateGraceOld); raw != "" {
		if err := json.Unmarshal([]byte(raw), &g); err != nil {
			g = grace{}
		}
		if err := json.Unmarshal(g.MetaDataPatch, &meta); err != nil {
			meta.Metadata.Labels, meta.Metadata.Annotations = nil, nil
		}
	}
	var next map[string]string
	// Most records name no next batch, and every pod is asked in every plan.
	if raw := annotation(pod, keys.InPlaceUpdateState, keys.InPlaceUpdateStateOld); strings.Contains(raw, "nextContainerImages") {
		next = recordOf(pod).NextContainerImages
	}
	e := Edit{Images: map[string]string{}, Labels: meta.Metadata.Labels, Annotations: meta.Metadata.Annotations}
	for _, images := range []map[string]string{next, g.ContainerImages} {
		for name, image := range images {
			if c := container(pod.Spec.Containers, name); c != nil && c.Image != image {
				e.Images[name] = image
			}
		}
	}
	return e
}

// after is the edit that does what e and then next does.
func (e Edit) after(next Edit) Edit {
	return Edit{
		Images:      overlay(e.Images, next.Images),
		Labels:      overlay(e.Labels, next.Labels),
		Annotations: overlay(e.Annotations, next.Annotations),
	}
}

func overlay[V any](under, over map[string]V) map[string]V {
	out := make(map[string]V, len(under)+len(over))
	maps.Copy(out, under)
	maps.Copy(out, over)
	return out
}

// newRecord notes, for the containers that get a new image, what runs now. Containers that an earlier update changed and
// that have not followed yet stay in the record as they are, so that the pod isn't done before they are. If they get yet
// another image, their image ID is left out: a new one could be that of the earlier update.
func newRecord(pod *corev1.Pod, images map[string]string, revision string, now time.Time) record {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	r := record{
		InPlaceUpdateState: pods.InPlaceUpdateState{Revision: revision, UpdateTimestamp: at},
		LastContainerIDs:   map[string]string{},
	}
	were := map[string]pods.InPlaceContainerStatus{}
	if last := recordOf(pod); Closed(pod) {
		for name, was := range last.LastContainerStatuses {
			if !last.progress(pod, name, now).Done {
				were[name] = was
				r.LastContainerIDs[name] = last.LastContainerIDs[name]
			}
		}
	}
	for name := range images {
		_, unfinished := were[name]
		var was pods.InPlaceContainerStatus
		if st := status(pod, name); st != nil {
			r.LastContainerIDs[name] = st.ContainerID
			if !unfinished {
				was.ImageID = st.ImageID
			}
		}
		were[name] = was
	}
	if len(were) > 0 {
		r.UpdateImages = true
		r.LastContainerStatuses = were
		r.ContainerBatchesRecord = []pods.InPlaceContainerBatch{{
			Timestamp: at, Containers: slices.Sorted(maps.Keys(were)),
		}}
	}
	return r
}

func (r record) marshal() (string, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("write the record of an update in place: %w", err)
	}
	return string(b), nil
}

func status(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

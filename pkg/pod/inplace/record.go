package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// record is a pod's annotation about its last update: the fields known to OpenKruise, and ours.
type record struct {
	pods.InPlaceUpdateState

	// LastContainerIDs are the IDs, by name, that the containers to restart had before the update. They reveal a restart if the new image has the
	// same ID as the old one. Absent in records of OpenKruise.
	LastContainerIDs map[string]string `json:"lastContainerIDs,omitempty"`
	// ResizedContainers are the names of the containers whose resources change. Absent in records of OpenKruise.
	ResizedContainers []string `json:"resizedContainers,omitempty"`
	// RestartedContainers are the names of the containers that are restarted because of keys.RestartContainers, and NextRestarts the ones in later
	// batches. Absent in records of OpenKruise.
	RestartedContainers []string `json:"restartedContainers,omitempty"`
	NextRestarts        []string `json:"nextRestarts,omitempty"`
	// StartedWith is the env from labels and annotations that a container may have been started with before the update, by container name and
	// image: the EnvHash, 0 if unknown. It only covers containers that read any. Absent in records of OpenKruise.
	StartedWith map[string]map[string]uint64 `json:"startedWith,omitempty"`
}

// Recorded reports whether the pod has the record of an update, whether in progress or done.
func Recorded(pod *corev1.Pod) bool {
	return annotation(pod, keys.InPlaceUpdateState, keys.InPlaceUpdateStateOld) != ""
}

// recordOf reads the pod's record. An invalid record is ignored: the update then counts as done.
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

func (r record) marshal() (string, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode the record of an in-place update: %w", err)
	}
	return string(b), nil
}

// since is when the last batch was written.
func (r record) since() time.Time {
	if n := len(r.ContainerBatchesRecord); n > 0 {
		return r.ContainerBatchesRecord[n-1].Timestamp.UTC()
	}
	return r.UpdateTimestamp.UTC()
}

// changed returns the sorted names of the containers changed so far.
func (r record) changed() []string {
	out := slices.Collect(maps.Keys(r.LastContainerStatuses))
	for _, b := range r.ContainerBatchesRecord {
		out = append(out, b.Containers...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// contains reports whether the container belongs to a batch that has been written.
func (r record) contains(name string) bool {
	return slices.ContainsFunc(r.ContainerBatchesRecord, func(b pods.InPlaceContainerBatch) bool {
		return slices.Contains(b.Containers, name)
	})
}

// changesImage, changesResources, changesEnv and restarts report what changes about a container: its image, its resources, only metadata that it
// reads by env and has to be restarted for, or nothing apart from the restart.
func (r record) changesImage(name string) bool {
	_, ok := r.LastContainerStatuses[name]
	return ok
}

func (r record) changesResources(name string) bool {
	ours := r.ResizedContainers != nil || r.LastContainerIDs != nil
	if ours || !r.UpdateResources {
		return slices.Contains(r.ResizedContainers, name)
	}
	return r.contains(name)
}

func (r record) changesEnv(c *corev1.Container) bool {
	return r.readsEnv(c) && !r.changesImage(c.Name) && r.contains(c.Name)
}

func (r record) restarts(name string) bool { return slices.Contains(r.RestartedContainers, name) }

// readsEnv reports whether a container reads metadata by env and the update changes metadata that some container reads.
func (r record) readsEnv(c *corev1.Container) bool {
	return r.UpdateEnvFromMetadata && len(references(c)) > 0
}

// remaining is the part of an update that the pod's spec doesn't have yet, although its revision label is set.
type remaining struct {
	// grace is what the controller that the pod was taken over from would write after its grace period.
	grace Update
	until time.Time
	// resize are resources of containers that also change otherwise: they take a separate request.
	resize map[string]corev1.ResourceRequirements
	// later are the batches to come.
	later Update
}

// grace is the format of keys.InPlaceUpdateGrace.
type grace struct {
	ContainerImages      map[string]string                      `json:"containerImages"`
	ContainerResources   map[string]corev1.ResourceRequirements `json:"containerResources"`
	ContainerRefMetadata map[string]metav1.ObjectMeta           `json:"containerRefMetadata"`
	MetaDataPatch        []byte                                 `json:"metaDataPatch"`
	GraceSeconds         int64                                  `json:"graceSeconds"`
}

// remainingOf reads what is not written yet. A completed update leaves nothing: its record has no next batch.
func remainingOf(pod *corev1.Pod, r record) remaining {
	out := remaining{later: pendingUpdate(pod, r.NextContainerImages, r.NextContainerResources, r.NextContainerRefMetadata, r.NextRestarts...)}
	for name, v := range out.later.Resources {
		if r.contains(name) {
			set(&out.resize, name, v)
			delete(out.later.Resources, name)
		}
	}
	raw := annotation(pod, keys.InPlaceUpdateGrace, keys.InPlaceUpdateGraceOld)
	if raw == "" {
		return out
	}
	var g grace
	var patch struct {
		Metadata struct{ Labels, Annotations map[string]*string }
	}
	if json.Unmarshal([]byte(raw), &g) != nil {
		return out
	}
	if json.Unmarshal(g.MetaDataPatch, &patch) != nil {
		patch.Metadata.Labels, patch.Metadata.Annotations = nil, nil
	}
	out.grace = Update{Labels: patch.Metadata.Labels, Annotations: patch.Metadata.Annotations}.
		after(pendingUpdate(pod, g.ContainerImages, g.ContainerResources, g.ContainerRefMetadata))
	out.until = r.UpdateTimestamp.UTC().Add(timing.Seconds(g.GraceSeconds))
	return out
}

// pendingUpdate returns the update in a record, without what the pod already has.
func pendingUpdate(
	pod *corev1.Pod, images map[string]string, resources map[string]corev1.ResourceRequirements,
	metadata map[string]metav1.ObjectMeta, restarts ...string,
) Update {
	e := Update{Images: maps.Clone(images), Resources: maps.Clone(resources)}
	for _, name := range restarts {
		set(&e.Restart, name, true)
	}
	for name, m := range metadata {
		for k, v := range m.Labels {
			set(&e.Labels, k, &v)
		}
		for k, v := range m.Annotations {
			set(&e.Annotations, k, &v)
		}
		if c := Container(&pod.Spec, name); c != nil && len(e.changedReferences(c)) > 0 {
			set(&e.Env, name, e.changedReferences(c)[0].String())
		}
	}
	return e.trim(pod)
}

// all returns everything that is not written yet as one update.
func (r remaining) all() Update {
	return r.later.after(Update{Resources: r.resize}).after(r.grace)
}

// empty reports whether the update changes nothing.
func (u Update) empty() bool { return u.MetadataOnly() && len(u.Labels)+len(u.Annotations) == 0 }

// after returns the update that applies e and then next.
func (u Update) after(next Update) Update {
	out := Update{
		Images:      overlay(u.Images, next.Images),
		Env:         overlay(u.Env, next.Env),
		Restart:     overlay(u.Restart, next.Restart),
		Labels:      overlay(u.Labels, next.Labels),
		Annotations: overlay(u.Annotations, next.Annotations),
		Resources:   maps.Clone(u.Resources),
	}
	for name, r := range next.Resources {
		set(&out.Resources, name, mergeResources(out.Resources[name], r))
	}
	return out
}

func overlay[V any](under, over map[string]V) map[string]V {
	if len(under)+len(over) == 0 {
		return nil
	}
	out := make(map[string]V, len(under)+len(over))
	maps.Copy(out, under)
	maps.Copy(out, over)
	return out
}

// trim removes from the update what the pod already has, and from Env the containers that restart because of their image. Metadata read by a
// container in Env stays in the update even if the pod already has it: somebody may have written it, and the container still has the value that
// it was started with.
func (u Update) trim(pod *corev1.Pod) Update {
	u.Images, u.Resources, u.Env, u.Restart = maps.Clone(u.Images), maps.Clone(u.Resources), maps.Clone(u.Env), maps.Clone(u.Restart)
	u.Labels, u.Annotations = maps.Clone(u.Labels), maps.Clone(u.Annotations)
	read := map[metadataField]bool{}
	for c := range containersOf(&pod.Spec) {
		if _, asked := u.Env[c.Name]; asked {
			_, image := u.Images[c.Name]
			switch {
			case image && u.mayRunOn(pod, c):
				u.readAgain(pod, c)
			case image, len(u.changedReferences(c)) == 0:
				delete(u.Env, c.Name)
			}
		}
		if _, asked := u.Env[c.Name]; asked {
			for _, r := range u.changedReferences(c) {
				read[r.metadataField] = true
			}
		}
		if u.Images[c.Name] == c.Image {
			delete(u.Images, c.Name)
		}
		if hasResources(c.Resources, u.Resources[c.Name]) {
			delete(u.Resources, c.Name)
		}
	}
	u.Labels = pendingChanges(u.Labels, pod.Labels, func(k string) bool { return read[metadataField{false, k}] })
	u.Annotations = pendingChanges(u.Annotations, pod.Annotations, func(k string) bool { return read[metadataField{true, k}] })
	maps.DeleteFunc(u.Images, func(name, _ string) bool { return Container(&pod.Spec, name) == nil })
	maps.DeleteFunc(u.Resources, func(name string, _ corev1.ResourceRequirements) bool { return Container(&pod.Spec, name) == nil })
	maps.DeleteFunc(u.Restart, func(name string, _ bool) bool { return Container(&pod.Spec, name) == nil })
	return u
}

// readAgain adds the pod metadata that the container reads: that is the only way for a record to express that a container of a later batch has
// to be restarted for its env.
func (u *Update) readAgain(pod *corev1.Pod, c *corev1.Container) {
	for _, r := range references(c) {
		changes, current := &u.Labels, pod.Labels
		if r.annotation {
			changes, current = &u.Annotations, pod.Annotations
		}
		_, changed := (*changes)[r.key]
		if v, ok := current[r.key]; ok && !changed {
			set(changes, r.key, &v)
		}
	}
}

// pendingChanges returns the changes that are not made yet, and all changes of the keys to keep.
func pendingChanges(changes map[string]*string, current map[string]string, keep func(key string) bool) map[string]*string {
	maps.DeleteFunc(changes, func(k string, want *string) bool {
		v, ok := current[k]
		return !keep(k) && (want == nil && !ok || want != nil && ok && v == *want)
	})
	return changes
}

// newRecord returns the record for an update whose first batch is written now. Containers that an earlier update changed and that don't run the
// change yet stay in the record, so that the pod isn't done before they are. If such a container gets yet another image, its image ID is left
// out: a new ID could belong to the earlier update. whole is the update before trim.
func newRecord(pod *corev1.Pod, revision string, whole, first, later Update, now time.Time) record {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	r := record{InPlaceUpdateState: pods.InPlaceUpdateState{Revision: revision, UpdateTimestamp: at}}
	unfinished := map[string]bool{}
	last := recordOf(pod)
	if Closed(pod) {
		for _, name := range last.changed() {
			if last.progress(pod, name, now).Done {
				continue
			}
			unfinished[name] = true
			if recorded, ok := last.LastContainerStatuses[name]; ok {
				set(&r.LastContainerStatuses, name, recorded)
			}
			if id, ok := last.LastContainerIDs[name]; ok {
				set(&r.LastContainerIDs, name, id)
			}
			if last.changesResources(name) {
				r.ResizedContainers = append(r.ResizedContainers, name)
			}
			if last.restarts(name) {
				r.RestartedContainers = append(r.RestartedContainers, name)
			}
			r.UpdateEnvFromMetadata = r.UpdateEnvFromMetadata || last.UpdateEnvFromMetadata
		}
	}
	for c := range containersOf(&pod.Spec) {
		_, reads := whole.Env[c.Name]
		if _, recorded := last.StartedWith[c.Name]; reads || recorded && Closed(pod) {
			set(&r.StartedWith, c.Name, last.startedWith(pod, c, whole))
		}
	}
	r.add(pod, first, later, unfinished)
	for _, name := range first.containers() {
		unfinished[name] = true
	}
	r.addBatch(slices.Sorted(maps.Keys(unfinished)), at)
	return r
}

// nextBatch returns the record for writing another batch.
func (r record) nextBatch(pod *corev1.Pod, first, later Update, now time.Time) record {
	previous := r
	r.NextContainerImages, r.NextContainerResources, r.NextContainerRefMetadata = nil, nil, nil
	r.PreCheckBeforeNext, r.NextRestarts = nil, nil
	r.LastContainerStatuses, r.LastContainerIDs = maps.Clone(r.LastContainerStatuses), maps.Clone(r.LastContainerIDs)
	r.ResizedContainers, r.StartedWith = slices.Clone(r.ResizedContainers), maps.Clone(r.StartedWith)
	r.RestartedContainers = slices.Clone(r.RestartedContainers)
	for _, name := range first.containers() {
		if _, reads := r.StartedWith[name]; reads {
			r.StartedWith[name] = previous.startedWith(pod, Container(&pod.Spec, name), first)
		}
	}
	r.add(pod, first, later, nil)
	r.addBatch(first.containers(), metav1.NewTime(now.UTC().Truncate(time.Second)))
	return r
}

// add adds what the batch changes, and what still has to be written later.
func (r *record) add(pod *corev1.Pod, first, later Update, unfinished map[string]bool) {
	for _, name := range first.containers() {
		st := status(pod, name)
		if st == nil {
			st = &corev1.ContainerStatus{}
		}
		if _, ok := first.Images[name]; ok {
			var before pods.InPlaceContainerStatus
			if !unfinished[name] {
				before.ImageID = st.ImageID
			}
			set(&r.LastContainerStatuses, name, before)
		}
		if _, resized := first.Resources[name]; resized {
			r.ResizedContainers = append(r.ResizedContainers, name)
			// They are written by a separate request, which may fail.
			set(&r.NextContainerResources, name, first.Resources[name])
		}
		if first.Restart[name] {
			r.RestartedContainers = append(r.RestartedContainers, name)
		}
		if first.Images[name] != "" || first.Env[name] != "" || first.Restart[name] {
			set(&r.LastContainerIDs, name, st.ContainerID)
		}
	}
	slices.Sort(r.ResizedContainers)
	r.ResizedContainers = slices.Compact(r.ResizedContainers)
	slices.Sort(r.RestartedContainers)
	r.RestartedContainers = slices.Compact(r.RestartedContainers)
	r.NextRestarts = slices.Sorted(maps.Keys(later.Restart))
	for name, image := range later.Images {
		set(&r.NextContainerImages, name, image)
	}
	for name, v := range later.Resources {
		set(&r.NextContainerResources, name, v)
	}
	for _, name := range later.containers() {
		if m, ok := later.metadata(Container(&pod.Spec, name)); ok {
			set(&r.NextContainerRefMetadata, name, m)
		}
	}
	r.UpdateImages = r.UpdateImages || len(r.LastContainerStatuses)+len(later.Images) > 0
	r.UpdateResources = r.UpdateResources || len(r.ResizedContainers)+len(later.Resources) > 0
	r.UpdateEnvFromMetadata = r.UpdateEnvFromMetadata || len(first.Env)+len(later.Env) > 0
	if !later.empty() {
		r.PreCheckBeforeNext = &pods.InPlacePreCheck{ContainersRequiredReady: first.containers()}
	}
}

// addBatch adds a batch, unless it has no containers.
func (r *record) addBatch(names []string, at metav1.Time) {
	if len(names) > 0 {
		r.ContainerBatchesRecord = append(slices.Clone(r.ContainerBatchesRecord), pods.InPlaceContainerBatch{
			Timestamp: at, Containers: names,
		})
	}
}

// metadata returns the part of the update that the container reads.
func (u Update) metadata(c *corev1.Container) (out metav1.ObjectMeta, ok bool) {
	if c == nil {
		return out, false
	}
	for _, r := range u.changedReferences(c) {
		if r.annotation {
			set(&out.Annotations, r.key, *u.Annotations[r.key])
		} else {
			set(&out.Labels, r.key, *u.Labels[r.key])
		}
		ok = true
	}
	return out, ok
}

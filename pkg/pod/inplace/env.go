package inplace

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// metadataField is a label or annotation.
type metadataField struct {
	annotation bool
	key        string
}

// reference is a metadata field that a container reads through an environment variable.
type reference struct {
	metadataField

	env string
}

func (r reference) String() string {
	what := "label "
	if r.annotation {
		what = "annotation "
	}
	return what + r.key + " by env " + r.env
}

// valueIn returns the field's value from these labels and annotations.
func (f metadataField) valueIn(labels, annotations map[string]string) string {
	if f.annotation {
		return annotations[f.key]
	}
	return labels[f.key]
}

// references returns the labels and annotations that a container reads, in the order of its env. Fields that hold the version of a SidecarSet
// don't count: its own update writes them. Neither do variables that are set again later in the list: the last one takes effect.
func references(c *corev1.Container) []reference {
	var out []reference
	for i := range c.Env {
		e := &c.Env[i]
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil ||
			e.Name == keys.EnvSidecarSetVersion || e.Name == keys.EnvSidecarSetVersionAlt ||
			slices.ContainsFunc(c.Env[i+1:], func(o corev1.EnvVar) bool { return o.Name == e.Name }) {
			continue
		}
		path := e.ValueFrom.FieldRef.FieldPath
		for _, in := range []string{"metadata.labels['", "metadata.annotations['"} {
			if key, ok := strings.CutPrefix(path, in); ok && strings.HasSuffix(key, "']") {
				annotation := in == "metadata.annotations['"
				out = append(out, reference{metadataField{annotation, strings.TrimSuffix(key, "']")}, e.Name})
			}
		}
	}
	return out
}

// changedReferences returns a container's references whose value the update changes. Removing a key needs no restart: the variable keeps its
// value until the next one.
func (u Update) changedReferences(c *corev1.Container) []reference {
	if len(u.Labels)+len(u.Annotations) == 0 {
		return nil
	}
	return slices.DeleteFunc(references(c), func(r reference) bool {
		if r.annotation {
			return u.Annotations[r.key] == nil
		}
		return u.Labels[r.key] == nil
	})
}

// addEnv adds the containers that read changed metadata, and containers with a new image that read any metadata.
func (u *Update) addEnv(spec *corev1.PodSpec) {
	for c := range containersOf(spec) {
		refs := u.changedReferences(c)
		if len(refs) == 0 && u.Images[c.Name] != "" {
			refs = references(c)
		}
		if len(refs) > 0 {
			set(&u.Env, c.Name, refs[0].String())
		}
	}
}

// forDaemon returns the update with only those containers in Env and Restart that the node daemon has to restart. Containers that get a new
// image are left out, unless they may keep running.
func (u Update) forDaemon(pod *corev1.Pod) Update {
	if len(u.Env)+len(u.Restart) == 0 || len(u.Images) == 0 {
		return u
	}
	u.Restart = maps.Clone(u.Restart)
	maps.DeleteFunc(u.Restart, func(name string, _ bool) bool {
		c, image := Container(&pod.Spec, name), u.Images[name]
		return c == nil || image != "" && replaces(pod, c, image)
	})
	all := remainingOf(pod, recordOf(pod)).all().after(u)
	u.Env = maps.Clone(u.Env)
	maps.DeleteFunc(u.Env, func(name, _ string) bool {
		if _, changes := u.Images[name]; !changes {
			return false
		}
		c := Container(&pod.Spec, name)
		return c == nil || !all.mayRunOn(pod, c)
	})
	return u
}

// mayRunOn reports whether a container that gets a new image may keep running with old env values, because it was started from that image
// before: somebody wrote the image to the pod, an update in progress took it away and the kubelet may not have seen that, or it was due to be
// written later.
func (u Update) mayRunOn(pod *corev1.Pod, c *corev1.Container) bool {
	image := u.Images[c.Name]
	if replaces(pod, c, image) {
		return false
	}
	env, may := recordOf(pod).startedWith(pod, c, u)[image]
	return may && env != EnvHash(u.metadataEnv(c, pod))
}

// replaces reports whether the kubelet is known to restart a container for an image: it has seen a different image, and stops any container that
// wasn't started from that.
func replaces(pod *corev1.Pod, c *corev1.Container, image string) bool {
	n := pod.Status.ObservedGeneration
	return image != c.Image && n > 0 && n >= pod.Generation
}

// startedWith returns the env from metadata that a container may have been started with, by image: EnvHash, 0 if unknown. It covers what the pod
// has before the update, and had before earlier updates that are still in progress.
func (r record) startedWith(pod *corev1.Pod, c *corev1.Container, u Update) map[string]uint64 {
	out := map[string]uint64{}
	unseen, unwritten := Unobserved(pod), r.NextContainerImages[c.Name] != ""
	if Closed(pod) && (unseen || unwritten || !r.progress(pod, c.Name, time.Time{}).Done) {
		maps.Copy(out, r.StartedWith[c.Name])
	}
	env := EnvHash(MetadataEnv(c, pod))
	if st := status(pod, c.Name); st != nil {
		if from, reported := startedOf(pod, st); reported && from.startedFrom(c) {
			env = from.Hashes.ExtractedEnvFromMetadataHash
		} else if !unwritten && slices.ContainsFunc(u.changedReferences(c), func(ref reference) bool {
			return u.value(ref.metadataField) == ref.valueIn(pod.Labels, pod.Annotations)
		}) {
			env = 0 // Somebody wrote the new value to the pod.
		}
	}
	if other, ok := out[c.Image]; ok && other != env {
		env = 0
	}
	out[c.Image] = env
	return out
}

// value returns the new value of a field that the update sets.
func (u Update) value(f metadataField) string {
	if f.annotation {
		return *u.Annotations[f.key]
	}
	return *u.Labels[f.key]
}

// metadataEnv is MetadataEnv with the update applied.
func (u Update) metadataEnv(c *corev1.Container, pod *corev1.Pod) []corev1.EnvVar {
	var after corev1.Pod
	after.Labels, after.Annotations = changedMap(pod.Labels, u.Labels), changedMap(pod.Annotations, u.Annotations)
	return MetadataEnv(c, &after)
}

func changedMap(m map[string]string, changes map[string]*string) map[string]string {
	out := maps.Clone(m)
	for k, v := range changes {
		if v == nil {
			delete(out, k)
		} else {
			set(&out, k, *v)
		}
	}
	return out
}

// containersOf yields all containers that run as long as the pod.
func containersOf(spec *corev1.PodSpec) func(func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for i := range spec.Containers {
			if !yield(&spec.Containers[i]) {
				return
			}
		}
		for i := range spec.InitContainers {
			if isNativeSidecar(&spec.InitContainers[i]) && !yield(&spec.InitContainers[i]) {
				return
			}
		}
	}
}

// priority returns the launch priority of a container: as set by the pod webhook, else as written by the user, else 0. A native sidecar without
// one is not ordered: it starts before all containers, whatever their priorities.
func priority(spec *corev1.PodSpec, c *corev1.Container) (n int, ordered bool) {
	written := ""
	for i := range c.Env {
		e := &c.Env[i]
		if e.Name == keys.EnvContainerBarrier && e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
			written = strings.TrimPrefix(e.ValueFrom.ConfigMapKeyRef.Key, "p_")
			break
		}
		if e.Name == keys.EnvContainerPriority {
			written = e.Value
		}
	}
	if n, err := strconv.Atoi(written); err == nil {
		return n, true
	}
	return 0, slices.ContainsFunc(spec.Containers, func(o corev1.Container) bool { return o.Name == c.Name })
}

// RestartRequest is a container to restart.
type RestartRequest struct {
	Container *corev1.Container
	// Before is the ID of the container that ran when the restart was requested; empty if unknown.
	Before string
	// Image: the container gets a new image in the same update, so the kubelet restarts it.
	Image bool
	// Always: the container is restarted if it still has the ID in Before, whatever its env.
	Always bool
}

// RestartRequests returns the containers that the pod's in-place update needs restarted, whether or not they have restarted already. The lists
// are in the order in which to restart them: one list together, and the next once these containers are ready. Included are containers of a
// written batch that read labels or annotations by env, or that are restarted because of keys.RestartContainers: the highest launch priority
// first, along with native sidecars without one. The result is empty while no such update is in progress.
func RestartRequests(pod *corev1.Pod) [][]RestartRequest {
	if !Closed(pod) {
		return nil
	}
	r := recordOf(pod)
	var asked []*corev1.Container
	highest := math.MinInt
	for c := range containersOf(&pod.Spec) {
		if !r.contains(c.Name) || !r.restarts(c.Name) && !r.readsEnv(c) {
			continue
		}
		asked = append(asked, c)
		if n, ordered := priority(&pod.Spec, c); ordered {
			highest = max(highest, n)
		}
	}
	byPriority := map[int][]RestartRequest{}
	for _, c := range asked {
		n, ordered := priority(&pod.Spec, c)
		if !ordered {
			n = highest
		}
		byPriority[n] = append(byPriority[n], RestartRequest{
			Container: c, Before: r.LastContainerIDs[c.Name], Image: r.changesImage(c.Name), Always: r.restarts(c.Name),
		})
	}
	var out [][]RestartRequest
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(byPriority))) {
		out = append(out, byPriority[n])
	}
	return out
}

// Containers returns pointers to all containers that run as long as the pod: first its containers, then its native sidecars.
func Containers(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for c := range containersOf(&pod.Spec) {
		out = append(out, c)
	}
	return out
}

// Status returns the status of one of the Containers; nil if there is none.
func Status(pod *corev1.Pod, name string) *corev1.ContainerStatus { return status(pod, name) }

// batch returns the names of the containers to change first: the ones returned by first, and those that read a label or annotation that one of
// them reads as well. They have to be in the same batch, because the value belongs to the pod.
func (u Update) batch(spec *corev1.PodSpec) map[string]bool {
	out := u.first(spec)
	for before := -1; before < len(out); {
		before = len(out)
		shared := map[metadataField]bool{}
		for name := range out {
			for _, r := range u.changedReferences(Container(spec, name)) {
				shared[r.metadataField] = true
			}
		}
		for _, name := range u.containers() {
			if c := Container(spec, name); c != nil &&
				slices.ContainsFunc(u.changedReferences(c), func(r reference) bool { return shared[r.metadataField] }) {
				out[name] = true
			}
		}
	}
	return out
}

// first returns the names of the changed containers with the highest launch priority, and of native sidecars without one.
func (u Update) first(spec *corev1.PodSpec) map[string]bool {
	all := u.containers()
	out := make(map[string]bool, len(all))
	highest, top := make([]string, 0, len(all)), 0
	for _, name := range all {
		c := Container(spec, name)
		if c == nil {
			continue
		}
		n, ordered := priority(spec, c)
		switch {
		case !ordered:
			out[name] = true
		case len(highest) == 0 || n > top:
			top, highest = n, append(highest[:0], name)
		case n == top:
			highest = append(highest, name)
		}
	}
	for _, name := range highest {
		out[name] = true
	}
	return out
}

// split divides the update into what is written now and what waits until the containers changed now are ready. Labels and annotations wait along
// with the containers that read them.
func (u Update) split(spec *corev1.PodSpec) (now, later Update) {
	batch := u.batch(spec)
	now = Update{Labels: maps.Clone(u.Labels), Annotations: maps.Clone(u.Annotations)}
	for _, name := range u.containers() {
		to := &later
		if batch[name] {
			to = &now
		}
		if v, ok := u.Images[name]; ok {
			set(&to.Images, name, v)
		}
		if v, ok := u.Resources[name]; ok {
			set(&to.Resources, name, v)
		}
		if v, ok := u.Env[name]; ok {
			set(&to.Env, name, v)
		}
		if u.Restart[name] {
			set(&to.Restart, name, true)
		}
		if c := Container(spec, name); c != nil && to == &later {
			for _, r := range u.changedReferences(c) {
				if r.annotation {
					set(&later.Annotations, r.key, u.Annotations[r.key])
					delete(now.Annotations, r.key)
				} else {
					set(&later.Labels, r.key, u.Labels[r.key])
					delete(now.Labels, r.key)
				}
			}
		}
	}
	return now, later
}

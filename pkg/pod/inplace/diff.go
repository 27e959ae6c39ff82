package inplace

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// Options are the changes that an Update may make besides images, labels and annotations. The zero value is valid.
type Options struct {
	// Resources: new requests and limits of cpu and memory.
	Resources bool
	// NoResize: the API server can't resize running pods; overrides Resources.
	NoResize bool
	// Env: restarts of containers that read a changed label or annotation by env. Without it, such a change only updates metadata, and containers
	// keep the old value until they restart. keys.RestartContainers isn't honored without it either.
	Env bool
}

// Update is a change that can be made to a running pod. The zero Update changes nothing. Containers are identified by name; they include native
// sidecars, the init containers that run as long as the pod.
type Update struct {
	// Images are the new images.
	Images map[string]string
	// Resources are the changed values of cpu and memory, and only these.
	Resources map[string]corev1.ResourceRequirements
	// Env maps containers to the changed metadata that they read by env: "annotation config by env CONFIG". The node daemon has to restart these
	// containers. For containers that get a new image it holds any metadata that they read: they restart because of the image, unless they may
	// already run it.
	Env map[string]string
	// Restart are the containers to restart because of keys.RestartContainers: by the node daemon, or by the kubelet for a new image.
	Restart map[string]bool
	// Labels and Annotations are the changed values; nil removes the key.
	Labels, Annotations map[string]*string
}

// MetadataOnly reports whether the update changes only labels and annotations.
func (u Update) MetadataOnly() bool {
	return len(u.Images)+len(u.Resources)+len(u.Env)+len(u.Restart) == 0
}

// Restarts reports whether a container of the pod restarts, so that the pod should be out of service meanwhile. A pure resize restarts only
// containers whose resizePolicy requires it.
func (u Update) Restarts(pod *corev1.Pod) bool {
	if len(u.Images)+len(u.Env)+len(u.Restart) > 0 {
		return true
	}
	for name, r := range u.Resources {
		if c := Container(&pod.Spec, name); c != nil && restartsFor(c, r) {
			return true
		}
	}
	return false
}

// restartsFor reports whether a container restarts to get resources.
func restartsFor(c *corev1.Container, r corev1.ResourceRequirements) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		_, limit := r.Limits[p.ResourceName]
		_, request := r.Requests[p.ResourceName]
		return p.RestartPolicy == corev1.RestartContainer && (limit || request)
	})
}

// CanApply reports whether the update can be applied to this pod, and if not, why. daemon: a node daemon is alive on the pod's node. It is
// needed to restart containers that get no new image, and that works only if the kubelet starts them again afterwards. A pod without a node
// doesn't need it.
func (u Update) CanApply(pod *corev1.Pod, daemon bool) (why string, ok bool) {
	for _, name := range u.containers() {
		if Container(&pod.Spec, name) == nil {
			return "pod has no container " + name, false
		}
	}
	applicable := u.forDaemon(pod)
	for _, name := range (Update{Env: applicable.Env, Restart: applicable.Restart}).containers() {
		cause := "is to be restarted"
		if read, ok := applicable.Env[name]; ok {
			cause = "reads " + read
		}
		policy := RestartPolicy(Container(&pod.Spec, name), pod)
		switch {
		case pod.Spec.NodeName == "":
		case !daemon:
			return fmt.Sprintf("container %s %s, and its node has no daemon that could restart it", name, cause), false
		case policy != corev1.RestartPolicyAlways:
			return fmt.Sprintf("container %s %s, but policy %s doesn't allow its restart", name, cause, policy), false
		}
	}
	if len(u.Resources) > 0 {
		if os := pod.Spec.OS; os != nil && os.Name == corev1.Windows {
			return "Windows containers can't be resized", false
		}
		if before, after := qos(&pod.Spec, nil), qos(&pod.Spec, u.Resources); before != after {
			return qosWhy(before, after), false
		}
	}
	return "", true
}

// RestartPolicy returns the restart policy that applies to a container: its own, if it has one, else the pod's.
func RestartPolicy(c *corev1.Container, pod *corev1.Pod) corev1.RestartPolicy {
	if c.RestartPolicy != nil {
		return corev1.RestartPolicy(*c.RestartPolicy)
	}
	return cmp.Or(pod.Spec.RestartPolicy, corev1.RestartPolicyAlways)
}

// containers returns the sorted names of the changed containers.
func (u Update) containers() []string {
	names := slices.Concat(slices.Collect(maps.Keys(u.Images)), slices.Collect(maps.Keys(u.Resources)),
		slices.Collect(maps.Keys(u.Env)), slices.Collect(maps.Keys(u.Restart)))
	slices.Sort(names)
	return slices.Compact(names)
}

// Diff returns the update from one template to another, or why it can't be made in place: "container app: env changed". Equal templates give the
// zero Update. The templates are not changed.
func Diff(from, to *corev1.PodTemplateSpec, o Options) (update Update, why string, ok bool) {
	if why := diffMetadata(from, to); why != "" {
		return Update{}, why, false
	}
	update = Update{
		Labels:      diffMap(from.Labels, to.Labels),
		Annotations: diffMap(from.Annotations, to.Annotations),
	}
	if why := update.diffAll("containers", from.Spec.Containers, to.Spec.Containers, o); why != "" {
		return Update{}, why, false
	}
	if why := update.diffAll("initContainers", from.Spec.InitContainers, to.Spec.InitContainers, o); why != "" {
		return Update{}, why, false
	}
	a, b := from.Spec, to.Spec
	a.Containers, b.Containers, a.InitContainers, b.InitContainers = nil, nil, nil, nil
	if fields := changed(a, b); len(fields) > 0 {
		return Update{}, strings.Join(fields, ", ") + " changed", false
	}
	if before, after := qos(&from.Spec, nil), qos(&to.Spec, nil); len(update.Resources) > 0 && before != after {
		return Update{}, qosWhy(before, after), false
	}
	if o.Env {
		update.addEnv(&to.Spec)
	}
	if update.Annotations[keys.RestartContainers] != nil {
		if !o.Env {
			return Update{}, "annotation " + keys.RestartContainers + " changed, and feature gate InPlaceUpdateEnvFromMetadata is off", false
		}
		for c := range containersOf(&to.Spec) {
			set(&update.Restart, c.Name, true)
		}
	}
	return update, "", true
}

// diffMetadata rejects changes of metadata that pods only take from their template at creation.
func diffMetadata(from, to *corev1.PodTemplateSpec) string {
	if !slices.Equal(from.Finalizers, to.Finalizers) {
		return "metadata.finalizers changed"
	}
	return ""
}

func diffMap(from, to map[string]string) map[string]*string {
	var out map[string]*string
	set := func(k string, v *string) {
		if out == nil {
			out = map[string]*string{}
		}
		out[k] = v
	}
	for k, v := range to {
		if old, had := from[k]; !had || old != v {
			set(k, &v)
		}
	}
	for k := range from {
		if _, has := to[k]; !has {
			set(k, nil)
		}
	}
	return out
}

// diffAll adds the changes of all containers of one list, or returns why one can't be made.
func (u *Update) diffAll(list string, from, to []corev1.Container, o Options) (why string) {
	same := slices.EqualFunc(from, to, func(a, b corev1.Container) bool { return a.Name == b.Name })
	if !same {
		return list + " were added, removed or reordered"
	}
	for i := range from {
		// A completed init container would not run again.
		runs := list == "containers" || isNativeSidecar(&to[i])
		if why := u.diffContainer(from[i], to[i], o, runs); why != "" {
			return fmt.Sprintf("container %s: %s", to[i].Name, why)
		}
	}
	return ""
}

// diffContainer adds the changes of one container; runs: the container runs as long as the pod.
func (u *Update) diffContainer(a, b corev1.Container, o Options, runs bool) (why string) {
	if runs && a.Image != b.Image {
		set(&u.Images, b.Name, b.Image)
		a.Image, b.Image = "", ""
	}
	if runs && o.Resources {
		r, why := diffResources(a.Resources, b.Resources)
		if why != "" {
			return why
		}
		if len(r.Limits)+len(r.Requests) > 0 {
			if o.NoResize {
				return "resources changed, and the apiserver doesn't serve pods/resize (Kubernetes 1.33 or later)"
			}
			set(&u.Resources, b.Name, r)
		}
		a.Resources, b.Resources = corev1.ResourceRequirements{}, corev1.ResourceRequirements{}
	}
	if fields := changed(a, b); len(fields) > 0 {
		return strings.Join(fields, ", ") + " changed"
	}
	return ""
}

// changed returns the JSON names of the fields in which two values of a struct type differ. Quantities are compared by value; nil and empty
// lists are equal.
func changed[T any](a, b T) []string {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	var out []string
	for i := range va.NumField() {
		if !equality.Semantic.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, name)
		}
	}
	return out
}

// set stores a value in a map that may be nil.
func set[M ~map[K]V, K comparable, V any](m *M, k K, v V) {
	if *m == nil {
		*m = M{}
	}
	(*m)[k] = v
}

// isNativeSidecar reports whether an init container is a native sidecar.
func isNativeSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Container returns the container or native sidecar with this name, which runs as long as the pod; nil if there is none.
func Container(s *corev1.PodSpec, name string) *corev1.Container {
	if i := slices.IndexFunc(s.Containers, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &s.Containers[i]
	}
	i := slices.IndexFunc(s.InitContainers, func(c corev1.Container) bool { return c.Name == name && isNativeSidecar(&c) })
	if i >= 0 {
		return &s.InitContainers[i]
	}
	return nil
}

// status finds the status of a container or native sidecar; nil if there is none.
func status(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

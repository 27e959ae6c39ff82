package inplace

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// Edit is a change that a running pod can take over. The zero Edit changes nothing.
type Edit struct {
	// Images are the new images by container name.
	Images map[string]string
	// Labels and Annotations are the changed values; nil takes the key off.
	Labels, Annotations map[string]*string
}

// Quiet tells that the edit restarts no container.
func (e Edit) Quiet() bool { return len(e.Images) == 0 }

// Fits tells whether the pod has all containers that the edit changes, and if not, why.
func (e Edit) Fits(pod *corev1.Pod) (why string, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(e.Images)) {
		if container(pod.Spec.Containers, name) == nil {
			return "pod has no container " + name, false
		}
	}
	return "", true
}

// Diff returns the edit that brings a pod made from one template to another, or why there is none: "container app: env
// changed". Equal templates give the zero Edit. Neither template is changed.
func Diff(from, to *corev1.PodTemplateSpec) (edit Edit, why string, ok bool) {
	if why := diffMetadata(from, to); why != "" {
		return Edit{}, why, false
	}
	edit = Edit{
		Labels:      diffMap(from.Labels, to.Labels),
		Annotations: diffMap(from.Annotations, to.Annotations),
	}
	if why := diffContainers(from.Spec.Containers, to.Spec.Containers, &edit); why != "" {
		return Edit{}, why, false
	}
	a, b := from.Spec, to.Spec
	a.Containers, b.Containers = nil, nil
	if fields := changed(a, b); len(fields) > 0 {
		return Edit{}, strings.Join(fields, ", ") + " changed", false
	}
	if why := readsChange(to.Spec.Containers, edit); why != "" {
		return Edit{}, why, false
	}
	return edit, "", true
}

// diffMetadata refuses changes of metadata that pods take from their template only at creation.
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

func diffContainers(from, to []corev1.Container, edit *Edit) string {
	names := func(cs []corev1.Container) []string {
		out := make([]string, 0, len(cs))
		for _, c := range cs {
			out = append(out, c.Name)
		}
		return out
	}
	if !slices.Equal(names(from), names(to)) {
		return "containers were added, removed or reordered"
	}
	for i := range from {
		a, b := from[i], to[i]
		if a.Image != b.Image {
			if edit.Images == nil {
				edit.Images = map[string]string{}
			}
			edit.Images[b.Name] = b.Image
		}
		a.Image, b.Image = "", ""
		if fields := changed(a, b); len(fields) > 0 {
			return fmt.Sprintf("container %s: %s changed", b.Name, strings.Join(fields, ", "))
		}
	}
	return ""
}

// changed are the JSON names of the fields in which two values of one struct type differ. Quantities are equal by value,
// nil and empty lists are equal.
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

// readsChange tells which container reads a label or annotation by env that the edit adds or replaces, without a new
// image that would make it start anew. A key that is taken off needs no restart: the env value stays until the next one.
func readsChange(containers []corev1.Container, edit Edit) string {
	read := map[string]string{}
	for field, change := range map[string]map[string]*string{"labels": edit.Labels, "annotations": edit.Annotations} {
		for k, v := range change {
			if v != nil {
				read[fmt.Sprintf("metadata.%s['%s']", field, k)] = strings.TrimSuffix(field, "s") + " " + k
			}
		}
	}
	for _, c := range containers {
		if _, restarts := edit.Images[c.Name]; restarts {
			continue
		}
		for _, e := range c.Env {
			if e.Name == keys.EnvSidecarSetVersion || e.Name == keys.EnvSidecarSetVersionAlt ||
				e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
				continue
			}
			if what := read[e.ValueFrom.FieldRef.FieldPath]; what != "" {
				return fmt.Sprintf("container %s reads %s by env %s, and only a node daemon could restart it", c.Name, what, e.Name)
			}
		}
	}
	return ""
}

func container(cs []corev1.Container, name string) *corev1.Container {
	for i := range cs {
		if cs[i].Name == name {
			return &cs[i]
		}
	}
	return nil
}

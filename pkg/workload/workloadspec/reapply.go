package workloadspec

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Templates are the templates of a workload. Pod is nil if the workload doesn't exist.
type Templates struct {
	Pod *corev1.PodTemplateSpec
	// PVCs are the workload's volume claim templates.
	PVCs []corev1.PersistentVolumeClaim
}

// Same reports whether two workloads have the same pod template, and PVC templates that mean the same.
func (t Templates) Same(other Templates) bool {
	return apiequality.Semantic.DeepEqual(t.Pod, other.Pod) && SamePVCs(t.PVCs, other.PVCs)
}

// Defaulting selects which defaults Complete sets.
type Defaulting int

const (
	// AllDefaults sets the API server's defaults, except that containers without an imagePullPolicy get Always, as in OpenKruise.
	AllDefaults Defaulting = iota
	// NoDefaults leaves templates as they are given.
	NoDefaults
	// APIServerDefaults sets the API server's defaults.
	APIServerDefaults
)

// Complete returns the given templates with their defaults. What means the same as in the stored templates keeps its stored form: re-applying a
// manifest to an object that was stored with other defaults, or with none, changes nothing. An imagePullPolicy that is left out keeps the value
// of the stored container with that name. Templates are only sent to the API server, as Check does, if their defaults are needed: not if nothing
// changed, nor if no defaults are set and only values changed that both templates have. The caller has to validate the result with Check; if the
// result is the given template, or the one with all defaults, that makes no second request. Faults, errors and required permissions are the same
// as for Check.
func (t *PodTemplates) Complete(
	ctx context.Context, c client.Client, namespace string, stored, given Templates, mode Defaulting, path *field.Path,
) (Templates, field.ErrorList, error) {
	out := Templates{Pod: given.Pod.DeepCopy(), PVCs: completePVCs(stored.PVCs, given.PVCs, mode)}
	if stored.Pod == nil && mode == NoDefaults || stored.Pod != nil && out.Same(stored) {
		return out, nil, nil
	}
	if stored.Pod != nil && mode == NoDefaults {
		if same, err := sameFields(stored.Pod, out.Pod); err != nil || same {
			return out, nil, err
		}
	}
	if apiequality.Semantic.DeepEqual(stored.Pod, out.Pod) { // Containers may mount other PVCs.
		_, faults, err := t.Check(ctx, c, namespace, out.Pod, out.PVCs, path)
		return out, faults, err
	}
	var fullStored *corev1.PodTemplateSpec // Also nil if the stored one is older than a rule of the API server.
	if stored.Pod != nil {
		var err error
		if fullStored, _, err = t.Check(ctx, c, namespace, stored.Pod, stored.PVCs, path); err != nil {
			return Templates{}, nil, err
		}
	}
	policies := fullStored
	if fullStored != nil && mode == NoDefaults { // What neither of them sets stays unset.
		policies = stored.Pod
	}
	defaultPullPolicies(policies, out.Pod, mode)
	full, faults, err := t.Check(ctx, c, namespace, out.Pod, out.PVCs, path)
	if err != nil || len(faults) > 0 {
		return Templates{}, faults, err
	}
	if mode != NoDefaults {
		out.Pod = full
	}
	if fullStored != nil {
		out.Pod, err = keepForm(stored.Pod, fullStored, out.Pod, full)
	}
	return out, nil, err
}

// defaultPullPolicies sets the pull policies that a template leaves out. Never isn't kept: since nothing defaults to it, it was once set
// explicitly.
func defaultPullPolicies(stored, given *corev1.PodTemplateSpec, mode Defaulting) {
	policies := map[string]corev1.PullPolicy{}
	if stored != nil {
		for _, c := range slices.Concat(stored.Spec.InitContainers, stored.Spec.Containers) {
			if c.ImagePullPolicy != corev1.PullNever {
				policies[c.Name] = c.ImagePullPolicy
			}
		}
	}
	for _, list := range [][]corev1.Container{given.Spec.InitContainers, given.Spec.Containers} {
		for i := range list {
			if list[i].ImagePullPolicy != "" {
				continue
			}
			list[i].ImagePullPolicy = policies[list[i].Name]
			if list[i].ImagePullPolicy == "" && mode == AllDefaults {
				list[i].ImagePullPolicy = corev1.PullAlways
			}
		}
	}
}

// keepForm returns given with the stored form of everything that means the same in both, which is whatever is equal in fullStored and fullGiven,
// the versions with all defaults.
func keepForm(stored, fullStored, given, fullGiven *corev1.PodTemplateSpec) (*corev1.PodTemplateSpec, error) {
	if apiequality.Semantic.DeepEqual(fullStored, fullGiven) {
		return stored.DeepCopy(), nil
	}
	var forms [4]map[string]any
	for i, template := range []*corev1.PodTemplateSpec{stored, fullStored, given, fullGiven} {
		var err error
		if forms[i], err = runtime.DefaultUnstructuredConverter.ToUnstructured(template); err != nil {
			return nil, fmt.Errorf("convert pod template: %w", err)
		}
	}
	out := &corev1.PodTemplateSpec{}
	kept := mergeMaps(forms[0], forms[1], forms[2], forms[3])
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(kept, out); err != nil {
		return nil, fmt.Errorf("convert pod template: %w", err)
	}
	return out, nil
}

// sameFields reports whether two pod templates have the same fields, regardless of values. Then no field of one is merely a default of the
// other, so neither has a form to keep.
func sameFields(a, b *corev1.PodTemplateSpec) (bool, error) {
	var specs [2]map[string]any
	for i, template := range []*corev1.PodTemplateSpec{a, b} { // Metadata has no defaults.
		var err error
		if specs[i], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&template.Spec); err != nil {
			return false, fmt.Errorf("convert pod template: %w", err)
		}
	}
	return sameKeys(specs[0], specs[1]), nil
}

// sameKeys reports whether two values have the same keys, in lists with the same length and item names.
func sameKeys(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key := range a {
			if other, ok := b[key]; !ok || !sameKeys(a[key], other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if nameOf(a[i]) != nameOf(b[i]) || !sameKeys(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return true // A field has one type.
}

// merge walks four forms of a value; nil means absent.
func merge(stored, fullStored, given, fullGiven any) any {
	if apiequality.Semantic.DeepEqual(fullStored, fullGiven) {
		return stored
	}
	switch fullGiven := fullGiven.(type) {
	case map[string]any:
		if fullStored, ok := fullStored.(map[string]any); ok {
			return mergeMaps(asMap(stored), fullStored, asMap(given), fullGiven)
		}
	case []any:
		if fullStored, ok := fullStored.([]any); ok {
			return mergeLists(asList(stored), fullStored, asList(given), fullGiven)
		}
	}
	return given
}

func mergeMaps(stored, fullStored, given, fullGiven map[string]any) map[string]any {
	out := map[string]any{}
	for key := range fullGiven {
		if v := merge(stored[key], fullStored[key], given[key], fullGiven[key]); v != nil {
			out[key] = v
		}
	}
	return out
}

// mergeLists pairs items by name if all have one and no two are the same, as for containers, and by index otherwise.
func mergeLists(stored, fullStored, given, fullGiven []any) []any {
	if len(stored) != len(fullStored) || len(given) != len(fullGiven) {
		return given
	}
	index, named := byName(fullStored)
	if _, ok := byName(fullGiven); !ok {
		named = false
	}
	out := make([]any, 0, len(given))
	for i := range given {
		j, found := i, i < len(stored)
		if named {
			j, found = index[nameOf(fullGiven[i])]
		}
		if !found {
			out = append(out, given[i])
			continue
		}
		out = append(out, merge(stored[j], fullStored[j], given[i], fullGiven[i]))
	}
	return out
}

// byName returns the index of each item by name; false if an item has no name or two have the same.
func byName(list []any) (map[string]int, bool) {
	out := map[string]int{}
	for i, item := range list {
		out[nameOf(item)] = i
	}
	_, unnamed := out[""]
	return out, len(out) == len(list) && !unnamed
}

func nameOf(item any) string {
	name, _ := asMap(item)["name"].(string)
	return name
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func asList(v any) []any {
	l, _ := v.([]any)
	return l
}

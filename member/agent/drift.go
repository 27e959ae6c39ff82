package agent

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Bounds of MemberWork.status.drift.
const (
	driftPaths  = 5
	driftLength = 128
)

// differences lists the paths where live is not as want asks, for example "spec.template.cloneSetTemplate.spec.paused".
// Only what want sets counts: live may hold more (defaults, status). Lists of another length differ as a whole. The
// result is sorted.
func differences(want, live map[string]any) []string {
	var out []string
	compare("", want, live, &out)
	slices.Sort(out)
	return out
}

func compare(path string, want, live any, out *[]string) {
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok && len(w) > 0 {
			*out = append(*out, path)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(w)) {
			compare(join(path, key), w[key], l[key], out)
		}
	case []any:
		l, ok := live.([]any)
		if (!ok && len(w) > 0) || len(l) != len(w) {
			*out = append(*out, path)
			return
		}
		for i := range w {
			compare(fmt.Sprintf("%s[%d]", path, i), w[i], l[i], out)
		}
	default:
		if !sameScalar(want, live) {
			*out = append(*out, path)
		}
	}
}

// sameScalar compares numbers by value: the same number may be read as an integer or as a float.
func sameScalar(a, b any) bool {
	x, xok := number(a)
	y, yok := number(b)
	if xok && yok {
		return cmp.Compare(x, y) == 0
	}
	return reflect.DeepEqual(a, b)
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	default:
		return 0, false
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// metadataDiffers tells whether a label or annotation that want sets is missing or another in live. Changes of those do
// not raise an object's generation.
func metadataDiffers(want, live *unstructured.Unstructured) bool {
	return !holds(live.GetLabels(), want.GetLabels()) || !holds(live.GetAnnotations(), want.GetAnnotations())
}

func holds(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// boundPaths cuts a list of paths to what a status may carry: five paths of 128 characters, without a leading dot.
func boundPaths(paths []string) []string {
	out := make([]string, 0, min(len(paths), driftPaths))
	for _, p := range paths {
		p = strings.TrimPrefix(p, ".")
		if len(p) > driftLength {
			p = p[:driftLength]
		}
		if len(out) < driftPaths && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// scalesIn tells whether want asks for fewer replicas than live has: in spec.replicas, or in a subset of
// spec.topology.subsets, or by leaving a subset out. It returns the first such place, or "".
func scalesIn(want, live *unstructured.Unstructured) string {
	if lower(want.Object, live.Object, "spec", "replicas") {
		return "spec.replicas"
	}
	had := subsetReplicas(live)
	wants := subsetReplicas(want)
	for _, name := range slices.Sorted(maps.Keys(had)) {
		replicas, ok := wants[name]
		if !ok || replicas < had[name] {
			return "spec.topology.subsets[" + name + "]"
		}
	}
	return ""
}

func lower(want, live map[string]any, path ...string) bool {
	w, wok, _ := unstructured.NestedInt64(want, path...)
	l, lok, _ := unstructured.NestedInt64(live, path...)
	return wok && lok && w < l
}

// subsetReplicas reads the subsets' replicas where they are numbers, as the hub writes them.
func subsetReplicas(o *unstructured.Unstructured) map[string]int64 {
	subsets, _, _ := unstructured.NestedSlice(o.Object, "spec", "topology", "subsets")
	out := make(map[string]int64, len(subsets))
	for _, s := range subsets {
		subset, ok := s.(map[string]any)
		if !ok {
			continue
		}
		name, _, _ := unstructured.NestedString(subset, "name")
		if replicas, ok, _ := unstructured.NestedInt64(subset, "replicas"); ok {
			out[name] = replicas
		}
	}
	return out
}

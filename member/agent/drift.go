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

// differences lists, sorted, the paths where live differs from want, for example "spec.template.cloneSetTemplate.spec.paused".
// Fields that want does not set are ignored (defaults, status). Lists of different lengths differ as a whole.
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

// metadataDiffers tells whether a label or annotation of want is missing in live or has another value. Such changes do not
// raise the generation of an object.
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

// boundPaths cuts a list of paths to what a status may hold: five paths of 128 characters, without a leading dot.
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

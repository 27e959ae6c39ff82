// Package overlay compares a live object with the wanted one, as trees of JSON values. Only fields in the wanted object count: others, such as
// defaults, a status or fields of other writers, are kept and don't count as a difference. Lists with different lengths differ as a whole. Paths
// have the form "spec.template.spec.containers[0].image".
package overlay

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Paths returns the sorted paths where live differs from want. Neither is changed.
func Paths(live, want map[string]any) []string { return Apply(runtime.DeepCopyJSON(live), want) }

// Apply writes want into live, and returns the sorted paths where live was different. live shares values with want afterwards.
func Apply(live, want map[string]any) []string {
	var paths []string
	apply("", live, want, &paths)
	slices.Sort(paths)
	return paths
}

// apply returns live with the fields from want; a null in want is ignored.
func apply(path string, live, want any, paths *[]string) any {
	switch w := want.(type) {
	case nil:
		return live
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			if len(w) == 0 {
				return live
			}
			l = map[string]any{}
		}
		for _, key := range slices.Sorted(maps.Keys(w)) {
			if v := apply(join(path, key), l[key], w[key], paths); v != nil {
				l[key] = v
			}
		}
		return l
	case []any:
		l, _ := live.([]any)
		if len(l) != len(w) {
			*paths = append(*paths, path)
			return w
		}
		for i := range w {
			l[i] = apply(fmt.Sprintf("%s[%d]", path, i), l[i], w[i], paths)
		}
		return live
	default:
		if equal(live, want) {
			return live
		}
		*paths = append(*paths, path)
		return want
	}
}

// equal compares numbers by value: one may have been read as an integer, the other as a float.
func equal(a, b any) bool {
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

package agent

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Limits for MemberWork.status.drift.
const (
	driftPaths  = 5
	driftLength = 128
)

// Limits for AppliedWork.spec.left.
const (
	leftPaths  = 64
	leftLength = 512
)

// metadataDiffers reports whether a label or annotation of want is missing in live or has a different value. Such changes don't raise the
// generation of an object.
func metadataDiffers(want, live *unstructured.Unstructured) bool {
	return !hasAll(live.GetLabels(), want.GetLabels()) || !hasAll(live.GetAnnotations(), want.GetAnnotations())
}

func hasAll(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// limitPaths cuts a list of paths to what a status may hold: at most five paths of at most 128 characters, without a leading dot.
func limitPaths(paths []string) []string {
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

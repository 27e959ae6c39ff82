package podpatch

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Merge returns the fields of a pod or a pod template after applying a user's strategic merge patch. object holds the fields before, and empty
// is an empty corev1.Pod or corev1.PodTemplateSpec whose type determines how lists are merged. Fields may have types that don't match a pod's.
func Merge(object any, patch []byte, empty any) (map[string]any, error) {
	original, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write what is to be patched: %w", err)
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, empty)
	if err != nil {
		return nil, fmt.Errorf("merge the patch: %w", err)
	}
	var out map[string]any
	if err := json.Unmarshal(merged, &out); err != nil {
		return nil, fmt.Errorf("read what was patched: %w", err)
	}
	return out, nil
}

package podpatch

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Merge returns the fields of a pod or a pod template as a user's strategic merge patch leaves them. object has the fields before, and empty is
// a corev1.Pod or corev1.PodTemplateSpec, whose type tells how lists are merged. The fields may have types that a pod's do not have.
func Merge(object any, patch []byte, empty any) (map[string]any, error) {
	was, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write what is to be patched: %w", err)
	}
	is, err := strategicpatch.StrategicMergePatch(was, patch, empty)
	if err != nil {
		return nil, fmt.Errorf("merge the patch: %w", err)
	}
	var out map[string]any
	if err := json.Unmarshal(is, &out); err != nil {
		return nil, fmt.Errorf("read what was patched: %w", err)
	}
	return out, nil
}

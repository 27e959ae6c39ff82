package workloadspec

import (
	"fmt"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// PullAnnotations warns about annotations that request images to be pulled before an update, on kinds that never read
// them, rather than to ignore them.
func PullAnnotations(annotations map[string]string) []string {
	var warnings []string
	for _, key := range []string{
		keys.ImagePreDownloadParallelism, keys.ImagePreDownloadTimeoutSeconds, keys.ImagePreDownloadMinUpdatedReadyPods,
	} {
		if _, ok := annotations[key]; ok {
			warnings = append(warnings, fmt.Sprintf("annotation %s has no effect: no image is pulled before an update", key))
		}
	}
	return warnings
}

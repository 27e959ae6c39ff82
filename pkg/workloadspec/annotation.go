package workloadspec

import (
	"fmt"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// PullAnnotations warns of annotations that ask for images to be pulled before an update, of kinds that never read them: better
// than to ignore them.
func PullAnnotations(annotations map[string]string) []string {
	var warnings []string
	for _, key := range []string{
		keys.ImagePreDownloadParallelism, keys.ImagePreDownloadTimeoutSeconds, keys.ImagePreDownloadMinUpdatedReadyPods,
	} {
		if _, ok := annotations[key]; ok {
			warnings = append(warnings, fmt.Sprintf("annotation %s says nothing: no image is pulled before an update", key))
		}
	}
	return warnings
}

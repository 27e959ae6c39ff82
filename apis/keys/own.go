package keys

import (
	"slices"
	"strings"
)

// Own reports whether controllers of this project or OpenKruise act on a label or annotation: who may have it written to a pod may have the pod
// deleted, or its guards ignored.
func Own(key string) bool {
	domain, _, has := strings.Cut(key, "/")
	if !has {
		return slices.Contains([]string{InPlaceUpdateStateOld, InPlaceUpdateGraceOld, ControllerRevisionHash, PodTemplateHash}, key)
	}
	// OpenKruiseGame is another project.
	return domain != "game.kruise.io" && (domain == "kruise.io" || strings.HasSuffix(domain, ".kruise.io"))
}

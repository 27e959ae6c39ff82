package keys

import (
	"slices"
	"strings"
)

// Own reports whether controllers of this project or of OpenKruise act on a label or annotation. Whoever can have such a key written to a
// pod can have the pod deleted, or its guards ignored.
func Own(key string) bool {
	domain, _, has := strings.Cut(key, "/")
	if !has {
		return slices.Contains([]string{InPlaceUpdateStateOld, InPlaceUpdateGraceOld, ControllerRevisionHash, PodTemplateHash}, key)
	}
	// OpenKruiseGame is another project.
	return domain != "game.kruise.io" && (domain == "kruise.io" || strings.HasSuffix(domain, ".kruise.io"))
}

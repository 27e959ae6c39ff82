package placement

import (
	"slices"
	"strings"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// Bookkeeping reports whether an annotation is the bookkeeping of a tool, or ours, about the object on the hub. In a slice it
// would be wrong (the same tool in the member would believe that it owns the slice), and each change would be written to
// every member.
func Bookkeeping(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	switch {
	case key == keys.ConversionData, key == keys.FleetRowUID:
		return true
	case slices.Contains([]string{
		"kubectl.kubernetes.io", "deployment.kubernetes.io", "meta.helm.sh", "argocd.argoproj.io", "pulumi.com",
		"config.kubernetes.io", "internal.config.kubernetes.io", "config.k8s.io",
	}, prefix):
		return true
	default:
		return strings.HasSuffix(prefix, ".toolkit.fluxcd.io") || strings.HasSuffix(prefix, ".cattle.io")
	}
}

// WithoutNulls removes what a type writes as null, such as the creationTimestamp of a pod template.
func WithoutNulls(in map[string]any) {
	for key, value := range in {
		switch v := value.(type) {
		case nil:
			delete(in, key)
		case map[string]any:
			WithoutNulls(v)
		case []any:
			for _, item := range v {
				if of, ok := item.(map[string]any); ok {
					WithoutNulls(of)
				}
			}
		}
	}
}

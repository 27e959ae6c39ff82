package placement

import (
	"slices"
	"strings"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// Bookkeeping reports whether an annotation is bookkeeping about the object on the hub, either a tool's or ours. It would be wrong in a
// slice, since the same tool in the member would believe that it owns the slice. Also, each change would be written to every member.
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

// WithoutNulls removes values that a type encodes as null, such as the creationTimestamp of a pod template.
func WithoutNulls(in map[string]any) {
	for key, value := range in {
		switch v := value.(type) {
		case nil:
			delete(in, key)
		case map[string]any:
			WithoutNulls(v)
		case []any:
			for _, item := range v {
				if nested, ok := item.(map[string]any); ok {
					WithoutNulls(nested)
				}
			}
		}
	}
}

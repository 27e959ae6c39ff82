package testkit

import "k8s.io/apimachinery/pkg/util/intstr"

// Entries returns a reserveOrdinals list as YAML decodes it: a number becomes an int, anything else a string.
func Entries(list ...any) []intstr.IntOrString {
	var out []intstr.IntOrString
	for _, e := range list {
		if n, ok := e.(int); ok {
			out = append(out, intstr.FromInt32(int32(n))) //nolint:gosec // An ordinal in a test.
		} else {
			out = append(out, intstr.FromString(e.(string)))
		}
	}
	return out
}

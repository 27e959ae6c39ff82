package testkit

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// RequireSent requires that the types of a slice, which name each field that a hub sends to its members, have all fields of an API type
// except those in kept, which the hub keeps to itself.
func RequireSent(tb testing.TB, whole any, kept []string, slice ...any) {
	tb.Helper()
	sent := slices.Clone(kept)
	for _, part := range slice {
		sent = append(sent, jsonNames(part)...)
	}
	require.ElementsMatch(tb, jsonNames(whole), sent, "add a new field of %T to the slice, or to what the hub keeps to itself", whole)
}

// jsonNames returns the JSON names of the fields of a struct.
func jsonNames(o any) []string {
	t := reflect.TypeOf(o)
	out := make([]string, 0, t.NumField())
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

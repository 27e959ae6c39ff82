package webhooktest

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// alpha matches the apiVersion of a v1alpha1 object.
var alpha = regexp.MustCompile(`(?m)^apiVersion: \S+/v1alpha1$`)

// Read reads a v1beta1 object, or a v1alpha1 object through its conversion. Unknown fields are an error.
func Read[Alpha, Beta any](tb testing.TB, text []byte, toHub func(context.Context, *Alpha, *Beta) error) *Beta {
	tb.Helper()
	out := new(Beta)
	if !alpha.Match(text) {
		require.NoError(tb, yaml.UnmarshalStrict(text, out))
		return out
	}
	former := new(Alpha)
	require.NoError(tb, yaml.UnmarshalStrict(text, former))
	require.NoError(tb, toHub(tb.Context(), former, out))
	return out
}

// manifests returns the valid and the invalid manifests of a kind.
func manifests(tb testing.TB, folder, kind string) []string {
	tb.Helper()
	valid, err := filepath.Glob(filepath.Join(folder, kind+"*.yaml"))
	require.NoError(tb, err)
	require.NotEmpty(tb, valid)
	invalid, err := filepath.Glob(filepath.Join(folder, "invalid", kind+"-*.yaml"))
	require.NoError(tb, err)
	require.NotEmpty(tb, invalid)
	return append(valid, invalid...)
}

// read returns a manifest and its first line.
func read(tb testing.TB, file string) (text []byte, first string) {
	tb.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // A manifest that was found.
	require.NoError(tb, err)
	first, _, _ = strings.Cut(string(text), "\n")
	return text, first
}

// Examples tests a kind's webhook with the manifests in a folder. It must admit those named <kind>*.yaml without a warning, and answer those
// named invalid/<kind>-*.yaml as their first line says: "# refused: TEXT" or "# warned: TEXT". It leaves out those in bySchema, which are
// given without kind and extension: the schema rejects them, which needs an apiserver.
func Examples(t *testing.T, folder, kind string, bySchema []string, answer func(t *testing.T, text []byte) (warnings []string, err error)) {
	t.Helper()
	for _, name := range bySchema {
		require.FileExists(t, filepath.Join(folder, "invalid", kind+"-"+name+".yaml"))
	}
	for _, file := range manifests(t, folder, kind) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if slices.Contains(bySchema, strings.TrimPrefix(name, kind+"-")) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, first := read(t, file)
			warnings, err := answer(t, text)
			if want, refused := strings.CutPrefix(first, "# refused: "); refused {
				require.ErrorContains(t, err, want)
				return
			}
			require.NoError(t, err)
			if want, warned := strings.CutPrefix(first, "# warned: "); warned {
				require.Contains(t, strings.Join(warnings, "\n"), want)
				return
			}
			require.NotContains(t, file, "invalid", "the first line says what is expected")
			require.Empty(t, WithoutGates(string(text), warnings))
		})
	}
}

// WithoutGates returns an example's warnings without those about feature gates that the example itself says must be on.
func WithoutGates(example string, warnings []string) []string {
	return slices.DeleteFunc(slices.Clone(warnings), func(text string) bool {
		_, gate, found := strings.Cut(text, "feature gate ")
		gate, _, _ = strings.Cut(gate, " ")
		return found && strings.Contains(example, gate+" must be on")
	})
}

// DryRun tests an apiserver that has the kind's schema and webhook, with the same manifests. It leaves out v1alpha1 for kinds with other
// versions, which would need a conversion, and ignores warnings.
func DryRun(t *testing.T, c client.Client, namespace, folder, kind string) {
	t.Helper()
	files := manifests(t, folder, kind)
	converts := slices.ContainsFunc(files, func(file string) bool {
		text, _ := read(t, file)
		return !alpha.Match(text)
	})
	for _, file := range files {
		text, first := read(t, file)
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(text, &o.Object))
		if converts && o.GroupVersionKind().Version == "v1alpha1" {
			continue
		}
		o.SetNamespace(namespace)
		err := c.Create(t.Context(), o, client.DryRunAll)
		if want, refused := strings.CutPrefix(first, "# refused: "); refused {
			require.ErrorContains(t, err, want, file)
		} else {
			require.NoError(t, err, file)
		}
	}
}

package hook

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Read reads an object of v1beta1, or of v1alpha1 by its conversion. No field may be unknown.
func Read[Alpha, Beta any](tb testing.TB, text []byte, toHub func(context.Context, *Alpha, *Beta) error) *Beta {
	tb.Helper()
	out := new(Beta)
	if !strings.Contains(string(text), "\napiVersion: apps.kruise.io/v1alpha1\n") {
		require.NoError(tb, yaml.UnmarshalStrict(text, out))
		return out
	}
	former := new(Alpha)
	require.NoError(tb, yaml.UnmarshalStrict(text, former))
	require.NoError(tb, toHub(tb.Context(), former, out))
	return out
}

// Examples holds a kind's webhook to the manifests in a folder: it takes those named <kind>*.yaml without a warning, and answers
// those named invalid/<kind>-*.yaml as their first lines say, "# refused: TEXT" or "# warned: TEXT". Those of bySchema, without
// kind and ending, are left out: the schema refuses them, which only an apiserver can show.
func Examples(t *testing.T, folder, kind string, bySchema []string, answer func(t *testing.T, text []byte) (warnings []string, err error)) {
	t.Helper()
	valid, err := filepath.Glob(filepath.Join(folder, kind+"*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, valid)
	invalid, err := filepath.Glob(filepath.Join(folder, "invalid", kind+"-*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, invalid)
	for _, name := range bySchema {
		require.FileExists(t, filepath.Join(folder, "invalid", kind+"-"+name+".yaml"))
	}
	for _, file := range append(valid, invalid...) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if slices.Contains(bySchema, strings.TrimPrefix(name, kind+"-")) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			first, _, _ := strings.Cut(string(text), "\n")
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
			require.Empty(t, warnings)
		})
	}
}

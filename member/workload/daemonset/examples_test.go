package daemonset

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

const examples = "../../../e2e/examples"

// admitted is what the webhook says to the DaemonSet in a file, of either version, in which no field may be unknown.
func admitted(t *testing.T, file string) (first string, warnings []string, err error) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	first, _, _ = strings.Cut(string(text), "\n")
	set := &appsv1beta1.DaemonSet{}
	if strings.Contains(string(text), "\napiVersion: apps.kruise.io/v1alpha1\n") {
		former := &appsv1alpha1.DaemonSet{}
		require.NoError(t, yaml.UnmarshalStrict(text, former))
		require.NoError(t, appsv1alpha1.DaemonSetToHub(t.Context(), former, set))
	} else {
		require.NoError(t, yaml.UnmarshalStrict(text, set))
	}
	w, _ := hook(t)
	require.NoError(t, w.Default(t.Context(), set))
	warnings, err = w.ValidateCreate(t.Context(), set)
	return first, warnings, err
}

// Examples that the schema refuses, which only an apiserver can show, are in apis/apps/v1beta1.
func TestExamplesAreAnsweredAsTheySay(t *testing.T) {
	t.Parallel()
	bySchema := []string{
		"budget-and-surge", "no-room-to-update", "surge-in-place", "in-place-hook", "budget-above-100-percent",
		"partition-above-100-percent", "negative-partition", "negative-surge", "negative-burst", "negative-min-ready",
		"negative-history", "unknown-type", "unknown-rolling-update-type", "surging-in-v1beta1", "v1alpha1-surging-with-budget",
	}
	valid, err := filepath.Glob(filepath.Join(examples, "daemonset*.yaml"))
	require.NoError(t, err)
	require.Greater(t, len(valid), 3)
	invalid, err := filepath.Glob(filepath.Join(examples, "invalid", "daemonset-*.yaml"))
	require.NoError(t, err)
	require.Greater(t, len(invalid), 20)
	for _, file := range append(valid, invalid...) {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "daemonset-"), ".yaml")
		if slices.Contains(bySchema, name) {
			continue
		}
		first, warnings, err := admitted(t, file)
		if want, refused := strings.CutPrefix(first, "# refused: "); refused {
			require.ErrorContains(t, err, want, name)
			continue
		}
		require.NoError(t, err, name)
		if want, warned := strings.CutPrefix(first, "# warned: "); warned {
			require.Contains(t, strings.Join(warnings, "\n"), want, name)
		} else {
			require.Empty(t, warnings, name)
		}
	}
}

package statefulset

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

// example reads a StatefulSet of either version, in which no field may be unknown.
func example(t *testing.T, text []byte) *appsv1beta1.StatefulSet {
	t.Helper()
	set := &appsv1beta1.StatefulSet{}
	if !strings.Contains(string(text), "\napiVersion: apps.kruise.io/v1alpha1\n") {
		require.NoError(t, yaml.UnmarshalStrict(text, set))
		return set
	}
	former := &appsv1alpha1.StatefulSet{}
	require.NoError(t, yaml.UnmarshalStrict(text, former))
	require.NoError(t, appsv1alpha1.StatefulSetToHub(t.Context(), former, set))
	return set
}

// admitted is what the webhook says to a file.
func admitted(t *testing.T, file string) (first string, warnings []string, err error) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	first, _, _ = strings.Cut(string(text), "\n")
	set := example(t, text)
	w, _ := hook(t)
	if err := w.Default(requested(t, nil), set); err != nil {
		return first, nil, err
	}
	warnings, err = w.ValidateCreate(requested(t, nil), set)
	return first, warnings, err
}

func TestExamplesAreTaken(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(examples, "statefulset*.yaml"))
	require.NoError(t, err)
	require.Greater(t, len(files), 3)
	for _, file := range files {
		_, warnings, err := admitted(t, file)
		require.NoError(t, err, file)
		require.Empty(t, warnings, file)
	}
}

// Examples that the schema refuses, which only an apiserver can show, are in apis/apps/v1beta1.
func TestInvalidExamplesAreAnsweredAsTheySay(t *testing.T) {
	t.Parallel()
	bySchema := []string{
		"negative-replicas", "unknown-management-policy", "budget-without-parallel", "budget-zero", "scale-budget-without-parallel",
		"scale-budget-zero", "unordered-without-parallel", "on-delete-with-rolling-update", "unknown-type", "negative-partition",
		"min-ready-above-300", "negative-start", "unknown-retention", "two-kinds-of-priority", "weight-above-100",
		"v1alpha1-budget-without-parallel",
	}
	files, err := filepath.Glob(filepath.Join(examples, "invalid", "statefulset-*.yaml"))
	require.NoError(t, err)
	require.Greater(t, len(files), 25)
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "statefulset-"), ".yaml")
		if slices.Contains(bySchema, name) {
			continue
		}
		first, warnings, err := admitted(t, file)
		if want, refused := strings.CutPrefix(first, "# refused: "); refused {
			require.ErrorContains(t, err, want, name)
			continue
		}
		want, warned := strings.CutPrefix(first, "# warned: ")
		require.True(t, warned, name)
		require.NoError(t, err, name)
		require.Contains(t, strings.Join(warnings, "\n"), want, name)
	}
}

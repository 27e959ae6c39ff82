package cloneset

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

// example reads a CloneSet of either version, in which no field may be unknown.
func example(t *testing.T, text []byte) *appsv1beta1.CloneSet {
	t.Helper()
	set := &appsv1beta1.CloneSet{}
	if !strings.Contains(string(text), "\napiVersion: apps.kruise.io/v1alpha1\n") {
		require.NoError(t, yaml.UnmarshalStrict(text, set))
		return set
	}
	former := &appsv1alpha1.CloneSet{}
	require.NoError(t, yaml.UnmarshalStrict(text, former))
	require.NoError(t, appsv1alpha1.CloneSetToHub(t.Context(), former, set))
	return set
}

func TestExamplesAreTaken(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(examples, "cloneset*.yaml"))
	require.NoError(t, err)
	require.Greater(t, len(files), 8)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			set := example(t, text)
			w, _ := hook(t)
			require.NoError(t, w.Default(requested(t, nil), set))
			_, err = w.ValidateCreate(requested(t, nil), set)
			require.NoError(t, err)
		})
	}
}

// Examples that the schema refuses, which only an apiserver can show, are in package suite.
func TestInvalidExamplesAreRefusedAsTheySay(t *testing.T) {
	t.Parallel()
	bySchema := []string{
		"negative-replicas", "negative-min-ready", "negative-history", "unknown-type", "unknown-policy", "template-without-containers",
		"two-kinds-of-priority", "weight-above-100", "order-without-key", "scatter-without-value", "negative-grace-period",
		"v1alpha1-type-of-v1beta1", "v1alpha1-unknown-type", "negative-partition", "negative-surge",
	}
	files, err := filepath.Glob(filepath.Join(examples, "invalid", "cloneset-*.yaml"))
	require.NoError(t, err)
	require.Greater(t, len(files), 30)
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "cloneset-"), ".yaml")
		if slices.Contains(bySchema, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			first, _, _ := strings.Cut(string(text), "\n")
			want, found := strings.CutPrefix(first, "# refused: ")
			require.True(t, found)
			set := example(t, text)
			w, _ := hook(t)
			require.NoError(t, w.Default(requested(t, nil), set))
			_, err = w.ValidateCreate(requested(t, nil), set)
			require.ErrorContains(t, err, want)
		})
	}
}

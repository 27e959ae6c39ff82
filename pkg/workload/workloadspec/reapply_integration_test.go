//go:build integration

package workloadspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// TestTheSameManifestAgainChangesNothingInCluster repeats TestTheSameManifestAgainChangesNothing with the defaults of a real API server.
func TestTheSameManifestAgainChangesNothingInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: func(*runtime.Scheme) error { return nil }})
	namespace := s.Namespace(t)
	c, err := client.New(s.REST(), client.Options{})
	require.NoError(t, err)
	path := field.NewPath("spec", "template")
	rapid.Check(t, func(t *rapid.T) {
		manifest := podTemplates().Draw(t, "manifest")
		var templates PodTemplates
		full := func(p *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
			out, faults, err := templates.Check(t.Context(), c, namespace, p, nil, path)
			require.NoError(t, err)
			require.Empty(t, faults)
			return out
		}
		for how, store := range asStored(full) {
			for _, mode := range []Defaulting{AllDefaults, NoDefaults} {
				stored := store(manifest)
				done, faults, err := templates.Complete(t.Context(), c, namespace, Templates{Pod: stored}, Templates{Pod: manifest}, mode, path)
				require.NoError(t, err)
				require.Empty(t, faults)
				require.Empty(t, cmp.Diff(stored, done.Pod), "stored %s, mode %d", how, mode)
			}
		}
	})
}

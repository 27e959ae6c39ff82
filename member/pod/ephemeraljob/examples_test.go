package ephemeraljob

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const examples = "../../../e2e/examples"

// Examples that only the apiserver's rules for containers reject are covered by the integration test.
func TestExamples(t *testing.T) {
	t.Parallel()
	webhooktest.Examples(t, examples, "ephemeraljob", []string{"unknown-pull-policy", "no-image"}, func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		job := &appsv1alpha1.EphemeralJob{}
		require.NoError(t, yaml.UnmarshalStrict(text, job))
		return webhook().ValidateCreate(t.Context(), job)
	})
}

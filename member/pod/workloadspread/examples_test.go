package workloadspread

import (
	"testing"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const examples = "../../../e2e/examples"

// Examples that only an apiserver rejects are covered by the integration test.
func TestExamples(t *testing.T) {
	t.Parallel()
	webhooktest.Examples(t, examples, "workloadspread", []string{"unknown-overflow", "bad-toleration"}, func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		return newWebhook(store(t)).ValidateCreate(t.Context(), webhooktest.Read(t, text, appsv1alpha1.WorkloadSpreadToHub))
	})
}

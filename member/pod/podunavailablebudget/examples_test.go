package podunavailablebudget

import (
	"testing"

	policyv1alpha1 "github.com/flotilla-io/flotilla/apis/policy/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const examples = "../../../e2e/examples"

// Examples that the schema rejects are covered by the integration test, because that needs an apiserver.
func TestExamples(t *testing.T) {
	t.Parallel()
	webhooktest.Examples(t, examples, "podunavailablebudget", []string{"two-targets", "no-target", "two-numbers", "no-number", "unknown-operation", "total-of-0"},
		func(t *testing.T, text []byte) ([]string, error) {
			t.Helper()
			return newWebhook(apiserver(t)).ValidateCreate(t.Context(), webhooktest.Read(t, text, policyv1alpha1.PodUnavailableBudgetToHub))
		})
}

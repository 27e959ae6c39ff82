package advancedcronjob

import (
	"testing"

	"github.com/stretchr/testify/require"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const examples = "../../../e2e/examples"

// Examples that the schema rejects are tested in apis/apps/v1beta1, because that takes an apiserver.
func TestExamples(t *testing.T) {
	t.Parallel()
	webhooktest.Examples(t, examples, "advancedcronjob", []string{"unknown-concurrency"}, func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		cron := webhooktest.Read(t, text, appsv1alpha1.AdvancedCronJobToHub)
		w := newTestWebhook(t)
		require.NoError(t, w.Default(t.Context(), cron))
		return w.ValidateCreate(t.Context(), cron)
	})
}

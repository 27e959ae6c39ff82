package broadcastjob

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
	webhooktest.Examples(t, examples, "broadcastjob", []string{
		"negative-parallelism", "parallelism-without-percent", "never-with-ttl", "never-with-deadline", "unknown-completion-policy",
		"unknown-failure-policy", "template-without-containers",
	}, func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		job := webhooktest.Read(t, text, appsv1alpha1.BroadcastJobToHub)
		w, _ := newTestWebhook(t)
		require.NoError(t, w.Default(t.Context(), job))
		return w.ValidateCreate(t.Context(), job)
	})
}

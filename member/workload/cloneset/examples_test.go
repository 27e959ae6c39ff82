package cloneset

import (
	"testing"

	"github.com/stretchr/testify/require"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const examples = "../../../e2e/examples"

// Examples that the schema rejects are tested in e2e/suite, because that takes an apiserver.
func TestExamples(t *testing.T) {
	t.Parallel()
	webhooktest.Examples(t, examples, "cloneset", []string{
		"negative-replicas", "negative-min-ready", "negative-history", "unknown-type", "unknown-policy", "template-without-containers",
		"two-kinds-of-priority", "weight-above-100", "order-without-key", "scatter-without-value", "negative-grace-period",
		"v1alpha1-type-of-v1beta1", "v1alpha1-unknown-type", "negative-partition", "negative-surge",
	}, func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		set := webhooktest.Read(t, text, appsv1alpha1.CloneSetToHub)
		w, _ := newTestWebhook(t)
		require.NoError(t, w.Default(requestContext(t, nil), set))
		return w.ValidateCreate(requestContext(t, nil), set)
	})
}

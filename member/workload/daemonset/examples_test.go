package daemonset

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
	webhooktest.Examples(t, examples, "daemonset", []string{
		"budget-and-surge", "no-room-to-update", "surge-in-place", "in-place-hook", "budget-above-100-percent",
		"partition-above-100-percent", "negative-partition", "negative-surge", "negative-burst", "negative-min-ready",
		"negative-history", "unknown-type", "unknown-rolling-update-type", "surging-in-v1beta1", "v1alpha1-surging-with-budget",
		"negative-budget", "surge-above-100-percent", "partition-without-percent", "burst-without-percent", "template-without-containers",
	}, func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		set := webhooktest.Read(t, text, appsv1alpha1.DaemonSetToHub)
		w, _ := newTestWebhook(t)
		require.NoError(t, w.Default(t.Context(), set))
		return w.ValidateCreate(t.Context(), set)
	})
}

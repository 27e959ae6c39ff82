package statefulset

import (
	"testing"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const examples = "../../../e2e/examples"

// Examples that the schema rejects are tested in apis/apps/v1beta1, because that takes an apiserver.
func TestExamples(t *testing.T) {
	t.Parallel()
	webhooktest.Examples(t, examples, "statefulset", []string{
		"negative-replicas", "unknown-management-policy", "budget-without-parallel", "budget-zero", "scale-budget-without-parallel",
		"scale-budget-zero", "unordered-without-parallel", "on-delete-with-rolling-update", "unknown-type", "negative-partition",
		"min-ready-above-300", "negative-start", "unknown-retention", "two-kinds-of-priority", "weight-above-100",
		"v1alpha1-budget-without-parallel", "negative-history", "negative-min-ready", "negative-grace-period", "order-without-key",
		"unknown-policy", "unknown-claim-update", "budget-without-percent", "scale-budget-without-percent", "template-without-containers",
	}, func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		set := webhooktest.Read(t, text, appsv1alpha1.StatefulSetToHub)
		w, _ := newTestWebhook(t)
		if err := w.Default(requestContext(t, nil), set); err != nil {
			return nil, err
		}
		return w.ValidateCreate(requestContext(t, nil), set)
	})
}

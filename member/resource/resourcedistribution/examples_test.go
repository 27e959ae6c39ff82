package resourcedistribution

import (
	"testing"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const examples = "../../../e2e/examples"

func TestExamples(t *testing.T) {
	t.Parallel()
	webhooktest.Examples(t, examples, "resourcedistribution", []string{
		"nothing", "source-and-resource", "source-bad-kind", "source-without-namespace",
	}, func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		return (&Webhook{Client: reviewer(nil)}).ValidateCreate(withUser(t, "reader"), webhooktest.Read(t, text, appsv1alpha1.ResourceDistributionToHub))
	})
}

package persistentpodstate

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const examples = "../../../e2e/examples"

// Examples that the schema rejects are tested in apis/apps/v1beta1, because that needs an apiserver.
func TestExamples(t *testing.T) {
	t.Parallel()
	webhooktest.Examples(t, examples, "persistentpodstate", []string{"no-topology", "negative-weight", "unknown-policy"},
		func(t *testing.T, text []byte) ([]string, error) {
			t.Helper()
			pps := webhooktest.Read(t, text, appsv1alpha1.PersistentPodStateToHub)
			return newWebhook(fake.NewClientBuilder().WithScheme(scheme(t)).
				WithIndex(&appsv1beta1.PersistentPodState{}, targetIndex, targetOf).Build()).ValidateCreate(t.Context(), pps)
		})
}

package podunavailablebudget

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestANewPodGetsTheNameOfItsBudget(t *testing.T) {
	t.Parallel()
	p := pod("web-0", annotated(keys.RelatedPub, "former"))
	f, err := step().Observe(t.Context(), apiserver(t, budget(0)), p)
	require.NoError(t, err)
	require.Equal(t, "PodUnavailableBudget web protects it", f.Change(p))
	require.Equal(t, "web", budgetName(p))
	p = pod("db-0", labelled("app", "db"))
	p.Annotations = nil
	f, err = step().Observe(t.Context(), apiserver(t, budget(0)), p)
	require.NoError(t, err)
	require.Equal(t, "no PodUnavailableBudget protects the pod", f.Change(p))
	require.Empty(t, p.Annotations)
	facts("web").Change(p)
	require.Equal(t, "web", budgetName(p))
}

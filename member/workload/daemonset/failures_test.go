package daemonset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestBackoffOfNodesGrows(t *testing.T) {
	t.Parallel()
	var f failures
	at := now
	require.Empty(t, f.until(key, 1, at), "the first pod that has ended is deleted at once")
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		f.note(key, 1, "n1", at)
		require.Equal(t, map[string]time.Time{"n1": at.Add(want)}, f.until(key, 1, at))
		at = at.Add(want)
		require.Empty(t, f.until(key, 1, at))
	}
	for range 10 {
		f.note(key, 1, "n1", at)
	}
	require.Equal(t, map[string]time.Time{"n1": at.Add(15 * time.Minute)}, f.until(key, 1, at), "the longest backoff")
	f.note(key, 1, "n2", at)
	require.Len(t, f.until(key, 1, at), 2)
	require.Empty(t, f.until(types.NamespacedName{Name: "other"}, 1, at))

	require.Empty(t, f.until(key, 2, at), "another spec may have fixed it")
	f.note(key, 2, "n1", at)
	require.Equal(t, map[string]time.Time{"n1": at.Add(time.Second)}, f.until(key, 2, at))

	at = at.Add(time.Hour)
	require.Empty(t, f.until(key, 2, at))
	require.Empty(t, f.sets[key], "a node without failures is forgotten")
	f.note(key, 2, "n1", at)
	require.Equal(t, map[string]time.Time{"n1": at.Add(time.Second)}, f.until(key, 2, at))
	f.forget(key)
	require.Empty(t, f.sets)
}

func TestASetThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	r := reconciler(fifty(t), clocktesting.NewFakePassiveClock(now))
	r.failures.note(key, 1, "n1", now)
	got, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
	require.Zero(t, got)
	require.Empty(t, r.failures.sets)
}

package daemonset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestBackoffOfNodesGrows(t *testing.T) {
	t.Parallel()
	var f failures
	at := now
	require.Empty(t, f.until(1, at), "the first pod that ends is deleted at once")
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		f.record(1, "n1", at)
		require.Equal(t, map[string]time.Time{"n1": at.Add(want)}, f.until(1, at))
		at = at.Add(want)
		require.Empty(t, f.until(1, at))
	}
	for range 10 {
		f.record(1, "n1", at)
	}
	require.Equal(t, map[string]time.Time{"n1": at.Add(15 * time.Minute)}, f.until(1, at), "the longest backoff")
	f.record(1, "n2", at)
	require.Len(t, f.until(1, at), 2)

	require.Empty(t, f.until(2, at), "another spec may have fixed it")
	f.record(2, "n1", at)
	require.Equal(t, map[string]time.Time{"n1": at.Add(time.Second)}, f.until(2, at))

	at = at.Add(time.Hour)
	require.Empty(t, f.until(2, at))
	require.Empty(t, f, "a node without failures is forgotten")
	f.record(2, "n1", at)
	require.Equal(t, map[string]time.Time{"n1": at.Add(time.Second)}, f.until(2, at))
}

func TestASetThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	r := reconciler(fiftySets(t), clocktesting.NewFakePassiveClock(now))
	set := web().Obj()
	r.failures.Change(set, func(f *failures) { f.record(1, "n1", now) })
	got, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
	require.Zero(t, got)
	require.Empty(t, r.failures.Get(set))
}

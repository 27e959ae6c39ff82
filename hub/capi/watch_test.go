package capi

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOnlyChangedPhasesAreReported(t *testing.T) {
	t.Parallel()
	var reported []client.ObjectKey
	c := New(nil, []string{"team-a"}, func(_ context.Context, key client.ObjectKey) { reported = append(reported, key) })
	key := client.ObjectKey{Namespace: "team-a", Name: "east"}
	require.Equal(t, Unread, c.Phase(key))
	c.reset(t.Context(), "")
	require.Equal(t, NotServed, c.Phase(key))
	require.Equal(t, NotAllowed, c.Phase(client.ObjectKey{Namespace: "team-b", Name: "east"}))
	c.reset(t.Context(), "v1beta2")
	require.Equal(t, Unread, c.Phase(key), "an unsynced watch proves nothing")
	c.sync(t.Context())
	require.Equal(t, NotFound, c.Phase(key))
	require.Len(t, reported, 3)

	u := c.watch().New("v1beta2")
	u.SetNamespace("team-a")
	u.SetName("east")
	reported = nil
	c.note(t.Context(), u, true)
	require.Equal(t, Waiting, c.Phase(key))
	u.SetLabels(map[string]string{"any": "change"})
	c.note(t.Context(), u, true)
	require.Equal(t, []client.ObjectKey{key}, reported, "a change that is not of the phase wakes nobody")
	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": ConditionInitialized, "status": "True"}}}
	stripped, err := stripCluster(u)
	require.NoError(t, err)
	require.Equal(t, u, stripped)
	c.note(t.Context(), u, true)
	require.Equal(t, Provisioned, c.Phase(key))
	c.note(t.Context(), u, false)
	require.Equal(t, NotFound, c.Phase(key))
	require.Len(t, reported, 3)
	c.note(t.Context(), u, true)
	c.reset(t.Context(), "v1beta1")
	require.Equal(t, Unread, c.Phase(key), "another version is read anew")
}

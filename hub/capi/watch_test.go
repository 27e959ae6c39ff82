package capi

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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

	o := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "east"}}
	reported = nil
	c.observe(t.Context(), o, true)
	require.Equal(t, Waiting, c.Phase(key))
	o.Labels = map[string]string{"any": "change"}
	c.observe(t.Context(), o, true)
	require.Equal(t, []client.ObjectKey{key}, reported, "a change of other fields enqueues nothing")
	o.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue}}
	c.observe(t.Context(), o, true)
	require.Equal(t, Provisioned, c.Phase(key))
	c.observe(t.Context(), o, false)
	require.Equal(t, NotFound, c.Phase(key))
	require.Len(t, reported, 3)
	c.observe(t.Context(), o, true)
	c.reset(t.Context(), "v1beta1")
	require.Equal(t, Unread, c.Phase(key), "another version is read again")
}

package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

func TestTombstoneOfAPushMemberHasHowToConnect(t *testing.T) {
	t.Parallel()
	mc := push(settled()).mc.DeepCopy()
	mc.Spec.Limits = &fleetv1alpha1.ClusterLimits{QPS: 5, Burst: 6}
	kept := forTombstone(mc, "hub")
	require.Len(t, kept, 1, "only the hub reads the tombstone, so there is no role")
	stone := kept[0].(*corev1.ConfigMap)
	stone.UID = "stone"
	want := targetOf(mc, true)
	want.tombstone = "stone"
	require.Equal(t, want, readAccess(stone, "hub"))

	for name, change := range map[string]func(*corev1.ConfigMap){
		"for a pull member":     func(s *corev1.ConfigMap) { delete(s.Data, stoneMode) },
		"of another hub":        func(s *corev1.ConfigMap) { s.Data[link.TombstoneHubUID] = "other" },
		"with another identity": func(s *corev1.ConfigMap) { s.Data[stoneIdentity] = "other" },
	} {
		s := stone.DeepCopy()
		change(s)
		require.Nil(t, readAccess(s, "hub"), "a tombstone %s is not for the hub", name)
	}
	require.Nil(t, readAccess(&corev1.ConfigMap{}, "hub"))
}

package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

func TestTombstoneOfAPushMemberHasHowToConnect(t *testing.T) {
	t.Parallel()
	mc := push(settled()).mc.DeepCopy()
	mc.Spec.Limits = &fleetv1alpha1.ClusterLimits{QPS: 5, Burst: 6}
	kept := forTombstone(mc, fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 3})
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

func TestI20ATombstoneCarriesTheHubsEpoch(t *testing.T) {
	t.Parallel()
	w := settled().leavingSince(time.Hour)
	w.hub.Epoch = 7
	p := plan(w.observed, noon)
	require.Equal(t, stoneObjects, kinds(p.ensure))
	stone := p.ensure[0].(*corev1.ConfigMap)
	require.Equal(t, "7", stone.Data[link.TombstoneEpoch])

	older := forTombstone(w.mc, fleetv1alpha1.HubIdentity{UID: "hub"})[0].(*corev1.ConfigMap)
	older.Name = fleetv1alpha1.TombstoneName("older")
	delete(older.Data, link.TombstoneEpoch)
	another := forTombstone(w.mc, fleetv1alpha1.HubIdentity{UID: "another", Epoch: 7})[0].(*corev1.ConfigMap)
	another.Name = fleetv1alpha1.TombstoneName("another")
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stone, older, another).Build()
	s := &tombstones{client: c, hubUID: "hub", pusher: &pusher{wanted: map[string]target{}, states: map[string]pushState{}}}
	reconciled := func() (epochs []string) {
		t.Helper()
		requests := s.byEpoch(t.Context())
		require.Len(t, requests, 3)
		for _, r := range requests {
			_, err := s.Reconcile(t.Context(), r)
			require.NoError(t, err)
		}
		for _, one := range []*corev1.ConfigMap{stone, older, another} {
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(one), one))
			epochs = append(epochs, one.Data[link.TombstoneEpoch])
		}
		return epochs
	}
	require.Equal(t, []string{"7", "", "7"}, reconciled(), "a hub that has lost its epoch writes none")

	epoch := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.EpochConfigMap}, Data: map[string]string{epochKey: "8"},
	}
	require.NoError(t, c.Create(t.Context(), epoch))
	require.Equal(t, []string{"8", "8", "7"}, reconciled(), "an administrator has raised the epoch")
	require.Equal(t, "Orphan", stone.Data[link.TombstonePolicy])
}

func TestALeavingClusterSaysWhatItsMemberWaitsFor(t *testing.T) {
	t.Parallel()
	w := settled().leavingSince(time.Minute).row("web", fleetv1alpha1.LeaveOrphan, true)
	require.Equal(t, "waiting for the member to withdraw all rows (1) with policy Orphan", plan(w.observed, noon).why)
	w.mc.Status.Conditions = append(w.mc.Status.Conditions, metav1.Condition{
		Type: fleetv1alpha1.ConditionReleased, Status: metav1.ConditionFalse, Reason: fleetv1alpha1.ReasonEpochRegression, Message: "raise the epoch",
	})
	require.Equal(t, "waiting for the member to withdraw all rows (1) with policy Orphan: raise the epoch", plan(w.observed, noon).why)
}

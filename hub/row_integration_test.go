//go:build integration

package hub

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// managedFields are a third of a row. The first update clears them, and status writes don't add any again.
func TestIntegrationARowIsSmall(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: func(to *runtime.Scheme) error { return Kinds().AddToScheme(to) }})
	cluster := s.Namespace(t)
	for _, name := range []string{fleetv1alpha1.SystemNamespace, fleetv1alpha1.Namespace(cluster)} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		require.NoError(t, client.IgnoreAlreadyExists(s.Create(t.Context(), namespace)))
	}
	store := row.NewStore(s, []byte("key"), clock.RealClock{})
	want := row.Want{
		Cluster: cluster,
		Source: fleetv1alpha1.WorkSource{
			APIVersion: appsv1beta1.GroupVersion.String(), Kind: "UnitedDeployment", Namespace: "bench", Name: "load-000",
			UID: "6f1d3c3e-5a0c-4a53-9c1f-7c5a3f8f4a11",
		},
		Patch: []byte(`{"spec":{"replicas":1,"topology":{"subsets":[{"name":"east","replicas":1}]},` +
			`"updateStrategy":{"manualUpdate":{"partitions":{"east":0}},"type":"Manual"}}}`),
		Grant: fleetv1alpha1.WorkGrant{
			Epoch: 1, Replicas: 1, Subsets: []fleetv1alpha1.SubsetGrant{{Name: "east", Replicas: 1, Lower: 1, Upper: 1}},
		},
	}
	one := fleetv1alpha1.WorkCounts{Desired: 1, Replicas: 1, Ready: 1, Available: 1, Updated: 1, UpdatedReady: 1}
	// put writes the row with another manifest and the status of an agent. It returns the stored row and its length.
	put := func(manifest string) (stored *fleetv1alpha1.MemberWork, length int) {
		want.Manifest = []byte(manifest)
		stored = &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.Namespace(cluster), Name: want.Name()}}
		key, live := client.ObjectKeyFromObject(stored), stored
		if err := s.Get(t.Context(), key, live); apierrors.IsNotFound(err) {
			live = nil
		} else {
			require.NoError(t, err)
		}
		_, wrote, err := store.Put(t.Context(), want, live)
		require.NoError(t, err)
		require.True(t, wrote)
		require.NoError(t, s.Get(t.Context(), key, stored))
		from := stored.DeepCopy()
		stored.Status = fleetv1alpha1.MemberWorkStatus{
			ObservedGeneration: stored.Generation, Phase: fleetv1alpha1.WorkHealthy, Revision: "load-000-6f7d8c9b5f", Counts: one,
			Subsets: []fleetv1alpha1.SubsetCounts{{Name: "east", WorkCounts: one}},
		}
		require.NoError(t, s.Status().Patch(t.Context(), stored, client.MergeFrom(from), client.FieldOwner(link.AgentManager)))
		require.NoError(t, s.Get(t.Context(), key, stored))
		raw, err := json.Marshal(stored)
		require.NoError(t, err)
		return stored, len(raw)
	}
	made, before := put(`{"image":"app:1"}`)
	require.Len(t, made.ManagedFields, 2)
	changed, after := put(`{"image":"app:2"}`)
	require.Empty(t, changed.ManagedFields)
	t.Logf("%d bytes when it was created, %d after a change", before, after)
	require.Less(t, after, 1500)
	testkit.ChangeStatus(t, s, changed, func(w *fleetv1alpha1.MemberWork) { w.Status.Counts.Ready = 0 })
	require.Empty(t, changed.ManagedFields)
	testkit.Change(t, s, changed, func(w *fleetv1alpha1.MemberWork) { w.Finalizers = nil })
	require.NoError(t, s.Delete(t.Context(), changed))
}

// The collector of contents selects rows by the content they refer to.
func TestIntegrationRowsAreSelectedByTheirContent(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: func(to *runtime.Scheme) error { return Kinds().AddToScheme(to) }})
	namespace := s.Namespace(t)
	for _, ref := range []string{"c-a", fleetv1alpha1.ApplyContent + "c-b"} {
		made := &fleetv1alpha1.MemberWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ref},
			Spec: fleetv1alpha1.MemberWorkSpec{
				Source:  fleetv1alpha1.WorkSource{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "web", UID: "u"},
				Content: fleetv1alpha1.WorkContentSource{Ref: ref}, Suspend: ref != "c-a",
			},
		}
		require.NoError(t, s.Create(t.Context(), made))
		rows := &fleetv1alpha1.MemberWorkList{}
		require.NoError(t, s.List(t.Context(), rows, client.InNamespace(namespace), client.MatchingFields{"spec.content.ref": ref}, client.Limit(1)))
		require.Len(t, rows.Items, 1)
		require.Equal(t, ref, rows.Items[0].Name)
	}
}

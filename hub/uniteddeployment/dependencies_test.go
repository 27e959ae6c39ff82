package uniteddeployment

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// dependent returns a hub with one object whose dependencies are placed.
func dependent(t *testing.T, more ...client.Object) (*fixture, *appsv1beta1.UnitedDeployment) {
	t.Helper()
	all, uds := hub(1)
	uds[0].Spec.Topology.Dependencies = appsv1beta1.SubsetDependenciesAuto
	return newFixture(t, append(all, more...)...), uds[0]
}

// placing returns the Propagation of an object, or nil if there is none.
func (b *fixture) placing(t *testing.T, ud *appsv1beta1.UnitedDeployment) *fleetv1alpha1.Propagation {
	t.Helper()
	p := &fleetv1alpha1.Propagation{}
	err := b.Get(t.Context(), client.ObjectKey{Namespace: ud.Namespace, Name: ud.Name + "-dependencies"}, p)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return p
}

func TestAPropagationFollowsTheClustersOfAnObject(t *testing.T) {
	t.Parallel()
	b, ud := dependent(t)
	ud, writes := b.reconcile(t, ud)
	require.Equal(t, 5, writes, "a revision, a Propagation, a content, a row and the status")
	p := b.placing(t, ud)
	require.NotNil(t, p)
	require.True(t, metav1.IsControlledBy(p, ud))
	require.Equal(t, specOf(ud.Name, []string{"east"}), p.Spec)
	_, writes = b.reconcile(t, ud)
	require.Zero(t, writes)

	p.Spec.Clusters.Names = []string{"east", "west"}
	require.NoError(t, b.Update(t.Context(), p))
	_, writes = b.reconcile(t, ud)
	require.Equal(t, 1, writes, "a change by another client is reverted")
	require.Equal(t, []string{"east"}, b.placing(t, ud).Spec.Clusters.Names)

	ud.Spec.Topology.Dependencies = appsv1beta1.SubsetDependenciesOff
	require.NoError(t, b.Update(t.Context(), ud))
	b.reconcile(t, ud)
	require.Nil(t, b.placing(t, ud), "the Propagation is deleted once dependencies are off")
}

func TestDependenciesStayUntilTheSlicesAreGone(t *testing.T) {
	t.Parallel()
	b, ud := dependent(t)
	ud, _ = b.reconcile(t, ud)
	require.NoError(t, b.Delete(t.Context(), ud))
	ud, _ = b.reconcile(t, ud)
	require.NotNil(t, b.placing(t, ud), "the Propagation stays while there is a slice")

	rows := &fleetv1alpha1.MemberWorkList{}
	require.NoError(t, b.List(t.Context(), rows))
	for i := range rows.Items {
		rows.Items[i].Finalizers = nil
		require.NoError(t, b.Update(t.Context(), &rows.Items[i]))
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ud)}
	for range 3 { // The last slice, the finalizer, and what remains without the object.
		_, err := b.Reconcile(t.Context(), request)
		require.NoError(t, err)
	}
	require.Nil(t, b.placing(t, ud))
}

func TestAPropagationOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	foreign := &fleetv1alpha1.Propagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0-dependencies", UID: "theirs"},
		Spec:       specOf("other", []string{"west"}),
	}
	b, ud := dependent(t, foreign)
	ud, _ = b.reconcile(t, ud)
	require.Equal(t, foreign.Spec, b.placing(t, ud).Spec)
	failed := find(ud.Status.Conditions, appsv1beta1.SubsetFailure)
	require.Equal(t, reasonConflict, failed.Reason)
	require.Contains(t, failed.Message, "Propagation web-0-dependencies does not belong to this object")
	rows := &fleetv1alpha1.MemberWorkList{}
	require.NoError(t, b.List(t.Context(), rows))
	require.Len(t, rows.Items, 1, "the slices are placed anyway")

	require.NoError(t, b.Delete(t.Context(), ud))
	b.reconcile(t, ud)
	require.NotNil(t, b.placing(t, ud))
	_, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "gone"}})
	require.NoError(t, err)
}

// A hub may have no garbage collector, so the Propagation of an earlier object with the same name is deleted before another one is created.
func TestThePropagationOfAnEarlierObjectIsDeleted(t *testing.T) {
	t.Parallel()
	previous := propagationOf(&appsv1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "former"}}, []string{"west"})
	b, ud := dependent(t, previous)
	b.reconcile(t, ud)
	if p := b.placing(t, ud); p != nil {
		require.NotEqual(t, previous.OwnerReferences, p.OwnerReferences)
	}
	ud, _ = b.reconcile(t, ud)
	require.True(t, metav1.IsControlledBy(b.placing(t, ud), ud))

	gone := propagationOf(&appsv1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gone", UID: "gone"}}, []string{"west"})
	require.NoError(t, b.Create(t.Context(), gone))
	_, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "gone"}})
	require.NoError(t, err)
	require.Nil(t, b.placing(t, &appsv1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gone"}}))
}

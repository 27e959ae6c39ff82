//go:build !integration

package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
)

// leaving is a member in which one ConfigMap was applied for its hub, at epoch 4.
type leaving struct {
	hub, member client.Client
	leaver      leaver
	events      *testkit.Events
}

func newLeaving(t *testing.T, onHub ...client.Object) *leaving {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	l := &leaving{events: &testkit.Events{}}
	l.hub = fake.NewClientBuilder().WithScheme(scheme).WithObjects(onHub...).Build()
	l.member = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&fleetv1alpha1.Membership{}).WithObjects(
		testMembership(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "settings", UID: testUID, Annotations: map[string]string{keys.FleetRowUID: testRow},
		}},
		&fleetv1alpha1.AppliedWork{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Spec: fleetv1alpha1.AppliedWorkSpec{
			HubUID: testHub, Epoch: 4, Row: fleetv1alpha1.LedgerRow{Name: "settings", UID: testRow},
			Object: fleetv1alpha1.LedgerObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings", UID: testUID},
		}},
	).Build()
	ledger, err := newLedger(t.Context(), l.member, l.member)
	require.NoError(t, err)
	find := finder{reader: l.member, mapper: l.member.RESTMapper()}
	l.leaver = leaver{
		link: link.Link{
			Cluster: "east", Hub: connection{cached: l.hub, live: l.hub}, Member: connection{cached: l.member, live: l.member}, Events: l.events,
		},
		clusterUID: "east-uid", ledger: ledger, writer: writer{client: l.member, reader: l.member, find: find, ledger: ledger}, released: &atomic.Bool{},
	}
	return l
}

// exists reports whether the ConfigMap and the Membership exist.
func (l *leaving) exists(t *testing.T) (object, membership bool) {
	t.Helper()
	found := func(key client.ObjectKey, o client.Object) bool {
		err := l.member.Get(t.Context(), key, o)
		require.NoError(t, client.IgnoreNotFound(err))
		return !apierrors.IsNotFound(err)
	}
	object = found(client.ObjectKey{Namespace: "shop", Name: "settings"}, &corev1.ConfigMap{})
	return object, found(client.ObjectKey{Name: fleetv1alpha1.MembershipName}, &fleetv1alpha1.Membership{})
}

func (l *leaving) deleteObject(t *testing.T) {
	t.Helper()
	require.NoError(t, l.member.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}}))
}

func TestAnObjectThatCanNotBeDeletedKeepsNoOthersWaiting(t *testing.T) {
	t.Parallel()
	l := newLeaving(t)
	refused := errors.New("a webhook refuses it")
	l.leaver.writer.client = interceptor.NewClient(l.member.(client.WithWatch), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if o.GetName() == "settings" {
				return refused
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "to-delete", UID: "object-2"}}
	require.NoError(t, l.member.Create(t.Context(), other))
	line := l.leaver.ledger.get("settings").Spec
	line.Object.Name, line.Object.UID = other.Name, string(other.UID)
	_, err := l.leaver.ledger.put(t.Context(), "to-delete", line)
	require.NoError(t, err)

	left, err := l.leaver.withdrawAll(t.Context(), nil, testHub, withdrawal{policy: fleetv1alpha1.LeaveDelete})
	require.ErrorIs(t, err, refused)
	require.Equal(t, 1, left.lines)
	require.True(t, apierrors.IsNotFound(l.member.Get(t.Context(), client.ObjectKeyFromObject(other), other)))
	object, _ := l.exists(t)
	require.True(t, object)
}

func TestI20TombstoneOfARestoredHubDeletesNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		policy, epoch string
		objectGone    bool
		refused, kept bool
	}{
		{name: "with the highest epoch seen is followed", policy: "Delete", epoch: "4"},
		{name: "with a higher epoch is followed", policy: "Delete", epoch: "5"},
		{name: "with a lower epoch deletes nothing", policy: "Delete", epoch: "3", refused: true, kept: true},
		{name: "without an epoch deletes nothing", policy: "Delete", refused: true, kept: true},
		{name: "whose epoch is not a number deletes nothing", policy: "Delete", epoch: "four", refused: true, kept: true},
		{name: "with a lower epoch is followed if nothing is left to delete", policy: "Delete", epoch: "3", objectGone: true},
		{name: "with a lower epoch orphans", policy: "Orphan", epoch: "3", kept: true},
		{name: "without an epoch orphans", policy: "Orphan", kept: true},
	}
	for _, tc := range tests {
		t.Run("a tombstone "+tc.name, func(t *testing.T) {
			t.Parallel()
			stone := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.TombstoneName("east-uid")},
				Data: map[string]string{
					link.TombstoneCluster: "east", link.TombstoneHubUID: testHub, link.TombstoneUID: testClusterUID, link.TombstonePolicy: tc.policy,
				},
			}
			if tc.epoch != "" {
				stone.Data[link.TombstoneEpoch] = tc.epoch
			}
			l := newLeaving(t, stone)
			if tc.objectGone {
				l.deleteObject(t)
			}
			err := l.leaver.followTombstone(t.Context())
			regressed := (*link.EpochError)(nil)
			require.Equal(t, tc.refused, errors.As(err, &regressed), "%v", err)
			object, membership := l.exists(t)
			require.Equal(t, tc.kept, object)
			require.Equal(t, tc.refused, membership, "the binding lasts as long as objects are kept for the hub")
			if !tc.refused {
				require.ErrorIs(t, err, link.ErrLeft)
				return
			}
			require.Equal(t, int64(4), regressed.Seen)
			require.Equal(t, eventHubRestored, l.events.All()[0].Reason)

			stone.Data[link.TombstoneEpoch] = "5"
			require.NoError(t, l.hub.Update(t.Context(), stone))
			require.ErrorIs(t, l.leaver.followTombstone(t.Context()), link.ErrLeft, "the hub's epoch was raised")
			object, membership = l.exists(t)
			require.False(t, object || membership)
		})
	}
}

// A member that leaves a restored hub says why it keeps its objects, and leaves as soon as that is safe.
func TestI20LeavingARestoredHubSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	const hubEpoch = 3
	for name, tc := range map[string]struct {
		row, objectGone bool
		change          func(mc *fleetv1alpha1.MemberCluster)
		waits, kept     bool
	}{
		"it waits while a row is left":              {row: true, waits: true, kept: true},
		"it waits while an object without a row is": {waits: true, kept: true},
		"it leaves if nothing is left to delete":    {objectGone: true},
		"it leaves once the epoch is raised":        {change: func(mc *fleetv1alpha1.MemberCluster) { mc.Status.Hub.Epoch = 4 }},
		"it leaves once the policy is Orphan": {
			change: func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Leave.Policy = fleetv1alpha1.LeaveOrphan }, kept: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mc := testCluster()
			mc.DeletionTimestamp = &metav1.Time{Time: testNow()}
			mc.Spec.Leave.Policy, mc.Status.Hub.Epoch = fleetv1alpha1.LeaveDelete, hubEpoch
			if tc.change != nil {
				tc.change(mc)
			}
			var onHub []client.Object
			if tc.row {
				onHub = append(onHub, &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-east", Name: "settings", UID: testRow}})
			}
			l := newLeaving(t, onHub...)
			if tc.objectGone {
				l.deleteObject(t)
			}
			m, err := getMembership(t.Context(), l.member)
			require.NoError(t, err)
			s := bindingStateOf(mc, m, 0, testVersion)
			released, left, err := l.leaver.release(t.Context(), mc, m, s.permission)
			require.NoError(t, err)
			require.Equal(t, tc.waits, !released)
			object, membership := l.exists(t)
			require.Equal(t, tc.kept, object)
			require.Equal(t, tc.waits, membership)
			s.remaining = left
			c := report.GetCondition(clusterStatus(fleetv1alpha1.MemberClusterStatus{}, memberFacts{}, mc, s, released, testNow().Add(time.Second)).Conditions,
				fleetv1alpha1.ConditionReleased)
			if !tc.waits {
				require.Equal(t, metav1.ConditionTrue, c.Status)
				return
			}
			require.Equal(t, fleetv1alpha1.ReasonEpochRegression, c.Reason)
			require.Contains(t, c.Message, "the hub's epoch is 3 and this cluster has seen 4")
			require.Contains(t, c.Message, "set spec.leave.policy of the MemberCluster to Orphan")
		})
	}
}

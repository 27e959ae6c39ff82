package nodelease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-io/flotilla/apis/keys"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// lease returns the Lease of node-1 with a renew time.
func lease(renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: Name("node-1"), Labels: map[string]string{keys.NodeDaemon: ""}},
		Spec:       coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(renewed))},
	}
}

// doing is a Lease that was just renewed and lists its daemon's tasks.
func doing(what string) *coordinationv1.Lease {
	l := lease(start)
	l.Annotations = map[string]string{keys.NodeDaemonDoes: what}
	return l
}

func TestLive(t *testing.T) {
	t.Parallel()
	// seen is a Lease that the manager observes at a time after start.
	type seen struct {
		at    time.Duration
		lease *coordinationv1.Lease
		came  bool
	}
	far := start.Add(-time.Hour) // The node's clock is an hour behind.
	for _, tc := range []struct {
		name string
		seen []seen
		at   time.Duration
		want bool
		// pulls: the daemon is alive and pulls images.
		pulls bool
	}{
		{name: "no daemon without a Lease"},
		{name: "a Lease that was renewed recently", seen: []seen{{0, lease(start.Add(-30 * time.Second)), true}}, want: true},
		{name: "a Lease that expired before the manager started", seen: []seen{{0, lease(start.Add(-2 * time.Minute)), false}}},
		{
			name: "a renewal lasts 90 s", seen: []seen{{0, lease(start.Add(-time.Second)), true}, {20 * time.Second, lease(start.Add(19 * time.Second)), false}},
			at: 109 * time.Second, want: true,
		},
		{
			name: "but no longer", seen: []seen{{0, lease(start.Add(-time.Second)), true}, {20 * time.Second, lease(start.Add(19 * time.Second)), false}},
			at: 110 * time.Second,
		},
		{
			name: "seeing a Lease again doesn't renew it", seen: []seen{{0, lease(start), true}, {80 * time.Second, lease(start), false}},
			at: 90 * time.Second,
		},
		{
			name: "a daemon whose clock is late counts from its second renewal", at: 100 * time.Second, want: true,
			seen: []seen{{0, lease(far), false}, {20 * time.Second, lease(far.Add(20 * time.Second)), true}},
		},
		{
			name: "a daemon whose clock is ahead doesn't count for longer", at: 90 * time.Second,
			seen: []seen{{0, lease(start.Add(time.Hour)), true}},
		},
		{
			name: "a daemon that is alive again is reported", at: 200 * time.Second, want: true,
			seen: []seen{{0, lease(start), true}, {200 * time.Second, lease(start.Add(200 * time.Second)), true}},
		},
		{name: "a daemon that lists the task", seen: []seen{{0, doing(StopsSidecars + "," + RestartsForEnv), true}}, want: true},
		{name: "a daemon that lists another task", seen: []seen{{0, doing(PullsImages), true}}, pulls: true},
		{name: "a daemon that lists no tasks", seen: []seen{{0, doing(""), true}}},
		{name: "a daemon that no longer lists the task", seen: []seen{{0, lease(start), true}, {0, doing(PullsImages), true}}, pulls: true},
		{
			name: "a Lease of another program is ignored",
			seen: []seen{{0, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: Name("node-1")}, Spec: lease(start).Spec}, false}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(start)
			tracker := NewTracker(clock)
			for _, s := range tc.seen {
				clock.SetTime(start.Add(s.at))
				_, came := tracker.observe(s.lease)
				require.Equal(t, s.came, came)
			}
			clock.SetTime(start.Add(tc.at))
			require.Equal(t, tc.want, tracker.Live("node-1"))
			require.Equal(t, tc.pulls, tracker.Does("node-1", PullsImages))
			require.False(t, tracker.Live("node-2"))
			tracker.forget(lease(start))
			require.False(t, tracker.Live("node-1"))
		})
	}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	fail := errors.New("no way")
	var refuse error
	var calls []string
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			calls = append(calls, "get")
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			calls = append(calls, "create")
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			calls = append(calls, "update")
			if refuse != nil {
				return refuse
			}
			return c.Update(ctx, o, opts...)
		},
	})
	clock := clocktesting.NewFakePassiveClock(start)
	uid := types.UID("uid-1")
	h := &Holder{
		Client: c, Namespace: "ships", Node: "node-1", Identity: "noded-x", Clock: clock, Does: []string{PullsImages, RestartsForEnv},
		NodeUID: func(context.Context) (types.UID, error) { return uid, nil },
	}
	require.NoError(t, h.Renew(t.Context()))
	clock.SetTime(start.Add(RenewInterval))
	require.NoError(t, h.Renew(t.Context()))
	require.Equal(t, []string{"get", "create", "update"}, calls, "a renewal takes one request")

	var l coordinationv1.Lease
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ships", Name: "flotilla-noded.node-1"}, &l))
	require.True(t, l.Spec.RenewTime.Equal(new(metav1.NewMicroTime(start.Add(RenewInterval)))))
	require.Equal(t, "noded-x", *l.Spec.HolderIdentity)
	require.Equal(t, map[string]string{keys.NodeDaemonDoes: "PullImages,RestartForEnv"}, l.Annotations)
	require.EqualValues(t, 90, *l.Spec.LeaseDurationSeconds)
	require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "uid-1"}}, l.OwnerReferences)

	refuse = fail
	require.ErrorIs(t, h.Renew(t.Context()), fail)
	refuse, calls = nil, nil
	require.NoError(t, c.Delete(t.Context(), &l))
	require.NoError(t, h.Renew(t.Context()))
	require.Equal(t, []string{"get", "create"}, calls, "a lost Lease is created again")

	// The node was registered again: its old Lease is deleted along with the old Node.
	require.NoError(t, c.Delete(t.Context(), &l))
	uid = "uid-2"
	require.Error(t, h.Renew(t.Context()))
	require.NoError(t, h.Renew(t.Context()))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(&l), &l))
	require.Equal(t, uid, l.OwnerReferences[0].UID)
}

func TestTheLeaseNamesTheOtherDaemon(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	h := &Holder{Client: c, Namespace: "ships", Node: "node-1", Identity: "noded-x", Clock: clocktesting.NewFakePassiveClock(start)}
	other := func() string {
		require.NoError(t, h.Renew(t.Context()))
		var l coordinationv1.Lease
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ships", Name: Name("node-1")}, &l))
		return l.Annotations[keys.OtherNodeDaemon]
	}
	require.Empty(t, other())
	h.Other = "kruise-system/kruise-daemon-x"
	require.Equal(t, h.Other, other())
	h = &Holder{Client: c, Namespace: "ships", Node: "node-1", Identity: "noded-y", Clock: clocktesting.NewFakePassiveClock(start)}
	require.Empty(t, other(), "a restarted daemon corrects it")
}

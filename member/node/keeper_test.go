package node

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-io/flotilla/pkg/cri"
	crifake "github.com/flotilla-io/flotilla/pkg/cri/fake"
	"github.com/flotilla-io/flotilla/pkg/nodelease"
	"github.com/flotilla-io/flotilla/testkit"
)

// The daemon starts without a runtime, gets one, and loses it.
func TestTheLeaseIsRenewedWhileARuntimeAnswers(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	require.NoError(t, err)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clk := clocktesting.NewFakeClock(start)
	// A renewal takes as long as the apiserver does; polls are on time all the same.
	api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			clk.Step(20 * time.Millisecond)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			clk.Step(5 * time.Millisecond)
			return c.Update(ctx, o, opts...)
		},
	})
	dir := t.TempDir()
	var sent testkit.Events
	k := &keeper{
		runtimes: cri.New(dir, ""), clock: clk, events: &sent, node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
		lease: &nodelease.Holder{Client: api, Namespace: "ships", Node: "node-1", Identity: "noded-x", Clock: clk},
	}
	t.Cleanup(k.runtimes.Close)
	// renewed is when the Lease was last renewed, seconds after the start.
	renewed := func() float64 {
		var l coordinationv1.Lease
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "ships", Name: nodelease.Name("node-1")}, &l); err != nil {
			return -1
		}
		return l.Spec.RenewTime.Sub(start).Seconds()
	}
	looks := 0
	tick := func() {
		k.tick(t.Context())
		looks++
		clk.SetTime(start.Add(time.Duration(looks) * pollInterval))
	}
	tick()
	tick()
	require.InDelta(t, -1, renewed(), 0, "#1663: without a runtime the daemon keeps running, and renews no Lease")
	require.Len(t, sent.All(), 1, "it is reported once")
	require.Contains(t, sent.Lines()[0], "NoContainerRuntime: no container runtime: "+dir+" has none of containerd.sock")
	require.ErrorIs(t, Ready(k.runtimes)(nil), cri.ErrNoRuntime)

	server := crifake.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	tick()
	require.InDelta(t, 20, renewed(), 0.1)
	require.NoError(t, Ready(k.runtimes)(nil))
	require.Equal(t, "ContainerRuntimeFound: found containerd v9", sent.Lines()[1])
	tick()
	tick()
	require.InDelta(t, 20, renewed(), 0.1)
	tick()
	require.InDelta(t, 50, renewed(), 0.1, "a renewal is due every 30 s")

	server.Stop()
	for range 5 {
		tick()
	}
	require.InDelta(t, 50, renewed(), 0.1)
	require.Len(t, sent.All(), 3)
}

// A manager relies on the Lease when it requests restarts.
func TestADaemonWithoutControllersRenewsNoLease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crifake.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	var sent testkit.Events
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	k := &keeper{runtimes: cri.New(dir, ""), clock: clk, events: &sent, node: &corev1.Node{}}
	t.Cleanup(k.runtimes.Close)
	k.tick(t.Context())
	require.NoError(t, Ready(k.runtimes)(nil))
	require.True(t, k.renewed.IsZero())
}

// Renewals may fail for long, on all nodes.
func TestFailedRenewalsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	require.NoError(t, err)
	var refuse error
	api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if refuse != nil {
				return refuse
			}
			return c.Create(ctx, o, opts...)
		},
	})
	dir := t.TempDir()
	crifake.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	var sent testkit.Events
	k := &keeper{
		runtimes: cri.New(dir, ""), clock: clk, events: &sent, node: &corev1.Node{},
		lease: &nodelease.Holder{Client: api, Namespace: "ships", Node: "node-1", Identity: "noded-x", Clock: clk},
	}
	t.Cleanup(k.runtimes.Close)
	var lines []string
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	refuse = errors.New("no way")
	for range 5 {
		k.tick(ctx)
		clk.Step(pollInterval)
	}
	require.Len(t, lines, 2, "which runtime was found, and the first failure")
	refuse = nil
	k.tick(ctx)
	require.Contains(t, lines[2], "Renewed the node's Lease again")
}

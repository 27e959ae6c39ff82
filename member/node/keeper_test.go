package node

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-io/flotilla/pkg/cri"
	crifake "github.com/flotilla-io/flotilla/pkg/cri/fake"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/nodelease"
)

type events []string

func (e *events) Record(_ runtime.Object, v event.Event) { *e = append(*e, v.Reason+": "+v.Note) }

// The daemon begins without a runtime, gets one, and loses it.
func TestTheLeaseIsRenewedWhileARuntimeAnswers(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	require.NoError(t, err)
	api := fake.NewClientBuilder().WithScheme(scheme).Build()
	dir := t.TempDir()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	var told events
	k := &keeper{
		runtimes: cri.New(dir, ""), clock: clk, events: &told,
		lease: &nodelease.Holder{Client: api, Namespace: "ships", Node: "node-1", Identity: "noded-x", Clock: clk},
	}
	t.Cleanup(k.runtimes.Close)
	// renewed is when the Lease was last renewed, seconds after the start.
	renewed := func() float64 {
		var l coordinationv1.Lease
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "ships", Name: nodelease.Name("node-1")}, &l); err != nil {
			return -1
		}
		return l.Spec.RenewTime.Sub(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)).Seconds()
	}
	pass := func() {
		k.tick(t.Context())
		clk.Step(lookEvery)
	}
	pass()
	pass()
	require.InDelta(t, -1, renewed(), 0, "#1663: without a runtime the daemon goes on, and does not say that it lives")
	require.Len(t, told, 1, "it is told once")
	require.Contains(t, told[0], "NoContainerRuntime: no container runtime: "+dir+" has none of containerd.sock")
	require.ErrorIs(t, Ready(k.runtimes)(nil), cri.ErrNoRuntime)

	server := crifake.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	pass()
	require.InDelta(t, 20, renewed(), 0)
	require.NoError(t, Ready(k.runtimes)(nil))
	require.Equal(t, "ContainerRuntimeFound: found containerd v9", told[1])
	pass()
	pass()
	require.InDelta(t, 20, renewed(), 0)
	pass()
	require.InDelta(t, 50, renewed(), 0, "a renewal is due every 30 s")

	server.Stop()
	for range 5 {
		pass()
	}
	require.InDelta(t, 50, renewed(), 0)
	require.Len(t, told, 3)
}

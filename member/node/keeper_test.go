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

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/fakecri"
)

// The daemon starts without a runtime, gets one, and loses it.
func TestTheLeaseIsRenewedWhileARuntimeAnswers(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	require.NoError(t, err)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clk := clocktesting.NewFakeClock(start)
	// A renewal takes as long as the apiserver does; polls are still on time.
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
		pods:  api,
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
	require.Len(t, sent.All(), 1, "the failure is reported once")
	require.Contains(t, sent.Lines()[0], "NoContainerRuntime: no container runtime: "+dir+" has none of containerd.sock")
	require.ErrorIs(t, Ready(k.runtimes)(nil), cri.ErrNoRuntime)

	server := fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
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

// kruiseDaemon returns a running pod of OpenKruise's daemon on node-1.
func kruiseDaemon() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kruise-daemon-x"},
		Spec: corev1.PodSpec{
			NodeName: "node-1",
			Containers: []corev1.Container{{
				Name: "daemon", Image: "kruise:1", Command: []string{"/kruise-daemon"}, VolumeMounts: []corev1.VolumeMount{{Name: "run", MountPath: "/hostvarrun"}},
			}},
			Volumes: []corev1.Volume{{Name: "run", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/run"}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "daemon", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
}

// OpenKruise's daemon runs on the node, and is then uninstalled.
func TestTheLeaseSaysForWhichDaemonThisOneStandsBack(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	require.NoError(t, err)
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	api := fake.NewClientBuilder().WithScheme(scheme).Build()
	dir := t.TempDir()
	fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	var sent testkit.Events
	k := &keeper{
		runtimes: cri.New(dir, ""), clock: clk, events: &sent, node: &corev1.Node{}, pods: api,
		lease: &nodelease.Holder{Client: api, Namespace: "ships", Node: "node-1", Identity: "noded-x", Clock: clk},
	}
	t.Cleanup(k.runtimes.Close)
	lease := func() (l coordinationv1.Lease) {
		require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: "ships", Name: nodelease.Name("node-1")}, &l))
		return l
	}
	k.tick(t.Context())
	require.NotContains(t, lease().Annotations, keys.OtherNodeDaemon)

	other := kruiseDaemon()
	require.NoError(t, api.Create(t.Context(), other))
	for range 2 {
		clk.Step(pollInterval)
		k.tick(t.Context())
	}
	said := lease()
	require.Equal(t, "default/kruise-daemon-x", said.Annotations[keys.OtherNodeDaemon], "at the next poll, and not when a renewal is due")
	clk.Step(nodelease.RenewInterval)
	k.tick(t.Context())
	require.True(t, said.Spec.RenewTime.Before(lease().Spec.RenewTime), "in-place updates continue: the other daemon restarts the containers")

	require.NoError(t, api.Delete(t.Context(), other))
	clk.Step(pollInterval)
	k.tick(t.Context())
	require.NotContains(t, lease().Annotations, keys.OtherNodeDaemon)
	require.Equal(t, []string{
		"OtherNodeDaemon: pod default/kruise-daemon-x restarts containers whose env changed and reports on them: " +
			"flotilla-noded doesn't while that pod runs",
		"OtherNodeDaemonGone: pod default/kruise-daemon-x is gone: flotilla-noded restarts containers again",
	}, sent.Lines())
}

// A manager relies on what the Lease says when it requests something.
func TestTheLeaseSaysWhatTheDaemonDoes(t *testing.T) {
	t.Parallel()
	require.Empty(t, (&Options{}).features())
	require.Equal(t, []string{nodelease.RestartsForEnv, nodelease.PullsImages, nodelease.RecreatesContainers, nodelease.StopsSidecars, nodelease.ProbesContainers},
		(&Options{Env: true, Images: true, Recreate: true, Terminator: true, Probes: true}).features())
}

// Renewals may fail for a long time, on all nodes.
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
	fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	var sent testkit.Events
	k := &keeper{
		runtimes: cri.New(dir, ""), clock: clk, events: &sent, node: &corev1.Node{},
		pods:  api,
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

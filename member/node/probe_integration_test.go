//go:build integration

package node

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/testkit/fakecri"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestIntegrationProbesAreReported probes a pod on node-1. It does not probe pods on node-2, whose NodePodProbe belongs to another daemon.
func TestIntegrationProbesAreReported(t *testing.T) {
	t.Parallel()
	api := testenv.Start(t, testenv.Config{Scheme: appsv1alpha1.AddToScheme, Own: &lab.Config{ControlPlaneOnly: true}})
	scheme, err := Scheme()
	require.NoError(t, err)
	dir := t.TempDir()
	runtime := fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	runtime.Commands(func(_ string, cmd []string) (*criv1.ExecSyncResponse, error) {
		return &criv1.ExecSyncResponse{Stdout: []byte(cmd[0])}, nil
	})
	k := &kubelet{Client: api, t: t, runtime: runtime}
	probing := map[string]*appsv1alpha1.NodePodProbe{}
	for _, node := range []string{"node-1", "node-2"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-" + node},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		}
		require.NoError(t, api.Create(t.Context(), pod))
		k.start(t.Context(), client.ObjectKeyFromObject(pod), "")
		n := &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: appsv1alpha1.NodePodProbeSpec{
			PodProbes: []appsv1alpha1.PodProbe{{
				Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, IP: "10.0.0.1", Probes: []appsv1alpha1.ContainerProbe{{
					Name: "m#idle", ContainerName: "app",
					Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"idle"}}}},
				}},
			}},
		}}
		require.NoError(t, api.Create(t.Context(), n))
		probing[node] = n
	}
	mgr, err := ctrl.NewManager(api.REST(), Restrict(ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{UsePriorityQueue: new(false)},
	}, Options{Node: "node-1", Probes: true}))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, Setup(ctx, mgr, Options{
		Node: "node-1", Namespace: "kube-system", Identity: "noded-x", Runtimes: cri.New(dir, ""), Probes: true, Clock: clock.RealClock{},
	}))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	says := func(node, text string) func() bool {
		return func() bool {
			n := probing[node]
			require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(n), n))
			if len(n.Status.PodProbeStatuses) == 0 {
				return text == ""
			}
			current := n.Status.PodProbeStatuses[0].ProbeStates[0]
			return current.State == appsv1alpha1.ProbeSucceeded && current.Message == text
		}
	}
	require.Eventually(t, says("node-1", "idle"), patience, poll, "the result of the probe is in the status")
	mine := probing["node-1"]
	mine.Spec.PodProbes[0].Probes[0].Probe.Exec.Command[0] = "busy"
	require.NoError(t, api.Update(t.Context(), mine))
	require.Eventually(t, says("node-1", "busy"), patience, poll, "another command is run")
	mine.Spec.PodProbes = nil
	require.NoError(t, api.Update(t.Context(), mine))
	require.Eventually(t, says("node-1", ""), patience, poll, "a removed probe has no result")
	require.True(t, says("node-2", "")(), "NodePodProbes of other nodes are ignored")
}

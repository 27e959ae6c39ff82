//go:build integration

package node

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/testkit/fakecri"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

var patience = testtimeout.Scale(time.Minute)

const poll = 50 * time.Millisecond

// kubelet acts as the kubelet of node-1: it starts containers in the runtime, and writes the status of pods.
type kubelet struct {
	client.Client
	t       *testing.T
	runtime *fakecri.Runtime
}

// start starts the containers of a pod that are not running.
func (k *kubelet) start(ctx context.Context, key client.ObjectKey, restarted string) {
	var pod corev1.Pod
	require.NoError(k.t, k.Get(ctx, key, &pod))
	pod.Status.Phase = corev1.PodRunning
	statuses := make([]corev1.ContainerStatus, len(pod.Spec.Containers))
	copy(statuses, pod.Status.ContainerStatuses)
	for i, c := range pod.Spec.Containers {
		if st := &statuses[i]; st.ContainerID == "" || strings.HasSuffix(st.ContainerID, "/"+restarted) {
			count := st.RestartCount
			if st.ContainerID != "" {
				count++
			}
			*st = corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, Ready: true, RestartCount: count,
				ContainerID: k.runtime.Run(fakecri.Container{Name: c.Name, Pod: pod.UID, Env: []string{"PATH=/bin", "CONFIG=" + pod.Annotations["config"]}}),
				State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
			}
		}
	}
	pod.Status.ContainerStatuses = statuses
	require.NoError(k.t, k.Status().Update(ctx, &pod))
}

// left returns how many reconciles have left a restart to another daemon.
func left(t *testing.T) (n float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "flotilla_node_env_waits_total" && m.GetLabel()[0].GetValue() == "OtherDaemon" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// TestIntegrationAnAnnotationBecomesEnv updates an annotation that the container app reads by env. The pods are on two nodes, one of which has
// the daemon and, for a while, OpenKruise's daemon as well.
func TestIntegrationAnAnnotationBecomesEnv(t *testing.T) {
	t.Parallel()
	cfg, err := lab.StartT(t, lab.Config{ControlPlaneOnly: true}).REST()
	require.NoError(t, err)
	scheme, err := Scheme()
	require.NoError(t, err)
	api, err := client.New(cfg, client.Options{Scheme: scheme})
	require.NoError(t, err)
	dir := t.TempDir()
	runtime := fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	k := &kubelet{Client: api, t: t, runtime: runtime}
	var there atomic.Bool // OpenKruise's daemon is on node-1

	keysOf := map[string]client.ObjectKey{}
	for name, node := range map[string]string{"here": "node-1", "there": "node-2", "deployed": "node-1"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, Annotations: map[string]string{"config": "one"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: "x", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64(7)), Containers: []corev1.Container{
				{
					Name: "app", Image: "app:1",
					Env:       []corev1.EnvVar{{Name: "CONFIG", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['config']"}}}},
					Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}},
				},
				{Name: "side", Image: "side:1", ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}},
			}},
		}
		if name == "deployed" {
			pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind = "apps/v1", "ReplicaSet"
		}
		require.NoError(t, api.Create(t.Context(), pod))
		keysOf[name] = client.ObjectKeyFromObject(pod)
		k.start(t.Context(), keysOf[name], "")
	}
	var contested atomic.Bool
	runtime.On("StopContainer", func(id string) {
		contested.Store(contested.Load() || there.Load())
		k.start(context.WithoutCancel(t.Context()), keysOf["here"], id)
	})

	mgr, err := ctrl.NewManager(cfg, Restrict(ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{UsePriorityQueue: new(false)},
	}, Options{Node: "node-1"}))
	require.NoError(t, err)
	runtimes := cri.New(dir, "")
	require.NoError(t, Setup(t.Context(), mgr, Options{
		Node: "node-1", Namespace: "kube-system", Identity: "noded-x", Runtimes: runtimes, Env: true, Clock: clock.RealClock{},
	}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})

	get := func(name string) *corev1.Pod {
		var pod corev1.Pod
		require.NoError(t, api.Get(t.Context(), keysOf[name], &pod))
		return &pod
	}
	var before *corev1.Pod
	require.Eventually(t, func() bool {
		before = get("here")
		return before.Annotations[keys.RuntimeContainersMeta] != ""
	}, patience, poll, "what the containers were started from is reported")
	require.Contains(t, before.Annotations[keys.RuntimeContainersMeta], before.Status.ContainerStatuses[0].ContainerID)
	var lease coordinationv1.Lease
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: nodelease.Name("node-1")}, &lease))

	// OpenKruise's daemon runs on the node as well.
	other := kruiseDaemon()
	status := other.Status
	require.NoError(t, api.Create(t.Context(), other))
	other.Status = status
	there.Store(true)
	require.NoError(t, api.Status().Update(t.Context(), other))
	said := func() string {
		require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(&lease), &lease))
		return lease.Annotations[keys.OtherNodeDaemon]
	}
	require.Eventually(t, func() bool { return said() == "default/kruise-daemon-x" }, patience, poll, "the Lease names the other daemon")

	// The manager writes all pods in the same way.
	record, err := json.Marshal(map[string]any{
		"revision": "web-2", "updateTimestamp": metav1.Now(), "updateEnvFromMetadata": true,
		"containerBatchesRecord": []any{map[string]any{"timestamp": metav1.Now(), "containers": []string{"app"}}},
	})
	require.NoError(t, err)
	for name := range keysOf {
		pod := get(name)
		from := pod.DeepCopy()
		pod.Labels = map[string]string{keys.LifecycleState: string(pods.LifecycleUpdating)}
		pod.Annotations["config"], pod.Annotations[keys.InPlaceUpdateState] = "two", string(record)
		require.NoError(t, api.Patch(t.Context(), pod, client.MergeFrom(from)))
	}
	require.Eventually(t, func() bool { return left(t) > 0 }, patience, poll, "the restart is left to the other daemon")
	require.Equal(t, before.Annotations[keys.RuntimeContainersMeta], get("here").Annotations[keys.RuntimeContainersMeta])
	there.Store(false)
	require.NoError(t, api.Delete(t.Context(), other, client.GracePeriodSeconds(0)))
	var after *corev1.Pod
	require.Eventually(t, func() bool {
		after = get("here")
		return inplace.Progress(after, clock.RealClock{}.Now()).Done
	}, patience, poll, "the update completes by the report")
	require.Equal(t, before.UID, after.UID)
	app, side := after.Status.ContainerStatuses[0], after.Status.ContainerStatuses[1]
	require.EqualValues(t, 1, app.RestartCount)
	require.Equal(t, before.Status.ContainerStatuses[1], side, "the other container was left alone")
	require.False(t, contested.Load(), "nothing was stopped while the other daemon ran")
	require.Eventually(t, func() bool { return said() == "" }, patience, poll)
	calls := runtime.Calls()
	require.Len(t, calls, 2, "one hook and one stop")
	require.Regexp(t, `^ExecSync app-\d drain$`, calls[0])
	require.Regexp(t, `^StopContainer app-\d [67]$`, calls[1])
	for _, name := range []string{"there", "deployed"} {
		require.Empty(t, get(name).Annotations[keys.RuntimeContainersMeta], "%s is not ours", name)
	}
}

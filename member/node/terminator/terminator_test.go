package terminator

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/node/stop"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/fakecri"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	mark := func(name string, env ...string) corev1.Container {
		c := corev1.Container{Name: name}
		for _, e := range env {
			c.Env = append(c.Env, corev1.EnvVar{Name: e, Value: "true"})
		}
		return c
	}
	side, proxy := mark("side", keys.EnvTerminateSidecar), mark("proxy", keys.EnvTerminateSidecar, keys.EnvTerminateSidecarIgnoreExitCode)
	side.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}}
	for _, tc := range []struct {
		name   string
		app    corev1.ContainerState
		change func(*corev1.Pod)
		calls  []string
	}{
		{name: "nothing is stopped while the application runs", app: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{
			name: "then marked sidecars are stopped, except those whose exit code counts", app: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			calls: []string{"ExecSync side-1 drain", "StopContainer side-1 7"},
		},
		{
			name: "sidecars are stopped after a final failure", app: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
			calls: []string{"ExecSync side-1 drain", "StopContainer side-1 7"},
		},
		{
			name: "sidecars are not stopped after a failure that is retried", app: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
			change: func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure },
		},
		{
			name: "the kubelet ends a pod that is being deleted", app: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			change: func(p *corev1.Pod) {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/hold"}
			},
		},
		{
			name: "a sidecar that does not run yet is not stopped", app: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			change: func(p *corev1.Pod) {
				p.Status.ContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
			},
		},
		{
			name: "a status that names a container of another pod stops nothing", app: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			change: func(p *corev1.Pod) { p.UID = "another" },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			server := fakecri.Start(t, filepath.Join(dir, "crio.sock"), "cri-o")
			runtimes := cri.New(dir, "")
			t.Cleanup(runtimes.Close)
			running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "job-a", UID: "u1"},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(7)), Containers: []corev1.Container{mark("app"), side, proxy},
				},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
					{Name: "app", State: tc.app},
					{Name: "side", State: running, ContainerID: server.Run(fakecri.Container{Name: "side", Pod: "u1"})},
					{Name: "proxy", State: running, ContainerID: server.Run(fakecri.Container{Name: "proxy", Pod: "u1"})},
				}},
			}
			if tc.change != nil {
				tc.change(pod)
			}
			var sent testkit.Events
			r := &Reconciler{Client: clientfake.NewClientBuilder().WithObjects(pod).Build(), Stopper: stop.New(runtimes, clocktesting.NewFakeClock(time.Unix(0, 0)), &sent)}
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}
			if len(tc.calls) > 0 { // No runtime has been found yet.
				got, err := r.Reconcile(t.Context(), request)
				require.NoError(t, err)
				require.Equal(t, stop.RecheckInterval, got.RequeueAfter)
			}
			require.NoError(t, runtimes.Refresh(t.Context()))
			if len(tc.calls) > 0 {
				server.Fail("StopContainer", errors.New("busy"))
				_, err := r.Reconcile(t.Context(), request)
				require.ErrorContains(t, err, "busy")
				server.Fail("StopContainer", nil)
				before := len(server.Calls())
				_, err = r.Reconcile(t.Context(), request)
				require.NoError(t, err)
				require.Equal(t, tc.calls, server.Calls()[before:])
			}
			before := len(server.Calls())
			got, err := r.Reconcile(t.Context(), request)
			require.NoError(t, err)
			require.Zero(t, got)
			require.Len(t, server.Calls(), before, "ended containers are left alone")
		})
	}
	r := &Reconciler{Client: clientfake.NewClientBuilder().Build()}
	_, err := r.Reconcile(t.Context(), ctrl.Request{})
	require.NoError(t, err, "a pod that is gone")
}

package env

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flotilla-io/flotilla/pkg/cri"
	"github.com/flotilla-io/flotilla/pkg/cri/fake"
	"github.com/flotilla-io/flotilla/testkit"
)

// The cases run one after the other: they share a server.
func TestHTTPHook(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked <- q.Host + " " + q.URL.String() + " " + q.Header.Get("X-Why")
		http.Redirect(w, q, "/elsewhere", http.StatusFound)
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	number := intstr.Parse(port)
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "other", Ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: 1}}},
			{Name: "app", Ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: number.IntVal}}},
		}},
		Status: corev1.PodStatus{PodIP: "127.0.0.1"},
	}
	r := &Reconciler{HTTP: hookClient()}
	for _, tc := range []struct {
		name string
		hook corev1.HTTPGetAction
		want string
		why  string
	}{
		{name: "the pod's address, and any answer will do", hook: corev1.HTTPGetAction{Path: "/drain?now=1", Port: number}, want: "127.0.0.1:" + port + " /drain?now=1 "},
		{name: "a port by its name in the container", hook: corev1.HTTPGetAction{Port: intstr.FromString("admin")}, want: "127.0.0.1:" + port + " / "},
		{
			name: "headers, and the host among them", want: "shop.example /drain update",
			hook: corev1.HTTPGetAction{Path: "drain", Port: number, HTTPHeaders: []corev1.HTTPHeader{{Name: "host", Value: "shop.example"}, {Name: "X-Why", Value: "update"}}},
		},
		{name: "a port that is not there", hook: corev1.HTTPGetAction{Port: intstr.FromString("web")}, why: "container app has no port web"},
		{name: "a server that does not speak TLS", hook: corev1.HTTPGetAction{Port: number, Scheme: corev1.URISchemeHTTPS}, why: "send the hook's request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := restart{name: "app", grace: time.Minute, hook: &corev1.LifecycleHandler{HTTPGet: &tc.hook}}
			err := r.run(t.Context(), pod, s, nil, "")
			if tc.why != "" {
				require.ErrorContains(t, err, tc.why)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, <-asked)
		})
	}
}

func TestSleepHookLastsAsLongAsItSays(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(start)
	r := &Reconciler{Clock: clk}
	ended := make(chan error, 1)
	s := restart{name: "app", grace: time.Minute, hook: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}
	go func() { ended <- r.run(t.Context(), &corev1.Pod{}, s, nil, "") }()
	require.Eventually(t, clk.HasWaiters, time.Minute, time.Millisecond)
	clk.Step(4 * time.Second)
	select {
	case err := <-ended:
		require.FailNow(t, "it ended early", "%v", err)
	default:
	}
	clk.Step(time.Second)
	require.NoError(t, <-ended)
	require.ErrorContains(t, r.run(t.Context(), &corev1.Pod{}, restart{hook: &corev1.LifecycleHandler{}}, nil, ""), "none of exec, httpGet and sleep")
}

func TestStop(t *testing.T) {
	t.Parallel()
	exec := func(command ...string) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}
	}
	for _, tc := range []struct {
		name   string
		hook   *corev1.LifecycleHandler
		grace  time.Duration
		takes  time.Duration // of the hook
		ended  bool          // the container has, before
		calls  []string
		events []string
	}{
		{
			name: "a container gets the pod's grace period", grace: 30 * time.Second,
			calls: []string{"StopContainer app-1 30"}, events: []string{"Killing"},
		},
		{
			name: "the hook runs before, within the same grace period", hook: exec("drain"), grace: 30 * time.Second, takes: 12 * time.Second,
			calls: []string{"ExecSync app-1 drain", "StopContainer app-1 18"}, events: []string{"Killing"},
		},
		{
			name: "two seconds are left in any case", hook: exec("drain"), grace: 30 * time.Second, takes: 30 * time.Second,
			calls: []string{"ExecSync app-1 drain", "StopContainer app-1 2"}, events: []string{"Killing"},
		},
		{
			name: "a failed hook is reported and blocks nothing", hook: exec("exit", "1"), grace: 30 * time.Second,
			calls: []string{"ExecSync app-1 exit 1", "StopContainer app-1 30"}, events: []string{"Killing", "FailedPreStopHook"},
		},
		{
			name: "without any grace the hook is not run, and two seconds are left", hook: exec("drain"),
			calls: []string{"StopContainer app-1 2"}, events: []string{"Killing"},
		},
		{name: "a container that has ended meanwhile is left alone", hook: exec("drain"), grace: 30 * time.Second, ended: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			server := fake.Start(t, filepath.Join(dir, "crio.sock"), "cri-o")
			runtimes := cri.New(dir, "")
			t.Cleanup(runtimes.Close)
			require.NoError(t, runtimes.Refresh(t.Context()))
			clk := clocktesting.NewFakeClock(start)
			server.On("ExecSync", func(string) { clk.Step(tc.takes) })
			var sent testkit.Events
			r := &Reconciler{Runtimes: runtimes, Clock: clk, Events: &sent}
			o := observedOf(t, map[string]string{"app": "one"}, container("app"))
			r.memory.of(o.pod, start)
			s := restart{name: "app", id: server.Run(fake.Container{Name: "app"}), reason: reasonEnv, hook: tc.hook, grace: tc.grace}
			if tc.ended {
				server.End("app-1")
			}
			require.NoError(t, r.stop(t.Context(), o.pod, s))
			require.Equal(t, tc.calls, server.Calls())
			require.Equal(t, tc.events, sent.Reasons())
			if tc.ended {
				require.Empty(t, r.memory.of(o.pod, start).tries)
				return
			}
			require.Equal(t, map[string]try{"app": {1, clk.Now()}}, r.memory.of(o.pod, start).tries)
		})
	}
}

// A daemon that shuts down leaves the rest to the next one.
func TestAnInterruptedStopIsNoError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := fake.Start(t, filepath.Join(dir, "crio.sock"), "cri-o")
	runtimes := cri.New(dir, "")
	t.Cleanup(runtimes.Close)
	require.NoError(t, runtimes.Refresh(t.Context()))
	ctx, end := context.WithCancel(t.Context())
	server.On("ExecSync", func(string) { end() })
	var sent testkit.Events
	r := &Reconciler{Runtimes: runtimes, Clock: clocktesting.NewFakeClock(start), Events: &sent}
	o := observedOf(t, map[string]string{"app": "one"}, container("app"))
	s := restart{
		name: "app", id: server.Run(fake.Container{Name: "app"}), grace: time.Minute,
		hook: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"exit", "1"}}},
	}
	require.ErrorIs(t, r.stop(ctx, o.pod, s), context.Canceled)
	require.Equal(t, []string{"Killing"}, sent.Reasons())
	require.Equal(t, []string{"ExecSync app-1 exit 1"}, server.Calls())
}

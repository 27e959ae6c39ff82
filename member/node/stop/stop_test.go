package stop

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/fakecri"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// podOf returns a pod with one container that has this preStop hook.
func podOf(hook *corev1.LifecycleHandler, grace time.Duration) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(grace / time.Second)),
		Containers:                    []corev1.Container{{Name: "app", Lifecycle: &corev1.Lifecycle{PreStop: hook}}},
	}}
}

// The cases run one after the other, because they share a server.
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
	r := &Stopper{http: hookClient(&net.Dialer{})} // The server is on this host.
	for _, tc := range []struct {
		name string
		hook corev1.HTTPGetAction
		want string
		why  string
	}{
		{name: "the pod's address, with any successful response", hook: corev1.HTTPGetAction{Path: "/drain?now=1", Port: number}, want: "127.0.0.1:" + port + " /drain?now=1 "},
		{name: "a port by its name in the container", hook: corev1.HTTPGetAction{Port: intstr.FromString("admin")}, want: "127.0.0.1:" + port + " / "},
		{
			name: "headers, including the host", want: "shop.example /drain update",
			hook: corev1.HTTPGetAction{Path: "drain", Port: number, HTTPHeaders: []corev1.HTTPHeader{{Name: "host", Value: "shop.example"}, {Name: "X-Why", Value: "update"}}},
		},
		{name: "an unknown port", hook: corev1.HTTPGetAction{Port: intstr.FromString("web")}, why: "container app has no port web"},
		{name: "a server that does not speak TLS", hook: corev1.HTTPGetAction{Port: number, Scheme: corev1.URISchemeHTTPS}, why: "send the hook's request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := Container{Name: "app", Grace: time.Minute, Hook: &corev1.LifecycleHandler{HTTPGet: &tc.hook}}
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

func TestAHookReachesNeitherTheDaemonNorTheLinkOfItsNode(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { asked <- q.Host }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	s := New(nil, nil, nil)
	for name, tc := range map[string]struct{ host, podIP string }{
		"the loopback address":                    {"127.0.0.1", "10.0.0.1"},
		"another name of it":                      {"localhost", "10.0.0.1"},
		"the unspecified address":                 {"0.0.0.0", "10.0.0.1"},
		"an IPv4 address within IPv6":             {"::ffff:127.0.0.1", "10.0.0.1"},
		"the metadata service of a cloud":         {"169.254.169.254", "10.0.0.1"},
		"an address that the pod's status claims": {"", "127.0.0.1"},
	} {
		hook := &corev1.HTTPGetAction{Host: tc.host, Path: "/?token=secret", Port: intstr.Parse(port)}
		c := Container{Name: "app", Grace: time.Minute, Hook: &corev1.LifecycleHandler{HTTPGet: hook}}
		err := s.run(t.Context(), &corev1.Pod{Status: corev1.PodStatus{PodIP: tc.podIP}}, c, nil, "")
		require.ErrorContains(t, err, "doesn't connect to loopback, link-local or multicast address", name)
		require.NotContains(t, err.Error(), "secret", "events show the error")
	}
	require.Empty(t, asked)
}

func TestSleepHookLastsAsLongAsItSays(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(start)
	r := &Stopper{Clock: clk}
	ended := make(chan error, 1)
	s := Container{Name: "app", Grace: time.Minute, Hook: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}
	go func() { ended <- r.run(t.Context(), &corev1.Pod{}, s, nil, "") }()
	require.Eventually(t, clk.HasWaiters, testtimeout.Scale(time.Minute), time.Millisecond)
	clk.Step(4 * time.Second)
	select {
	case err := <-ended:
		require.FailNow(t, "it ended early", "%v", err)
	default:
	}
	clk.Step(time.Second)
	require.NoError(t, <-ended)
	require.ErrorContains(t, r.run(t.Context(), &corev1.Pod{}, Container{Hook: &corev1.LifecycleHandler{}}, nil, ""), "no handler: set exec, httpGet or sleep")
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
		takes  time.Duration // duration of the hook
		ended  bool          // the container has ended before
		pod    types.UID     // pod UID of the container
		calls  []string
		events []string
	}{
		{
			name: "a container gets the pod's grace period", grace: 30 * time.Second,
			calls: []string{"StopContainer app-1 30"}, events: []string{"Killing"}, pod: "u1",
		},
		{
			name: "the hook runs before, within the same grace period", hook: exec("drain"), grace: 30 * time.Second, takes: 12 * time.Second,
			calls: []string{"ExecSync app-1 drain", "StopContainer app-1 18"}, events: []string{"Killing"}, pod: "u1",
		},
		{
			name: "the container always gets at least two seconds", hook: exec("drain"), grace: 30 * time.Second, takes: 30 * time.Second,
			calls: []string{"ExecSync app-1 drain", "StopContainer app-1 2"}, events: []string{"Killing"}, pod: "u1",
		},
		{
			name: "a failed hook is reported and blocks nothing", hook: exec("exit", "1"), grace: 30 * time.Second,
			calls: []string{"ExecSync app-1 exit 1", "StopContainer app-1 30"}, events: []string{"Killing", "FailedPreStopHook"}, pod: "u1",
		},
		{
			name: "without a grace period the hook is not run, and two seconds are left", hook: exec("drain"),
			calls: []string{"StopContainer app-1 2"}, events: []string{"Killing"}, pod: "u1",
		},
		{name: "a container that has ended meanwhile is left alone", hook: exec("drain"), grace: 30 * time.Second, ended: true, pod: "u1"},
		{name: "a container of another pod is left alone", hook: exec("drain"), grace: 30 * time.Second, pod: "u2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			server := fakecri.Start(t, filepath.Join(dir, "crio.sock"), "cri-o")
			runtimes := cri.New(dir, "")
			t.Cleanup(runtimes.Close)
			require.NoError(t, runtimes.Refresh(t.Context()))
			clk := clocktesting.NewFakeClock(start)
			server.On("ExecSync", func(string) { clk.Step(tc.takes) })
			var sent testkit.Events
			id := server.Run(fakecri.Container{Name: "app", Pod: tc.pod})
			if tc.ended {
				server.End("app-1")
			}
			pod := podOf(tc.hook, tc.grace)
			began, err := New(runtimes, clk, &sent).Stop(t.Context(), pod, Of(pod, &pod.Spec.Containers[0], id, "it is time"))
			require.NoError(t, err)
			require.Equal(t, len(tc.calls) > 0, began)
			require.Equal(t, tc.calls, server.Calls())
			require.Equal(t, tc.events, sent.Reasons())
		})
	}
}

func TestAGracePeriodOfCenturiesIsNotOver(t *testing.T) {
	t.Parallel()
	pod := podOf(nil, 0)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(10_000_000_000)) // More than a time.Duration holds.
	require.Equal(t, timing.Seconds(10_000_000_000), Of(pod, &pod.Spec.Containers[0], "c1", "why").Grace)
}

// A daemon that shuts down leaves the rest to its successor.
func TestAnInterruptedStopIsNoError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := fakecri.Start(t, filepath.Join(dir, "crio.sock"), "cri-o")
	runtimes := cri.New(dir, "")
	t.Cleanup(runtimes.Close)
	require.NoError(t, runtimes.Refresh(t.Context()))
	ctx, end := context.WithCancel(t.Context())
	server.On("ExecSync", func(string) { end() })
	var sent testkit.Events
	pod := podOf(&corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"exit", "1"}}}, time.Minute)
	id := server.Run(fakecri.Container{Name: "app", Pod: pod.UID})
	began, err := New(runtimes, clocktesting.NewFakeClock(start), &sent).Stop(ctx, pod, Of(pod, &pod.Spec.Containers[0], id, "it is time"))
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, began)
	require.Equal(t, []string{"Killing"}, sent.Reasons())
	require.Equal(t, []string{"ExecSync app-1 exit 1"}, server.Calls())
}

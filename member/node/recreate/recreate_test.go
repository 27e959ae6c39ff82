package recreate

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/node/stop"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/fakecri"
)

const (
	pending    = appsv1beta1.RecreatePending
	recreating = appsv1beta1.RecreateRecreating
	succeeded  = appsv1beta1.RecreateSucceeded
	failed     = appsv1beta1.RecreateFailed
	completed  = appsv1beta1.RecreateCompleted
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// pod returns a pod with containers a and b, which have been running for an hour at noon.
func pod() *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for i, name := range []string{"a", "b"} {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Ready: true, ContainerID: idOf(name, i), State: running(-time.Hour),
		})
	}
	return p
}

// idOf returns the ID of a container the way the fake runtime numbers them.
func idOf(name string, i int) string { return fmt.Sprintf("cri-o://%s-%d", name, i+1) }

func running(since time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(since))}}
}

// ask returns a request for a and b, created a second before noon.
func ask(name string, change ...func(*request)) *request {
	r := &request{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(noon.Add(-time.Second)),
			Labels:      map[string]string{keys.RecreateNode: "node-1", keys.RecreatePodUID: "u1", keys.RecreateActive: "true"},
			Annotations: map[string]string{keys.RecreateRequester: "alice", keys.RecreateReason: "it leaks"},
		},
		Spec: appsv1beta1.ContainerRecreateRequestSpec{
			PodName:  "web",
			Strategy: &appsv1beta1.ContainerRecreateRequestStrategy{FailurePolicy: appsv1beta1.RecreateFail, TerminationGracePeriodSeconds: new(int64(7))},
		},
	}
	for i, name := range []string{"a", "b"} {
		r.Spec.Containers = append(r.Spec.Containers, appsv1beta1.ContainerRecreateRequestContainer{
			Name: name, StatusContext: &appsv1beta1.ContainerRecreateRequestContainerContext{ContainerID: idOf(name, i)},
		})
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// under makes a request one that began at noon, with states.
func under(states ...state) func(*request) {
	return func(r *request) {
		r.Status = newStatus(r, noon)
		for i := range states {
			states[i].Name = []string{"a", "b"}[i]
			r.Status.ContainerRecreateStates[i] = states[i]
		}
	}
}

func with(change func(*appsv1beta1.ContainerRecreateRequestStrategy)) func(*request) {
	return func(r *request) { change(r.Spec.Strategy) }
}

func TestPlan(t *testing.T) {
	t.Parallel()
	type strategy = appsv1beta1.ContainerRecreateRequestStrategy
	stopping := state{Phase: recreating, IsKilled: true, Message: "the container is being stopped"}
	ordered := with(func(s *strategy) { s.OrderedRecreate = true })
	graceful := with(func(s *strategy) { s.UnreadyGracePeriodSeconds = new(int64(5)) })
	endless := with(func(s *strategy) { s.UnreadyGracePeriodSeconds = new(int64(10_000_000_000)) })
	forced := with(func(s *strategy) { s.ForceRecreate = true })
	ignore := with(func(s *strategy) { s.FailurePolicy = appsv1beta1.RecreateIgnore })
	lasting := with(func(s *strategy) { s.MinStartedSeconds = 10 })
	graced := func(ago time.Duration) func(*request) {
		return func(r *request) {
			r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{
				Type: appsv1beta1.RecreatePreGrace, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-ago)),
			})
		}
	}
	renewed := func(at time.Duration, names ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for i := range p.Status.ContainerStatuses {
				for _, name := range names {
					if st := &p.Status.ContainerStatuses[i]; st.Name == name {
						st.ContainerID, st.State, st.RestartCount = "cri-o://"+name+"-9", running(at), 1
					}
				}
			}
		}
	}
	ended := func(policy corev1.RestartPolicy) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.RestartPolicy = policy
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		}
	}
	unready := func(p *corev1.Pod) { renewed(0, "a")(p); p.Status.ContainerStatuses[0].Ready = false }
	for _, tc := range []struct {
		name    string
		all     []*request
		pod     func(*corev1.Pod)
		step    string
		request string // the name of the request
		phase   appsv1beta1.ContainerRecreateRequestPhase
		states  []appsv1beta1.ContainerRecreateRequestPhase
		stops   string // the ID of the container
		message string
		waits   string
		recheck time.Duration
	}{
		{name: "without a request nothing happens"},
		{name: "a request begins", all: []*request{ask("x")}, step: stepBegin, request: "x", phase: recreating, states: []appsv1beta1.ContainerRecreateRequestPhase{pending, pending}},
		{
			name: "a second request waits, and reports that first", all: []*request{ask("y", func(r *request) { r.CreationTimestamp = metav1.NewTime(noon) }), ask("x")},
			step: stepQueue, request: "y", phase: pending, message: "waiting for ContainerRecreateRequest x of the same pod",
		},
		{
			name: "a request in progress comes before an older one", all: []*request{ask("x", func(r *request) { r.Status.Phase = pending }), ask("y", under())},
			step: stepReport, request: "y", phase: recreating, states: []appsv1beta1.ContainerRecreateRequestPhase{recreating, pending},
		},
		{
			name: "a waiting request begins when the other is complete", step: stepBegin, request: "y", phase: recreating,
			all: []*request{
				ask("x", func(r *request) { r.Status.Phase = completed }), ask("y", func(r *request) { r.Status.Phase, r.Status.Message = pending, "waits" }),
			},
			states: []appsv1beta1.ContainerRecreateRequestPhase{pending, pending},
		},
		{name: "a request for an earlier pod is left to the manager", all: []*request{ask("x", func(r *request) { r.Labels[keys.RecreatePodUID] = "u0" })}},
		{name: "a request for a pod that is being deleted is left to the manager", all: []*request{ask("x")}, pod: func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) }},
		{
			name: "a stop is recorded first", all: []*request{ask("x", under())}, step: stepReport, request: "x", phase: recreating,
			states: []appsv1beta1.ContainerRecreateRequestPhase{recreating, pending},
		},
		{name: "then the container is stopped", all: []*request{ask("x", under(stopping))}, step: stepStop, request: "x", stops: "cri-o://a-1"},
		{
			name: "then the next container, even if the first is not ready", all: []*request{ask("x", under(stopping))}, step: stepReport, request: "x", phase: recreating,
			pod: unready, states: []appsv1beta1.ContainerRecreateRequestPhase{recreating, recreating},
		},
		{
			name: "in order the next container waits until the first is ready", all: []*request{ask("x", ordered, under(stopping))}, step: stepReport, request: "x", phase: recreating,
			pod: unready, states: []appsv1beta1.ContainerRecreateRequestPhase{recreating, pending},
		},
		{
			name: "in order the next container waits for minStartedSeconds", all: []*request{ask("x", ordered, lasting, under(stopping))}, step: stepReport, request: "x", phase: recreating,
			pod: renewed(-8*time.Second, "a"), states: []appsv1beta1.ContainerRecreateRequestPhase{recreating, pending}, recheck: 2 * time.Second,
		},
		{
			name: "in order the next container follows", all: []*request{ask("x", ordered, under(stopping))}, step: stepReport, request: "x", phase: recreating,
			pod: renewed(0, "a"), states: []appsv1beta1.ContainerRecreateRequestPhase{succeeded, recreating},
		},
		{
			name: "the request is complete when all containers are restarted", all: []*request{ask("x", under(stopping, stopping))}, step: stepEnd, request: "x", phase: completed,
			pod: renewed(0, "a", "b"), states: []appsv1beta1.ContainerRecreateRequestPhase{recreating, recreating},
		},
		{
			name: "a container that was restarted after the request was created is not stopped", all: []*request{ask("x", under())}, step: stepReport, request: "x", phase: recreating,
			pod: renewed(-time.Second, "a"), states: []appsv1beta1.ContainerRecreateRequestPhase{succeeded, recreating},
		},
		{
			name: "a restarted container is stopped if forced", all: []*request{ask("x", forced, under())}, step: stepReport, request: "x", phase: recreating,
			pod: renewed(-time.Second, "a"), states: []appsv1beta1.ContainerRecreateRequestPhase{recreating, pending},
		},
		{
			name: "a forced container is stopped only once", all: []*request{ask("x", forced, under(stopping))}, step: stepReport, request: "x", phase: recreating,
			pod: renewed(0, "a"), states: []appsv1beta1.ContainerRecreateRequestPhase{succeeded, recreating},
		},
		{name: "nothing is stopped before the grace period", all: []*request{ask("x", graceful, under())}, request: "x", waits: reasonGrace},
		{name: "nothing is stopped during the grace period", all: []*request{ask("x", graceful, under(), graced(4*time.Second))}, request: "x", waits: reasonGrace, recheck: time.Second},
		{
			// A time.Duration has room for 292 years.
			name: "nothing is stopped during a grace period of 317 years", all: []*request{ask("x", endless, under(), graced(0))}, request: "x", waits: reasonGrace,
			recheck: timing.Seconds(10_000_000_000),
		},
		{
			name: "containers are stopped after the grace period", all: []*request{ask("x", graceful, under(), graced(5*time.Second))}, step: stepReport, request: "x", phase: recreating,
			states: []appsv1beta1.ContainerRecreateRequestPhase{recreating, pending},
		},
		{
			name: "a failure completes the request", all: []*request{ask("x", under(state{Phase: failed, Message: "busy"}))}, step: stepEnd, request: "x", phase: completed,
			message: "container a: busy", states: []appsv1beta1.ContainerRecreateRequestPhase{failed, pending},
		},
		{
			name: "a failure may be ignored", all: []*request{ask("x", ignore, under(state{Phase: failed, Message: "busy"}))}, step: stepReport, request: "x", phase: recreating,
			states: []appsv1beta1.ContainerRecreateRequestPhase{failed, recreating},
		},
		{
			name: "a failure may be ignored in order", all: []*request{ask("x", ignore, ordered, under(state{Phase: failed, Message: "busy"}))}, step: stepReport, request: "x", phase: recreating,
			states: []appsv1beta1.ContainerRecreateRequestPhase{failed, recreating},
		},
		{
			name: "a container that the kubelet starts is awaited", all: []*request{ask("x", ordered, under(stopping))}, step: stepReport, request: "x", phase: recreating,
			pod: ended(corev1.RestartPolicyAlways), states: []appsv1beta1.ContainerRecreateRequestPhase{recreating, pending},
		},
		{
			name: "a container that the kubelet does not start has failed", all: []*request{ask("x", under(stopping))}, step: stepEnd, request: "x", phase: completed,
			pod: ended(corev1.RestartPolicyOnFailure), states: []appsv1beta1.ContainerRecreateRequestPhase{failed, pending},
			message: "container a: the container has ended, and its restart policy OnFailure doesn't start it again",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := pod()
			if tc.pod != nil {
				tc.pod(p)
			}
			got := plan(p, tc.all, noon)
			require.Equal(t, tc.step, got.step)
			require.Equal(t, tc.waits, got.waits)
			require.Equal(t, tc.recheck, got.recheck)
			if tc.request == "" {
				require.Nil(t, got.request)
				return
			}
			require.Equal(t, tc.request, got.request.Name)
			if tc.stops != "" {
				require.Equal(t, stop.Container{
					Name: "a", ID: tc.stops, Why: "ContainerRecreateRequest x of alice: it leaks", Grace: 7 * time.Second,
				}, *got.stop)
				return
			}
			require.Nil(t, got.stop)
			if tc.step == "" {
				return
			}
			require.Equal(t, tc.phase, got.status.Phase)
			require.Equal(t, tc.message, got.status.Message)
			if tc.step == stepEnd && tc.message == "" {
				return // All have succeeded.
			}
			var states []appsv1beta1.ContainerRecreateRequestPhase
			for _, s := range got.status.ContainerRecreateStates {
				states = append(states, s.Phase)
			}
			require.Equal(t, tc.states, states)
		})
	}
}

// cluster is a node with its runtime, and the apiserver.
type cluster struct {
	client.Client
	server *fakecri.Runtime
	sent   testkit.Events
	r      *Reconciler
	clock  *clocktesting.FakeClock
}

func start(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{server: fakecri.Start(t, filepath.Join(dir, "crio.sock"), "cri-o"), clock: clocktesting.NewFakeClock(noon)}
	runtimes := cri.New(dir, "")
	t.Cleanup(runtimes.Close)
	require.NoError(t, runtimes.Refresh(t.Context()))
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	c.Client = clientfake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&request{}).WithObjects(testkit.Copies(objects)...).Build()
	c.r = &Reconciler{Client: c.Client, Live: c.Client, Node: "node-1", Stopper: stop.New(runtimes, c.clock, &c.sent)}
	return c
}

// reconcile runs reconciles until nothing more is written or stopped.
func (c *cluster) reconcile(t *testing.T, times int) {
	t.Helper()
	for range times {
		_, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}})
		require.NoError(t, err)
	}
}

func (c *cluster) request(t *testing.T, name string) *request {
	t.Helper()
	r := &request{}
	require.NoError(t, c.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: name}, r))
	return r
}

// renew does what the kubelet does when a container has ended.
func (c *cluster) renew(t *testing.T, name, id string) {
	t.Helper()
	c.clock.Step(time.Second)
	p := &corev1.Pod{}
	require.NoError(t, c.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, p))
	for i := range p.Status.ContainerStatuses {
		if st := &p.Status.ContainerStatuses[i]; st.Name == name {
			st.ContainerID, st.RestartCount = id, st.RestartCount+1
			st.State.Running.StartedAt = metav1.NewTime(c.clock.Now())
		}
	}
	require.NoError(t, c.Status().Update(t.Context(), p))
}

func TestContainersAreStoppedOneAfterAnotherAndOnce(t *testing.T) {
	t.Parallel()
	c := start(t, pod(), ask("x"))
	for _, name := range []string{"a", "b"} {
		c.server.Run(fakecri.Container{Name: name, Pod: "u1"})
	}
	c.reconcile(t, 3)
	require.Equal(t, []string{"StopContainer a-1 7"}, c.server.Calls())
	// A daemon that was restarted, and a kubelet that has not reported yet, make no difference.
	c.r.Stopper = stop.New(c.r.Stopper.Runtimes, c.clock, &c.sent)
	c.reconcile(t, 3)
	require.Len(t, c.server.Calls(), 1)
	c.renew(t, "a", c.server.Run(fakecri.Container{Name: "a", Pod: "u1"}))
	c.reconcile(t, 3)
	require.Equal(t, []string{"StopContainer a-1 7", "StopContainer b-2 7"}, c.server.Calls())
	c.renew(t, "b", c.server.Run(fakecri.Container{Name: "b", Pod: "u1"}))
	c.reconcile(t, 3)
	current := c.request(t, "x")
	require.Equal(t, completed, current.Status.Phase)
	require.NotNil(t, current.Status.CompletionTime)
	require.Equal(t, []state{{Name: "a", Phase: succeeded, IsKilled: true}, {Name: "b", Phase: succeeded, IsKilled: true}}, current.Status.ContainerRecreateStates)
	require.Equal(t, []string{"Killing", reasonStopping, "Killing", reasonStopping, reasonCompleted}, c.sent.Reasons())
	require.Len(t, c.server.Calls(), 2)
}

func TestAContainerThatCannotBeStoppedFails(t *testing.T) {
	t.Parallel()
	c := start(t, pod(), ask("x"))
	c.server.Run(fakecri.Container{Name: "a", Pod: "u1"})
	c.server.Fail("StopContainer", errors.New("busy"))
	c.reconcile(t, 5)
	current := c.request(t, "x")
	require.Equal(t, completed, current.Status.Phase)
	require.Contains(t, current.Status.Message, "container a: the container could not be stopped: ")
	require.Contains(t, current.Status.Message, "busy")
	require.Equal(t, failed, current.Status.ContainerRecreateStates[0].Phase)
}

// This daemon ignores a request on another node, or for another pod of the same name, and one that has completed meanwhile.
func TestOtherRequestsAreLeftAlone(t *testing.T) {
	t.Parallel()
	elsewhere := pod()
	elsewhere.Spec.NodeName = "node-2"
	for name, objects := range map[string][]client.Object{
		"a request of another node": {pod(), ask("x", func(r *request) { r.Labels[keys.RecreateNode] = "node-2" })},
		"a pod of another node":     {elsewhere, ask("x")},
		"another pod with the name": {pod(), ask("x", func(r *request) { r.Labels[keys.RecreatePodUID] = "u2" })},
		"no pod":                    {ask("x")},
		"no request":                {pod()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, objects...)
			c.server.Run(fakecri.Container{Name: "a", Pod: "u1"})
			c.reconcile(t, 3)
			require.Empty(t, c.server.Calls())
			require.Empty(t, c.sent.Reasons())
		})
	}
	c := start(t, pod(), ask("x", under(state{Phase: recreating, IsKilled: true, Message: "the container is being stopped"})))
	c.server.Run(fakecri.Container{Name: "a", Pod: "u1"})
	over := start(t, pod(), ask("x", func(r *request) { r.Status.Phase = completed }))
	c.r.Live = over.Client
	c.reconcile(t, 2)
	require.Empty(t, c.server.Calls())
}

func TestCauseSaysWhoAskedAndWhy(t *testing.T) {
	t.Parallel()
	r := ask("x")
	require.Equal(t, "ContainerRecreateRequest x of alice: it leaks", recreate.Cause(r))
	r.Annotations = nil
	require.Equal(t, "ContainerRecreateRequest x", recreate.Cause(r))
}

package containerrecreaterequest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func TestPlan(t *testing.T) {
	t.Parallel()
	type request = appsv1beta1.ContainerRecreateRequest
	under := func(r *request) { r.Status.Phase = appsv1beta1.RecreateRecreating }
	graceful := func(r *request) { under(r); r.Spec.Strategy.UnreadyGracePeriodSeconds = new(int64(5)) }
	held := func(r *request) { graceful(r); r.Finalizers = []string{keys.RecreateUnready} }
	done := func(r *request) {
		r.Status.Phase, r.Status.CompletionTime = appsv1beta1.RecreateCompleted, new(metav1.NewTime(noon.Add(-59*time.Second)))
		r.Spec.TTLSecondsAfterFinished = new(int32(60))
	}
	released := func(r *request) { done(r); delete(r.Labels, keys.RecreateActive) }
	blocked := func(p *corev1.Pod) {
		c := &p.Status.Conditions[1]
		c.Status, c.Message = corev1.ConditionFalse, `[{"userAgent":"ContainerRecreateRequest","key":"shop/a"}]`
	}
	for _, tc := range []struct {
		name    string
		age     time.Duration // Of the request.
		change  func(*request)
		pod     func(*corev1.Pod)
		gone    bool
		step    string
		reason  string
		message string // In the new status.
		recheck time.Duration
	}{
		{name: "the daemon has a minute to answer", age: 59 * time.Second, recheck: time.Second},
		{
			name: "without an answer for a minute the request is completed", age: time.Minute, step: stepComplete, reason: reasonNoDaemon,
			message: "daemon has not responded for a long time: does flotilla-noded run on node node-1?",
		},
		{name: "a request that waits for another one is not completed", age: time.Hour, change: func(r *request) { r.Status.Phase = appsv1beta1.RecreatePending }},
		{name: "a request whose pod is gone is completed", gone: true, step: stepComplete, reason: reasonPodGone, message: "pod has gone"},
		{
			name: "a request whose pod has ended is completed", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, step: stepComplete, reason: reasonPodGone,
			message: "pod has gone: its phase is Failed",
		},
		{name: "the deadline is awaited", age: 9 * time.Second, recheck: time.Second, change: func(r *request) {
			under(r)
			r.Spec.ActiveDeadlineSeconds = new(int64(10))
		}},
		{
			name: "a request is completed at its deadline", age: 10 * time.Second, step: stepComplete, reason: reasonDeadlineExceeded,
			message: "not all containers were restarted within the 10 seconds of activeDeadlineSeconds",
			change:  func(r *request) { under(r); r.Spec.ActiveDeadlineSeconds = new(int64(10)) },
		},
		{
			// A time.Duration can hold 292 years.
			name: "a deadline in 317 years has not passed", recheck: timing.Seconds(10_000_000_000),
			change: func(r *request) { under(r); r.Spec.ActiveDeadlineSeconds = new(int64(10_000_000_000)) },
		},
		{name: "a request in progress without a grace period writes nothing", change: under},
		{name: "a grace period begins with the finalizer", change: graceful, step: stepHold, reason: reasonGrace},
		{name: "after the finalizer the pod is made unready", change: held, step: stepUnready, reason: reasonGrace},
		{name: "the time since the pod is unready is reported", change: held, pod: blocked, step: stepReport, reason: reasonSnapshot},
		{
			name: "a request for a pod without the gate gets no finalizer", change: graceful, step: stepReport, reason: reasonSnapshot,
			pod: func(p *corev1.Pod) { p.Spec.ReadinessGates = nil },
		},
		{
			name: "a pod without the gate is not made unready", change: held, step: stepReport, reason: reasonSnapshot,
			pod: func(p *corev1.Pod) { p.Spec.ReadinessGates = nil },
		},
		{name: "containers started since are reported", change: under, step: stepReport, reason: reasonSnapshot, pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon)
		}},
		{name: "containers are reported after the daemon has completed the request", age: time.Hour, change: done, step: stepReport, reason: reasonSnapshot, pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-59 * time.Second))
		}},
		{name: "a container that was restarted again is reported again", age: time.Hour, step: stepReport, reason: reasonSnapshot, change: func(r *request) {
			done(r)
			r.Status.ContainerStatusSnapshot = []appsv1beta1.ContainerStatusSnapshot{{Name: "app", ContainerID: "containerd://app-before"}}
		}, pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-59 * time.Second))
		}},
		{name: "readiness is no longer reported after completion", age: time.Hour, step: stepRelease, reason: reasonOver, change: func(r *request) {
			done(r)
			r.Status.ContainerStatusSnapshot = []appsv1beta1.ContainerStatusSnapshot{{Name: "app", ContainerID: "containerd://app-0"}}
		}, pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-59 * time.Second))
		}},
		{name: "containers started after completion are not reported", age: time.Hour, change: done, step: stepRelease, reason: reasonOver, pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-58 * time.Second))
		}},
		{name: "after completion the pod is made ready first", change: done, pod: blocked, step: stepReady, reason: reasonOver},
		{name: "then the label is removed", change: done, step: stepRelease, reason: reasonOver},
		{name: "then the TTL starts", change: released, recheck: time.Second},
		{name: "the request is deleted after its TTL", change: func(r *request) { released(r); r.Spec.TTLSecondsAfterFinished = new(int32(59)) }, step: stepRemove, reason: reasonTTL},
		{name: "the request stays without a TTL", change: func(r *request) { released(r); r.Spec.TTLSecondsAfterFinished = nil }},
		{name: "a request that is being deleted makes the pod ready", pod: blocked, step: stepReady, reason: reasonDeleted, change: func(r *request) {
			held(r)
			r.DeletionTimestamp = new(metav1.NewTime(noon))
		}},
		{name: "a request that is being deleted is released", step: stepRelease, reason: reasonDeleted, change: func(r *request) { held(r); r.DeletionTimestamp = new(metav1.NewTime(noon)) }},
		{name: "a request that is being deleted is released even if its pod is gone", gone: true, step: stepRelease, reason: reasonDeleted, change: func(r *request) {
			held(r)
			r.DeletionTimestamp = new(metav1.NewTime(noon))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := observed{request: again("a"), pod: target()}
			o.request.CreationTimestamp = metav1.NewTime(noon.Add(-tc.age))
			if tc.change != nil {
				tc.change(o.request)
			}
			if tc.pod != nil {
				tc.pod(o.pod)
			}
			if tc.gone {
				o.pod = nil
			}
			p := plan(o, noon)
			require.Equal(t, []string{tc.step, tc.reason}, []string{p.step, p.reason})
			require.Equal(t, tc.recheck, p.recheck)
			require.Equal(t, tc.message, p.status.Message)
			require.Equal(t, tc.step == stepComplete || tc.step == stepReport && recreate.Done(o.request), p.status.CompletionTime != nil)
		})
	}
}

func TestReportHasTheGraceAndTheContainers(t *testing.T) {
	t.Parallel()
	o := observed{request: again("a"), pod: target()}
	o.request.CreationTimestamp, o.request.Finalizers = metav1.NewTime(noon), []string{keys.RecreateUnready}
	o.request.Status.Phase, o.request.Spec.Strategy.UnreadyGracePeriodSeconds = appsv1beta1.RecreateRecreating, new(int64(5))
	o.pod.Spec.ReadinessGates = nil
	o.pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon)
	p := plan(o, noon.Add(time.Second))
	require.Equal(t, []appsv1beta1.ContainerStatusSnapshot{{Name: "app", Ready: true, ContainerID: "containerd://app-0"}}, p.status.ContainerStatusSnapshot)
	require.Len(t, p.status.Conditions, 1)
	require.Equal(t, appsv1beta1.RecreatePreGrace, p.status.Conditions[0].Type)
	require.Equal(t, metav1.ConditionFalse, p.status.Conditions[0].Status, "the pod is ready")
	require.Equal(t, recreate.NoReadinessGate, p.status.Conditions[0].Reason)
	require.Equal(t, noon.Add(time.Second), p.status.Conditions[0].LastTransitionTime.UTC())
	o.request.Status = p.status
	require.Equal(t, planned{}, plan(o, noon.Add(time.Hour)))
}

func TestHoldersAreOfThePodsNamespace(t *testing.T) {
	t.Parallel()
	pod := target()
	pod.Status.Conditions[1].Message = `[{"userAgent":"ContainerRecreateRequest","key":"shop/a"},{"userAgent":"ContainerRecreateRequest","key":"else/b"},` +
		`{"userAgent":"Lifecycle","key":"shop/c"},{"userAgent":"ContainerRecreateRequest","key":"d"}]`
	require.Len(t, holders(pod), 1)
	require.Equal(t, "shop/a", holders(pod)[0].String())
	require.True(t, lifecycle.Blocks(pod, recreate.Agent, "shop/a"))
	require.Empty(t, holders(&corev1.Node{}))
}

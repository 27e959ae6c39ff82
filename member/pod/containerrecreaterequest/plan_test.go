package containerrecreaterequest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/recreate"
	"github.com/flotilla-io/flotilla/pkg/seconds"
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
			name: "and no longer", age: time.Minute, step: stepComplete, reason: ReasonNoDaemon,
			message: "daemon has not responded for a long time: does flotilla-noded run on node node-1?",
		},
		{name: "one that waits for another is not given up", age: time.Hour, change: func(r *request) { r.Status.Phase = appsv1beta1.RecreatePending }},
		{name: "a pod that is gone completes it", gone: true, step: stepComplete, reason: ReasonPodGone, message: "pod has gone"},
		{
			name: "so does one that has ended", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, step: stepComplete, reason: ReasonPodGone,
			message: "pod has gone: its phase is Failed",
		},
		{name: "the deadline is awaited", age: 9 * time.Second, recheck: time.Second, change: func(r *request) {
			under(r)
			r.Spec.ActiveDeadlineSeconds = new(int64(10))
		}},
		{
			name: "at the deadline it is complete", age: 10 * time.Second, step: stepComplete, reason: ReasonDeadlineExceeded,
			message: "not all containers were restarted within the 10 seconds of activeDeadlineSeconds",
			change:  func(r *request) { under(r); r.Spec.ActiveDeadlineSeconds = new(int64(10)) },
		},
		{
			// A time.Duration can hold 292 years.
			name: "a deadline in 317 years is not over", recheck: seconds.Duration(10_000_000_000),
			change: func(r *request) { under(r); r.Spec.ActiveDeadlineSeconds = new(int64(10_000_000_000)) },
		},
		{name: "one under way without a grace period writes nothing", change: under},
		{name: "a grace period begins with the finalizer", change: graceful, step: stepHold, reason: reasonGrace},
		{name: "then the pod is not ready", change: held, step: stepUnready, reason: reasonGrace},
		{name: "then since when is reported", change: held, pod: blocked, step: stepReport, reason: reasonSnapshot},
		{
			name: "one without the gate is not held", change: graceful, step: stepReport, reason: reasonSnapshot,
			pod: func(p *corev1.Pod) { p.Spec.ReadinessGates = nil },
		},
		{
			name: "a pod without the gate is not made unready", change: held, step: stepReport, reason: reasonSnapshot,
			pod: func(p *corev1.Pod) { p.Spec.ReadinessGates = nil },
		},
		{name: "what was started since is reported", change: under, step: stepReport, reason: reasonSnapshot, pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon)
		}},
		{name: "also when the daemon has completed it first", age: time.Hour, change: done, step: stepReport, reason: reasonSnapshot, pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-59 * time.Second))
		}},
		{name: "of a container that was restarted once more since it was reported", age: time.Hour, step: stepReport, reason: reasonSnapshot, change: func(r *request) {
			done(r)
			r.Status.ContainerStatusSnapshot = []appsv1beta1.ContainerStatusSnapshot{{Name: "app", ContainerID: "containerd://app-before"}}
		}, pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-59 * time.Second))
		}},
		{name: "but not whether it is ready any more", age: time.Hour, step: stepRelease, reason: reasonOver, change: func(r *request) {
			done(r)
			r.Status.ContainerStatusSnapshot = []appsv1beta1.ContainerStatusSnapshot{{Name: "app", ContainerID: "containerd://app-0"}}
		}, pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-59 * time.Second))
		}},
		{name: "what was started after its completion is not the request's", age: time.Hour, change: done, step: stepRelease, reason: reasonOver, pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-58 * time.Second))
		}},
		{name: "when it is complete the pod is ready first", change: done, pod: blocked, step: stepReady, reason: reasonOver},
		{name: "then the label goes", change: done, step: stepRelease, reason: reasonOver},
		{name: "then its TTL runs", change: released, recheck: time.Second},
		{name: "and it is removed", change: func(r *request) { released(r); r.Spec.TTLSecondsAfterFinished = new(int32(59)) }, step: stepRemove, reason: reasonTTL},
		{name: "without a TTL it stays", change: func(r *request) { released(r); r.Spec.TTLSecondsAfterFinished = nil }},
		{name: "one that is deleted makes the pod ready", pod: blocked, step: stepReady, reason: reasonDeleted, change: func(r *request) {
			held(r)
			r.DeletionTimestamp = new(metav1.NewTime(noon))
		}},
		{name: "and lets go", step: stepRelease, reason: reasonDeleted, change: func(r *request) { held(r); r.DeletionTimestamp = new(metav1.NewTime(noon)) }},
		{name: "also when its pod is gone", gone: true, step: stepRelease, reason: reasonDeleted, change: func(r *request) {
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

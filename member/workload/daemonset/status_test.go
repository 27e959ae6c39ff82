package daemonset

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

func conditions(s appsv1beta1.DaemonSetStatus) map[string]string {
	out := map[string]string{}
	for _, c := range report.ButReadiness(s.Conditions, podcontrol.WorkloadConditions().Form) {
		out[string(c.Type)] = c.Reason + ": " + c.Message
	}
	return out
}

// failed returns results of failed steps of one kind.
func failed(kind rollout.StepKind, reason rollout.Reason, why string) map[podcontrol.Class]podcontrol.Result {
	return map[podcontrol.Class]podcontrol.Result{{Kind: kind, Reason: reason}: {Err: errors.New(why)}}
}

func TestStatusCountsNodesByTheirOldestPod(t *testing.T) {
	t.Parallel()
	full := sim.Node("n5")
	full.Spec.Taints = []corev1.Taint{noSchedule()}
	nodes := []*corev1.Node{sim.Node("n1"), sim.Node("n2"), sim.Node("n3"), sim.Node("n4"), full, sim.Node("n6")}
	o := observedOf(t, web(), nodes...).on(
		"n1 old", "n1 newer", // the oldest one counts
		"n2 unready",
		"n3 pending",
		"n4 terminating", // counts until it is gone, by its readiness
		"n5",             // does not fit
		"n9",             // is gone
	)
	o.set.Generation = 7
	s, events := status(o, plan(o, now), podcontrol.Results{}, now)
	require.Empty(t, events)
	s.Conditions = report.ButReadiness(s.Conditions, podcontrol.WorkloadConditions().Form)
	require.Empty(t, cmp.Diff(appsv1beta1.DaemonSetStatus{
		ObservedGeneration: 7, UpdateRevision: revision.Short(o.wanted.Name),
		DesiredNumberScheduled: 5, CurrentNumberScheduled: 4, NumberMisscheduled: 1,
		NumberReady: 2, NumberAvailable: 2, NumberUnavailable: 3, UpdatedNumberScheduled: 3,
	}, s))
}

func TestStatusOfFailuresAndHolds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		pods       []string
		set        func(*appsv1beta1.DaemonSet)
		world      func(*observed)
		done       func(*podcontrol.Results)
		conditions map[string]string
		events     []string
	}{
		{name: "a set that is up to date has no condition", pods: []string{"n1"}},
		{
			name: "a pod that can't be created", done: func(d *podcontrol.Results) { d.Steps = failed(rollout.StepCreate, "", "quota exceeded") },
			conditions: map[string]string{"FailedCreatePod": "WriteFailed: quota exceeded"}, events: []string{"FailedCreate"},
		},
		{
			name: "a pod that can't be updated", pods: []string{"n1"}, done: func(d *podcontrol.Results) { d.Steps = failed(rollout.StepDelete, rollout.ReasonRecreate, "refused") },
			conditions: map[string]string{"FailedUpdatePod": "WriteFailed: refused"}, events: []string{"FailedUpdatePodReCreate"},
		},
		{
			name: "a condition is removed when its cause is gone", pods: []string{"n1"}, set: func(s *appsv1beta1.DaemonSet) {
				s.Status.Conditions = []appsv1beta1.WorkloadCondition{{Type: appsv1beta1.WorkloadFailedCreatePod, Status: corev1.ConditionTrue}}
			},
		},
		{
			name: "a pod for which there is no room on its node", pods: []string{"n1 pending"}, world: func(o *observed) {
				o.pods[0].Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/9 nodes: Insufficient cpu",
				}}
			},
			conditions: map[string]string{
				"FailedCreatePod": "FailedPlacement: pods can't be scheduled on their nodes: 1 pod(s), such as p0 for n1: 0/9 nodes: Insufficient cpu",
			},
			events: []string{"FailedPlacement"},
		},
		{
			name: "an overlap", pods: []string{"n1"}, world: func(o *observed) { o.overlap = ownership.Overlap{Count: 1, First: "x without controller"} },
			conditions: map[string]string{
				"SelectorOverlap": "PodsOfOthers: the selector matches pods with another controller or none, which are left alone: create a new DaemonSet with a narrower selector: " +
					"1 pod(s), such as x without controller",
			},
			events: []string{"SelectorOverlap"},
		},
		{
			name: "a selector of all pods", pods: []string{"n1"}, set: func(s *appsv1beta1.DaemonSet) { s.Spec.Selector = &metav1.LabelSelector{} },
			conditions: map[string]string{
				"FailedUpdatePod": "InvalidSpec: selector: it selects all pods: create a new DaemonSet with a narrower selector",
			},
			events: []string{"SelectingAll", "FailedUpdate"},
		},
		{
			name: "pods that had ended", pods: []string{"n1"}, done: func(d *podcontrol.Results) {
				d.Steps = map[podcontrol.Class]podcontrol.Result{{Kind: rollout.StepDelete, Reason: rollout.ReasonEnded}: {Done: []string{"p9"}}}
			},
			events: []string{"SuccessfulDelete", "FailedDaemonPod"},
		},
		{
			name: "a stalled update", pods: []string{"n1 old", "n2 unready", "n3 unready"},
			conditions: map[string]string{
				"FailedUpdatePod": "Budget: no pod has become available since 2026-11-21T09:00:00Z: 1 old pod(s) waiting: 1 available, at least 2 must remain",
			},
			events: []string{"FailedUpdate"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := observedOf(t, web(), sim.Node("n1"), sim.Node("n2"), sim.Node("n3")).on(tc.pods...)
			if tc.set != nil {
				tc.set(o.set)
			}
			if tc.world != nil {
				tc.world(&o)
			}
			var d podcontrol.Results
			if tc.done != nil {
				tc.done(&d)
			}
			s, events := status(o, plan(o, now), d, now)
			if tc.conditions == nil {
				tc.conditions = map[string]string{}
			}
			require.Empty(t, cmp.Diff(tc.conditions, conditions(s)))
			require.Equal(t, tc.events, testkit.Reasons(events))
			require.Equal(t, o.set.Generation, s.ObservedGeneration, "written also with errors, as conditions report them")

			o.set.Status = s
			_, events = status(o, plan(o, now), podcontrol.Results{}, now)
			if tc.done == nil {
				require.Empty(t, events, "a lasting failure is reported once")
			}
		})
	}
}

func TestAnUnansweredHookIsReportedWithItsTime(t *testing.T) {
	t.Parallel()
	o := observedOf(t, held(), sim.Node("n1")).on("n1 old held")
	pod := o.pods[0]
	pod.Labels["lifecycle.apps.kruise.io/state"] = "PreparingDelete"
	pod.Annotations["lifecycle.apps.kruise.io/timestamp"] = start.Format(time.RFC3339)
	s, _ := status(o, plan(o, now), podcontrol.Results{}, now)
	require.Equal(t, map[string]string{
		"FailedUpdatePod": "Hook: p0 has been waiting for its hook in PreparingDelete since 2026-11-21T09:00:00Z: " +
			"1 pod(s) waiting for their lifecycle hooks",
	}, conditions(s))
}

func TestReadinessNamesTheBudgetThatRefuses(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web(), sim.Node("n1")).on("n1 old")
	r := podcontrol.Results{Waits: podcontrol.WaitsFor([]string{podwebhook.BudgetMessage("web", "no")})}
	s, _ := status(o, plan(o, now), r, now)
	ready := report.OnlyReadiness(s.Conditions, podcontrol.WorkloadConditions().Form)
	require.Len(t, ready, 2)
	for _, c := range ready {
		require.Equal(t, "Refused", c.Reason)
		require.Equal(t, "pods wait for PodUnavailableBudget web, which allows no more of them to become unavailable now", c.Message)
	}
}

func TestStatusNamesNoRevisionThatWasNotCreated(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web(), sim.Node("n1"))
	o.set.Status.UpdateRevision = "before"
	s, _ := status(o, plan(o, now), podcontrol.Results{Revision: errors.New("refused")}, now)
	require.Equal(t, "before", s.UpdateRevision)
	s, events := status(o, plan(o, now), podcontrol.Results{Collided: true}, now)
	require.Equal(t, int32(1), *s.CollisionCount)
	require.Empty(t, events)
}

func TestWhatChangesCountsOnly(t *testing.T) {
	t.Parallel()
	old := appsv1beta1.DaemonSetStatus{DesiredNumberScheduled: 5, ObservedGeneration: 1}
	changed := old
	changed.NumberReady, changed.CurrentNumberScheduled = 3, 4
	require.True(t, countsOnly(old, changed))
	changed.ObservedGeneration = 2
	require.False(t, countsOnly(old, changed), "a new observedGeneration is written at once")
	changed.ObservedGeneration, changed.NumberAvailable, changed.UpdatedNumberScheduled = 1, 5, 5
	require.False(t, countsOnly(old, changed), "a completed rollout is written at once")
}

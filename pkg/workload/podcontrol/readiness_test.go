package podcontrol_test

import (
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
)

// TestKstatusTellsHowFarAWorkloadIs covers what StatefulSets and DaemonSets report; CloneSets differ only in their deadline.
func TestKstatusTellsHowFarAWorkloadIs(t *testing.T) {
	t.Parallel()
	pods := func(available ...bool) []podset.Pod {
		var out []podset.Pod
		for _, ready := range available {
			out = append(out, podset.Pod{Pod: rollout.Pod{Available: ready}})
		}
		return out
	}
	held := func(reason rollout.Reason) []rollout.Hold { return []rollout.Hold{{Reason: reason, Pods: 1}} }
	for _, tt := range []struct {
		name          string
		plan          podset.Plan
		scale, update report.Failure
		refused       []string
		deleted       bool
		want          kstatus.Status
	}{
		{name: "all pods are available", plan: podset.Plan{Pods: pods(true, true)}, want: kstatus.CurrentStatus},
		{name: "no pods are wanted", want: kstatus.CurrentStatus},
		{name: "a pod can't be scheduled", plan: podset.Plan{Pods: pods(true, false)}, want: kstatus.InProgressStatus},
		{name: "a pod is being created", plan: podset.Plan{Pods: pods(true), Steps: []podset.Step{{}}}, want: kstatus.InProgressStatus},
		{name: "a pod waits for the budget", plan: podset.Plan{Pods: pods(true), Holds: held(rollout.ReasonBudget)}, want: kstatus.InProgressStatus},
		{name: "new pods wait for the pod webhook", plan: podset.Plan{Holds: held(rollout.ReasonPodWebhook)}, want: kstatus.InProgressStatus},
		{name: "the update is paused", plan: podset.Plan{Pods: pods(true), Holds: held(rollout.ReasonPaused)}, want: kstatus.InProgressStatus},
		{name: "a rejected write is retried", scale: report.Failure{Reason: report.ReasonWriteFailed, Message: "quota"}, want: kstatus.InProgressStatus},
		{name: "an image can't be pulled", update: report.Failure{Reason: podset.ReasonStalled, Message: "image"}, want: kstatus.FailedStatus},
		{
			name: "a rejection doesn't hide a stall", scale: report.Failure{Reason: report.ReasonWriteFailed, Message: "quota"},
			update: report.Failure{Reason: podset.ReasonStalled, Message: "image"}, want: kstatus.FailedStatus,
		},
		{
			name: "a step that a budget refuses is retried", plan: podset.Plan{Pods: pods(true), Steps: []podset.Step{{}}},
			refused: []string{"p00: PodUnavailableBudget web: none"}, want: kstatus.InProgressStatus,
		},
		{name: "the workload is being deleted", plan: podset.Plan{Pods: pods(true)}, deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, o := range []struct {
				meta *metav1.ObjectMeta
				put  func(report.Readiness) kstatus.Status
			}{set(t), daemonSet(t)} {
				o.meta.Generation = 1
				if tt.deleted {
					o.meta.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
				}
				require.Equal(t, tt.want, o.put(podcontrol.Readiness(&tt.plan, tt.scale, tt.update, podcontrol.WaitsFor(tt.refused))))
			}
		})
	}
}

type object = struct {
	meta *metav1.ObjectMeta
	put  func(report.Readiness) kstatus.Status
}

func set(t *testing.T) object {
	t.Helper()
	s := &appsv1beta1.StatefulSet{}
	return object{&s.ObjectMeta, func(r report.Readiness) kstatus.Status {
		s.Status.ObservedGeneration = 1
		s.Status.Conditions = report.PutReadiness(nil, podcontrol.WorkloadConditions().Form, r, time.Unix(1000, 0))
		return testkit.Kstatus(t, s)
	}}
}

func daemonSet(t *testing.T) object {
	t.Helper()
	s := &appsv1beta1.DaemonSet{}
	return object{&s.ObjectMeta, func(r report.Readiness) kstatus.Status {
		s.Status.ObservedGeneration = 1
		s.Status.Conditions = report.PutReadiness(nil, podcontrol.WorkloadConditions().Form, r, time.Unix(1000, 0))
		return testkit.Kstatus(t, s)
	}}
}

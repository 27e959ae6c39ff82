package broadcastjob

import (
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAJobIs(t *testing.T) {
	t.Parallel()
	ends := func(condition appsv1beta1.BroadcastJobConditionType) planned {
		return planned{ending: &ending{condition: condition, reason: string(condition), why: "all pods have ended"}}
	}
	invalid := planned{}
	invalid.InvalidSpec = "parallelism"
	once, always := testkit.BroadcastJob("once").Obj(), testkit.BroadcastJob("always").Never().Obj()
	both := map[string]bool{"n1": true, "n2": true}
	for _, tt := range []struct {
		name string
		job  *appsv1beta1.BroadcastJob
		plan planned
		want kstatus.Status
	}{
		{"pods run", once, planned{desired: 2, active: 2}, kstatus.InProgressStatus},
		{"pods are still to be created", once, planned{desired: 2}, kstatus.InProgressStatus},
		{"the job is paused", once, planned{desired: 2, phase: appsv1beta1.BroadcastJobPaused}, kstatus.InProgressStatus},
		{"the job is complete", once, ends(appsv1beta1.BroadcastJobConditionComplete), kstatus.CurrentStatus},
		{"the job has failed", once, ends(appsv1beta1.BroadcastJobConditionFailed), kstatus.FailedStatus},
		{"the spec is invalid", once, invalid, kstatus.FailedStatus},
		{"a job that never ends waits for a node", always, planned{desired: 3, succeeded: both}, kstatus.InProgressStatus},
		{"a job that never ends has run on all nodes", always, planned{desired: 2, succeeded: both}, kstatus.CurrentStatus},
		{"a job that never ends has a failed pod", always, planned{desired: 3, succeeded: both, failed: 1}, kstatus.FailedStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			job := tt.job.DeepCopy()
			job.Generation, job.Status.ObservedGeneration = 1, 1
			job.Status.Conditions = report.PutReadiness(nil, conditionForm(), readiness(job, &tt.plan), job.CreationTimestamp.Time)
			require.Equal(t, tt.want, testkit.Kstatus(t, job))
		})
	}
}

func TestAGenerationOfAJobThatHasEndedIsObserved(t *testing.T) {
	t.Parallel()
	job := testkit.BroadcastJob("once").Obj()
	job.Generation, job.Status.ObservedGeneration, job.Status.Phase = 1, 1, appsv1beta1.BroadcastJobCompleted
	job.Status.Conditions = report.PutReadiness(nil, conditionForm(), report.Ready("the job is complete"), job.CreationTimestamp.Time)
	now := job.CreationTimestamp.Time
	o := observed{job: job}
	job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
	job.Generation = 2
	require.Equal(t, kstatus.InProgressStatus, testkit.Kstatus(t, job))
	job.Status, _ = status(o, plan(o, now), applied{}, false, now)
	require.Equal(t, kstatus.CurrentStatus, testkit.Kstatus(t, job))
}

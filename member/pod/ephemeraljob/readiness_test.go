package ephemeraljob

import (
	"errors"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAnEphemeralJobIs(t *testing.T) {
	t.Parallel()
	ends := func(phase appsv1alpha1.EphemeralJobPhase, by conditionType) planned {
		return planned{phase: phase, ending: &ending{phase: phase, condition: by, reason: string(by), why: "all have ended"}}
	}
	refused := applied{Results: podcontrol.Results{Revision: errors.New("no")}}
	for _, tt := range []struct {
		name    string
		before  appsv1alpha1.EphemeralJobPhase
		plan    planned
		done    applied
		deleted bool
		want    kstatus.Status
	}{
		{name: "there are no pods", plan: planned{phase: appsv1alpha1.EphemeralJobWaiting, empty: "no pod is selected"}, want: kstatus.InProgressStatus},
		{name: "containers are running", plan: planned{phase: appsv1alpha1.EphemeralJobRunning, counts: counts{running: 1}}, want: kstatus.InProgressStatus},
		{name: "it is paused", plan: planned{phase: appsv1alpha1.EphemeralJobPause}, want: kstatus.InProgressStatus},
		{name: "a rejected write is retried", plan: planned{phase: appsv1alpha1.EphemeralJobWaiting}, done: refused, want: kstatus.InProgressStatus},
		{name: "its spec is invalid", plan: planned{phase: appsv1alpha1.EphemeralJobError, invalidSpec: "no containers"}, want: kstatus.FailedStatus},
		{name: "it has succeeded", plan: ends(appsv1alpha1.EphemeralJobSucceeded, appsv1alpha1.EphemeralJobConditionSucceeded), want: kstatus.CurrentStatus},
		{name: "it has failed", plan: ends(appsv1alpha1.EphemeralJobFailed, appsv1alpha1.EphemeralJobConditionFailed), want: kstatus.FailedStatus},
		{name: "it had succeeded with OpenKruise", before: appsv1alpha1.EphemeralJobSucceeded, want: kstatus.CurrentStatus},
		{name: "it had failed with OpenKruise", before: appsv1alpha1.EphemeralJobFailed, want: kstatus.FailedStatus},
		{name: "it is being deleted", deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			job := &appsv1alpha1.EphemeralJob{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			job.Status.Phase = tt.before
			job.Status, _ = status(observed{job: job}, tt.plan, tt.done, noon)
			if tt.deleted {
				job.DeletionTimestamp = &metav1.Time{Time: noon}
			}
			require.Equal(t, tt.want, testkit.Kstatus(t, job))
		})
	}
}

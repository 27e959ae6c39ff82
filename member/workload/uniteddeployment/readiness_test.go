package uniteddeployment

import (
	"errors"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/spread"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAUnitedDeploymentIs(t *testing.T) {
	t.Parallel()
	statusOf := func(replicas, available, updated int32) appsv1beta1.UnitedDeploymentStatus {
		return appsv1beta1.UnitedDeploymentStatus{Replicas: replicas, AvailableReplicas: available, UpdatedReadyReplicas: updated}
	}
	for _, tt := range []struct {
		name    string
		status  appsv1beta1.UnitedDeploymentStatus
		plan    planned
		done    applied
		deleted bool
		want    kstatus.Status
	}{
		{name: "all pods are available", status: statusOf(2, 2, 2), plan: planned{wanted: 2}, want: kstatus.CurrentStatus},
		{name: "no pod can be scheduled", status: statusOf(2, 0, 0), plan: planned{wanted: 2}, want: kstatus.InProgressStatus},
		{name: "a pod is old", status: statusOf(2, 2, 1), plan: planned{wanted: 2}, want: kstatus.InProgressStatus},
		{name: "there are too many pods", status: statusOf(3, 3, 2), plan: planned{wanted: 2}, want: kstatus.InProgressStatus},
		{name: "a subset has no workload", status: statusOf(0, 0, 0), plan: planned{subsets: []target{{}}}, want: kstatus.InProgressStatus},
		{name: "a workload is written later", status: statusOf(2, 2, 2), plan: planned{wanted: 2}, done: applied{late: true}, want: kstatus.InProgressStatus},
		{name: "a write is refused, and tried again", status: statusOf(2, 2, 2), plan: planned{wanted: 2}, done: applied{write: errors.New("no")}, want: kstatus.InProgressStatus},
		{name: "the template can't be rendered", plan: planned{}, done: applied{render: errors.New("no")}, want: kstatus.FailedStatus},
		{name: "the template is invalid", plan: planned{fault: &fault{"InvalidSpec", "no"}}, want: kstatus.FailedStatus},
		{
			name: "no subset takes a replica", status: statusOf(2, 2, 2), plan: planned{wanted: 2, division: spread.Division{Unallocated: 1, Why: "all are full"}},
			want: kstatus.FailedStatus,
		},
		{name: "the object is being deleted", status: statusOf(2, 2, 2), plan: planned{wanted: 2}, deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ud := &appsv1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: tt.status}
			ud.Status.ObservedGeneration = 1
			ud.Status.Conditions = report.PutReadiness(nil, united.Form(), readiness(&ud.Status, tt.plan, tt.done), now)
			if tt.deleted {
				ud.DeletionTimestamp = &metav1.Time{Time: now}
			}
			require.Equal(t, tt.want, testkit.Kstatus(t, ud))
		})
	}
}

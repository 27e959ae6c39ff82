package uniteddeployment

import (
	"errors"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAUnitedDeploymentOfAHubIs(t *testing.T) {
	t.Parallel()
	problem := func(reason string) []placement.Problem {
		return []placement.Problem{{Cluster: "east", Reason: reason, Message: "no"}}
	}
	for _, tt := range []struct {
		name     string
		placed   string
		ready    int32
		plan     planned
		problems []placement.Problem
		err      error
		deleted  bool
		want     kstatus.Status
	}{
		{name: "all replicas are available", ready: 2, want: kstatus.CurrentStatus},
		{name: "a replica is not available", ready: 1, want: kstatus.InProgressStatus},
		{name: "no cluster fits", placed: reasonNoCluster, ready: 2, want: kstatus.FailedStatus},
		{name: "the numbers don't add up", placed: "X", ready: 2, plan: planned{allocation: allot.Allocation{Why: "too many"}}, want: kstatus.FailedStatus},
		{name: "replicas are moved", placed: "X", ready: 2, want: kstatus.InProgressStatus},
		{name: "a cluster refuses its part", ready: 2, problems: problem("ForeignObject"), want: kstatus.FailedStatus},
		{name: "a cluster doesn't answer", ready: 2, problems: problem(placement.ReasonUnreachable), want: kstatus.InProgressStatus},
		{name: "withdrawals are paced", ready: 2, problems: problem(placement.ReasonPaced), want: kstatus.InProgressStatus},
		{name: "withdrawals wait for an administrator", ready: 2, problems: problem(placement.ReasonPaused), want: kstatus.FailedStatus},
		{name: "a write fails", ready: 2, err: errors.New("no"), want: kstatus.InProgressStatus},
		{name: "the object is being deleted", ready: 2, deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ud := &appsv1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			s := &ud.Status
			s.ObservedGeneration, s.Replicas, s.AvailableReplicas = 1, 2, tt.ready
			status := corev1.ConditionTrue
			if tt.placed != "" {
				status = corev1.ConditionFalse
			}
			s.Conditions = []appsv1beta1.UnitedDeploymentCondition{
				{Type: appsv1beta1.SubsetProvisioned, Status: corev1.ConditionTrue},
				{Type: appsv1beta1.SubsetUpdated, Status: corev1.ConditionTrue},
				{Type: appsv1beta1.UnitedDeploymentPlaced, Status: status, Reason: tt.placed, Message: "no"},
			}
			if tt.deleted {
				ud.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
				tt.plan.Deleting = "it is being deleted"
			}
			s.Conditions = report.PutReadiness(s.Conditions, united.Form(), readiness(tt.plan, tt.err, tt.problems, s), time.Unix(1000, 0))
			require.Equal(t, tt.want, testkit.Kstatus(t, ud))
		})
	}
}

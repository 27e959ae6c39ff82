package workloadspread

import (
	"errors"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAWorkloadSpreadOfAHubIs(t *testing.T) {
	t.Parallel()
	problem := func(reason string) *placement.Problem {
		return &placement.Problem{Cluster: "east", Reason: reason, Message: "no"}
	}
	for _, tt := range []struct {
		name    string
		placed  string
		plan    planned
		problem *placement.Problem
		err     error
		deleted bool
		want    kstatus.Status
	}{
		{name: "all replicas are placed", want: kstatus.CurrentStatus},
		{name: "replicas are moved", placed: "Moving", want: kstatus.InProgressStatus},
		{name: "the target does not exist yet", placed: reasonTargetGone, plan: planned{inactive: problem(reasonTargetGone)}, want: kstatus.InProgressStatus},
		{name: "the target is not a template", placed: reasonTargetNoTemplate, plan: planned{inactive: problem(reasonTargetNoTemplate)}, want: kstatus.FailedStatus},
		{name: "no cluster fits", placed: reasonNoCluster, want: kstatus.FailedStatus},
		{name: "a cluster refuses its slice", problem: problem("ForeignObject"), want: kstatus.FailedStatus},
		{name: "a cluster doesn't answer", problem: problem(placement.ReasonUnreachable), want: kstatus.InProgressStatus},
		{name: "a write fails", err: errors.New("no"), want: kstatus.InProgressStatus},
		{name: "the object is being deleted", deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			ws.Status.ObservedGeneration = 1
			condition := metav1.Condition{Type: appsv1beta1.WorkloadSpreadPlaced, Status: metav1.ConditionTrue, Reason: "Placed"}
			if tt.placed != "" {
				condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, tt.placed, "no"
			}
			ws.Status.Conditions = []metav1.Condition{condition}
			var problems []placement.Problem
			if tt.problem != nil {
				problems = append(problems, *tt.problem)
			}
			if tt.deleted {
				ws.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
			}
			r := readiness(&observed{ws: ws}, tt.plan, applied{slices: placement.Summary{Result: placement.Result{Err: tt.err}}}, problems, &ws.Status)
			ws.Status.Conditions = report.SetReadiness(ws.Status.Conditions, r, 1, time.Unix(1000, 0))
			require.Equal(t, tt.want, testkit.Kstatus(t, ws))
		})
	}
}

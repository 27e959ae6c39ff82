package resourcedistribution

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

func TestKstatusTellsHowFarAResourceDistributionOfAHubIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		problem string
		err     error
		lagging []string
		stale   map[string]bool
		failed  int32
		deleted bool
		want    kstatus.Status
	}{
		{name: "all clusters have all copies", want: kstatus.CurrentStatus},
		{name: "a cluster has not acted yet", lagging: []string{"east"}, want: kstatus.InProgressStatus},
		{name: "a cluster doesn't answer", stale: map[string]bool{"east": true}, want: kstatus.InProgressStatus},
		{name: "a namespace lacks its copy", failed: 1, want: kstatus.InProgressStatus},
		{name: "a cluster has another object in its place", problem: "ConflictOccurred", want: kstatus.FailedStatus},
		{name: "a cluster can't be reached", problem: placement.ReasonUnreachable, want: kstatus.InProgressStatus},
		{name: "a write fails", err: errors.New("no"), want: kstatus.InProgressStatus},
		{name: "the object is being deleted", deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rd := &appsv1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			rd.Status.ObservedGeneration, rd.Status.Failed = 1, tt.failed
			var problems []placement.Problem
			if tt.problem != "" {
				problems = []placement.Problem{{Cluster: "east", Reason: tt.problem, Message: "no"}}
			}
			if tt.deleted {
				rd.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
			}
			r := readiness(&rd.Status, planned{}, placement.Summary{Result: placement.Result{Err: tt.err}, Lagging: tt.lagging, Stale: tt.stale}, problems)
			rd.Status.Conditions = report.PutReadiness(nil, report.DistributionForm(), r, time.Unix(1000, 0))
			require.Equal(t, tt.want, testkit.Kstatus(t, rd))
		})
	}
}

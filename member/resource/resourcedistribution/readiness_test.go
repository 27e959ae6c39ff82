package resourcedistribution

import (
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAResourceDistributionIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		failing appsv1beta1.ResourceDistributionConditionType
		failed  int32
		deleted bool
		want    kstatus.Status
	}{
		{name: "all namespaces have their copy", want: kstatus.CurrentStatus},
		{name: "a namespace is still to get it", failed: 1, want: kstatus.InProgressStatus},
		{name: "a write is refused, and tried again", failing: appsv1beta1.ResourceDistributionCreateResourceFailed, failed: 1, want: kstatus.InProgressStatus},
		{name: "another object is in the copy's place", failing: appsv1beta1.ResourceDistributionConflictOccurred, failed: 1, want: kstatus.FailedStatus},
		{name: "a namespace doesn't exist", failing: appsv1beta1.ResourceDistributionNamespaceNotExists, failed: 1, want: kstatus.FailedStatus},
		{name: "the source is missing", failing: appsv1beta1.ResourceDistributionGetResourceFailed, want: kstatus.FailedStatus},
		{name: "the ResourceDistribution is being deleted", deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rd := &appsv1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			rd.Status.ObservedGeneration, rd.Status.Failed = 1, tt.failed
			if tt.failing != "" {
				rd.Status.Conditions = []appsv1beta1.ResourceDistributionCondition{{Type: tt.failing, Status: metav1.ConditionTrue, Reason: "Because"}}
			}
			rd.Status.Conditions = report.PutReadiness(rd.Status.Conditions, report.DistributionForm(), readiness(&rd.Status), noon)
			if tt.deleted {
				rd.DeletionTimestamp = &metav1.Time{Time: noon}
			}
			require.Equal(t, tt.want, testkit.Kstatus(t, rd))
		})
	}
}

package advancedcronjob

import (
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAnAdvancedCronJobIs(t *testing.T) {
	t.Parallel()
	cron := &appsv1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	statusOf := func(p planned) kstatus.Status {
		cron.Status.ObservedGeneration = 1
		cron.Status.Conditions = report.SetReadiness(cron.Status.Conditions, readiness(&p), 1, at(0, 1, 0))
		return testkit.Kstatus(t, cron)
	}
	require.Equal(t, kstatus.CurrentStatus, statusOf(planned{}))
	require.Equal(t, kstatus.FailedStatus, statusOf(planned{invalid: "spec.schedule"}))
	require.Equal(t, kstatus.FailedStatus, statusOf(planned{future: true}))
	require.Equal(t, kstatus.CurrentStatus, statusOf(planned{}))
	cron.Generation = 2
	require.Equal(t, kstatus.InProgressStatus, testkit.Kstatus(t, cron))
	cron.DeletionTimestamp = &metav1.Time{Time: at(0, 2, 0)}
	require.Equal(t, kstatus.TerminatingStatus, testkit.Kstatus(t, cron))
}

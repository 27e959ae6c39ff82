package podunavailablebudget

import (
	"errors"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsWhetherABudgetIsInForce(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	b := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	kstatusOf := func(p planned) kstatus.Status {
		b.Status, _ = status(observed{budget: b}, p, at)
		return testkit.Kstatus(t, b)
	}
	require.Equal(t, kstatus.CurrentStatus, kstatusOf(planned{total: 3, desired: 3, current: 3}))
	require.Equal(t, kstatus.CurrentStatus, kstatusOf(planned{total: 3, desired: 3, current: 1}), "missing pods are reported in the status of their workload")
	require.Equal(t, kstatus.FailedStatus, kstatusOf(planned{fault: errors.New("the scale of the target may not be read")}))
	require.Equal(t, kstatus.CurrentStatus, kstatusOf(planned{total: 3, desired: 3, current: 3}), "the budget is no longer stalled")
	b.Generation++
	require.Equal(t, kstatus.InProgressStatus, testkit.Kstatus(t, b), "the pods have not been counted by the new spec yet")
	b.DeletionTimestamp = &metav1.Time{Time: at}
	require.Equal(t, kstatus.TerminatingStatus, testkit.Kstatus(t, b))
}

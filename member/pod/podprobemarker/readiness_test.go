package podprobemarker

import (
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsWhetherAPodProbeMarkerIsInForce(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	m := &appsv1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	m.Status = plan(observed{marker: m}, at).status
	require.Equal(t, kstatus.CurrentStatus, testkit.Kstatus(t, m))
	require.Equal(t, m.Status, plan(observed{marker: m}, at.Add(time.Hour)).status, "the status is written only once")
	m.Generation++
	require.Equal(t, kstatus.InProgressStatus, testkit.Kstatus(t, m))
	m.DeletionTimestamp = &metav1.Time{Time: at}
	require.Equal(t, kstatus.TerminatingStatus, testkit.Kstatus(t, m))
}

package recreate

import (
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAContainerRecreateRequestIs(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	state := func(phases ...appsv1beta1.ContainerRecreateRequestPhase) []appsv1beta1.ContainerRecreateRequestState {
		var out []appsv1beta1.ContainerRecreateRequestState
		for _, p := range phases {
			out = append(out, appsv1beta1.ContainerRecreateRequestState{Name: "app", Phase: p})
		}
		return out
	}
	type s = appsv1beta1.ContainerRecreateRequestStatus
	for _, tt := range []struct {
		name    string
		status  s
		deleted bool
		want    kstatus.Status
	}{
		{name: "waiting for another request", status: s{Phase: appsv1beta1.RecreatePending, Message: "waits"}, want: kstatus.InProgressStatus},
		{name: "containers are being stopped", status: s{Phase: appsv1beta1.RecreateRecreating, ContainerRecreateStates: state("Recreating")}, want: kstatus.InProgressStatus},
		{
			name: "all containers were restarted", status: s{Phase: appsv1beta1.RecreateCompleted, ContainerRecreateStates: state("Succeeded", "Succeeded")},
			want: kstatus.CurrentStatus,
		},
		{
			name: "a container could not be stopped", status: s{Phase: appsv1beta1.RecreateCompleted, Message: "container app: no", ContainerRecreateStates: state("Failed")},
			want: kstatus.FailedStatus,
		},
		{name: "a container was not started", status: s{Phase: appsv1beta1.RecreateCompleted, ContainerRecreateStates: state("Succeeded", "Pending")}, want: kstatus.FailedStatus},
		{name: "no response from a daemon", status: s{Phase: appsv1beta1.RecreateCompleted, Message: "daemon has not responded"}, want: kstatus.FailedStatus},
		{name: "the request is being deleted", status: s{Phase: appsv1beta1.RecreateRecreating}, deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &appsv1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: tt.status}
			Observe(r, at)
			if tt.deleted {
				r.DeletionTimestamp = &metav1.Time{Time: at}
			}
			require.Equal(t, tt.want, testkit.Kstatus(t, r))
		})
	}
}

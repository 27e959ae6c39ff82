package persistentpodstate

import (
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAPersistentPodStateIs(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	for _, tt := range []struct {
		name     string
		inactive *fault
		deleted  bool
		want     kstatus.Status
	}{
		{name: "it is active", want: kstatus.CurrentStatus},
		{name: "its target does not exist yet", inactive: &fault{reasonTargetGone, "it does not exist"}, want: kstatus.InProgressStatus},
		{name: "its pods are not sent to the webhook yet", inactive: &fault{reasonNotSent, "not yet"}, want: kstatus.InProgressStatus},
		{name: "another PersistentPodState has its target", inactive: &fault{reasonTargetTaken, "by another"}, want: kstatus.FailedStatus},
		{name: "its target may not be read", inactive: &fault{reasonTargetDenied, "forbidden"}, want: kstatus.FailedStatus},
		{name: "its target is of another kind", inactive: &fault{reasonNotAllowed, "not listed"}, want: kstatus.FailedStatus},
		{name: "it is being deleted", deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := &appsv1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			o.Status, _ = status(observed{pps: o}, planned{inactive: tt.inactive}, at)
			if tt.deleted {
				o.DeletionTimestamp = &metav1.Time{Time: at}
			}
			require.Equal(t, tt.want, testkit.Kstatus(t, o))
		})
	}
}

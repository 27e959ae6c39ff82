package imagelistpulljob

import (
	"errors"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAnImageListPullJobIs(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	job := func(status appsv1beta1.ImagePullJobStatus) map[string]*appsv1beta1.ImagePullJob {
		status.StartTime = new(metav1.NewTime(at))
		return map[string]*appsv1beta1.ImagePullJob{"nginx:1": {ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: status}}
	}
	over := new(metav1.NewTime(at))
	for _, tt := range []struct {
		name    string
		jobs    map[string]*appsv1beta1.ImagePullJob
		never   bool
		done    applied
		deleted bool
		want    kstatus.Status
	}{
		{name: "no job is created yet", want: kstatus.InProgressStatus},
		{name: "a job is refused", done: applied{err: errors.New("no")}, want: kstatus.InProgressStatus},
		{name: "nodes pull", jobs: job(appsv1beta1.ImagePullJobStatus{Desired: 2, Active: 1, Succeeded: 1}), want: kstatus.InProgressStatus},
		{name: "a node has failed", jobs: job(appsv1beta1.ImagePullJobStatus{Desired: 2, Active: 1, Failed: 1}), want: kstatus.FailedStatus},
		{name: "the list has completed", jobs: job(appsv1beta1.ImagePullJobStatus{Desired: 2, Succeeded: 2, CompletionTime: over}), want: kstatus.CurrentStatus},
		{
			name: "the list has completed with a failed node", jobs: job(appsv1beta1.ImagePullJobStatus{Desired: 2, Succeeded: 1, Failed: 1, CompletionTime: over}),
			want: kstatus.FailedStatus,
		},
		{name: "the list never ends, and all nodes have the images", jobs: job(appsv1beta1.ImagePullJobStatus{Desired: 2, Succeeded: 2}), never: true, want: kstatus.CurrentStatus},
		{name: "the list is being deleted", deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := &appsv1beta1.ImageListPullJob{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			l.Spec.Images = []string{"nginx:1"}
			if tt.never {
				l.Spec.CompletionPolicy.Type = appsv1beta1.ImagePullJobNever
			}
			l.Status = status(observed{list: l}, planned{kept: tt.jobs}, tt.done, at)
			if tt.deleted {
				l.DeletionTimestamp = over
			}
			require.Equal(t, tt.want, testkit.Kstatus(t, l))
			if l.Status.CompletionTime != nil {
				require.Equal(t, l.Status, status(observed{list: l}, planned{}, applied{}, at), "a complete list stays as it is")
			}
		})
	}
}

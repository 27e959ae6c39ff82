package imagepulljob

import (
	"errors"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarAnImagePullJobIs(t *testing.T) {
	t.Parallel()
	before := appsv1beta1.ImagePullJobStatus{CompletionTime: new(metav1.NewTime(noon)), Desired: 2, Succeeded: 2}
	failed := before
	failed.Succeeded, failed.Failed = 1, 1
	for _, tt := range []struct {
		name    string
		status  appsv1beta1.ImagePullJobStatus
		plan    planned
		done    applied
		deleted bool
		want    kstatus.Status
	}{
		{name: "a node pulls", plan: planned{desired: 2, active: 1, succeeded: 1}, want: kstatus.InProgressStatus},
		{name: "a node has not begun", plan: planned{desired: 1, pending: 1}, want: kstatus.InProgressStatus},
		{name: "a write fails, and is tried again", plan: planned{desired: 1, active: 1}, done: applied{err: errors.New("no")}, want: kstatus.InProgressStatus},
		{name: "a node has failed, while another pulls", plan: planned{desired: 2, active: 1, failed: []string{"n1"}}, want: kstatus.FailedStatus},
		{name: "the image can't be read", plan: planned{invalid: "spec.image: no"}, want: kstatus.FailedStatus},
		{name: "a node is named that doesn't exist", plan: planned{desired: 1, succeeded: 1, unknown: []string{"n2"}, complete: true}, want: kstatus.FailedStatus},
		{name: "the job has completed", plan: planned{desired: 2, succeeded: 2, complete: true}, want: kstatus.CurrentStatus},
		{name: "the job has completed with a failed node", plan: planned{desired: 2, succeeded: 1, failed: []string{"n1"}, complete: true}, want: kstatus.FailedStatus},
		{name: "the job never ends, and all nodes have the image", plan: planned{desired: 2, succeeded: 2}, want: kstatus.CurrentStatus},
		{name: "the job had completed with OpenKruise", status: before, want: kstatus.CurrentStatus},
		{name: "the job had completed with OpenKruise and a failed node", status: failed, want: kstatus.FailedStatus},
		{name: "the job is being deleted", plan: planned{desired: 1}, deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			job := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: tt.status}
			job.Status, _ = status(observed{job: job}, tt.plan, tt.done, noon)
			if tt.deleted {
				job.DeletionTimestamp = &metav1.Time{Time: noon}
			}
			require.Equal(t, tt.want, testkit.Kstatus(t, job))
			if again, _ := status(observed{job: job}, planned{}, applied{}, noon); job.Status.CompletionTime != nil {
				require.Equal(t, job.Status, again, "a complete job stays as it is")
			}
		})
	}
}

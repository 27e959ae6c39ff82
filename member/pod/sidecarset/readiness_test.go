package sidecarset

import (
	"errors"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarASidecarSetIs(t *testing.T) {
	t.Parallel()
	revised := applied{revised: true}
	held := func(reason rollout.Reason) updates { return updates{holds: []rollout.Hold{{Reason: reason, Pods: 1}}} }
	unselected := func(n int) updates {
		out := held(rollout.ReasonNotInPlace)
		out.unselected, out.holds[0].Pods = n, 2
		return out
	}
	for _, tt := range []struct {
		name    string
		plan    planned
		done    applied
		deleted bool
		want    kstatus.Status
	}{
		{name: "there are no pods", done: revised, want: kstatus.CurrentStatus},
		{name: "all pods have the sidecars", plan: planned{matched: 2, updated: 2, updatedReady: 2}, done: revised, want: kstatus.CurrentStatus},
		{name: "the partition keeps a pod", plan: planned{matched: 2, updated: 1, updatedReady: 1}, done: revised, want: kstatus.CurrentStatus},
		{name: "the selector of the update leaves out two pods", plan: planned{matched: 2, updates: unselected(2)}, done: revised, want: kstatus.CurrentStatus},
		{
			name: "another pod can't be updated yet", want: kstatus.InProgressStatus,
			plan: planned{matched: 2, updates: unselected(1)}, done: revised,
		},
		{name: "a pod is older than the SidecarSet", plan: planned{uninjected: []uninjectedPods{{why: "it is older", count: 1}}}, done: revised, want: kstatus.CurrentStatus},
		{name: "the revision is not written yet", want: kstatus.InProgressStatus},
		{name: "a pod is updated now", plan: planned{matched: 1, updates: updates{images: []write{{}}}}, done: revised, want: kstatus.InProgressStatus},
		{name: "a pod waits for the budget", plan: planned{matched: 1, updates: held(rollout.ReasonBudget)}, done: revised, want: kstatus.InProgressStatus},
		{name: "an updated pod is not ready", plan: planned{matched: 1, updated: 1}, done: revised, want: kstatus.InProgressStatus},
		{name: "a budget refuses an update", done: applied{revised: true, refusedNamespaces: sets.New("a")}, want: kstatus.InProgressStatus},
		{name: "a write fails", done: applied{revised: true, err: errors.New("no")}, want: kstatus.InProgressStatus},
		{name: "the update is paused", plan: planned{matched: 1, updates: held(rollout.ReasonPaused)}, done: revised, want: kstatus.InProgressStatus},
		{name: "a pod needs more than images", plan: planned{updates: updates{needRecreate: []string{"a"}}}, done: revised, want: kstatus.FailedStatus},
		{name: "it is being deleted", done: revised, deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := &appsv1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			set.Spec.UpdateStrategy.Type = appsv1beta1.SidecarSetRollingUpdate
			tt.plan.revision.Revision = &appsv1.ControllerRevision{}
			set.Status, _ = status(observed{set: set}, tt.plan, tt.done, noon)
			if tt.deleted {
				set.DeletionTimestamp = &metav1.Time{Time: noon}
			}
			require.Equal(t, tt.want, testkit.Kstatus(t, set))
		})
	}
}

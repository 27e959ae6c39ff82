package broadcastjob

import (
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// leftBehind returns a job that OpenKruise has completed on three nodes, with its pod on one of them. With runs it is observed while the job
// is still running.
func leftBehind(t *testing.T, runs bool) observed {
	t.Helper()
	o := observed{job: &appsv1beta1.BroadcastJob{}}
	_, o.pods = testkit.ReadTakeover(t, "testdata/openkruise.yaml", o.job)
	require.Len(t, o.pods, 1)
	Registration().Fields.Strip(o.pods[0])
	for _, name := range []string{"kwok-0", "kwok-1", "kwok-2"} {
		o.nodes = append(o.nodes, sim.Node(name))
	}
	if runs {
		s := &o.job.Status
		s.Phase, s.CompletionTime, s.Conditions, s.Succeeded, s.Active = appsv1beta1.BroadcastJobRunning, nil, nil, 0, 1
		o.pods[0].Status.Phase = corev1.PodRunning
	}
	return o
}

func TestAJobThatOpenKruiseHasCompletedStaysAsItIs(t *testing.T) {
	t.Parallel()
	o := leftBehind(t, false)
	at := o.job.Status.CompletionTime.Add(time.Minute)
	p := plan(o, at)
	require.Empty(t, p.Steps)
	require.Equal(t, 59*time.Minute, p.Recheck, "it is deleted after its TTL, not before")
	require.False(t, p.remove)
	s, events := status(o, p, applied{job: o.job}, false, at)
	require.Empty(t, events)
	require.Equal(t, []string{"kwok-2"}, s.SucceededNodes)
	job := o.job.DeepCopy()
	job.Status = s
	require.Equal(t, kstatus.CurrentStatus, testkit.Kstatus(t, job))
	s.SucceededNodes, s.ObservedGeneration, s.Conditions = nil, 0, report.ButReadiness(s.Conditions, conditionForm())
	require.Equal(t, o.job.Status, s, "all counts stay, though two pods are gone")
	require.True(t, plan(o, at.Add(time.Hour)).remove)
}

func TestARunOfOpenKruiseGoesOn(t *testing.T) {
	t.Parallel()
	o := leftBehind(t, true)
	p := plan(o, o.job.Status.StartTime.Add(time.Second))
	creates := p.Of(rollout.StepCreate)
	require.Len(t, creates, 1, "parallelism is 2, and one of its pods runs")
	require.Equal(t, "kwok-0", creates[0].Slot)
	require.Len(t, p.Steps, 1, "its pod is neither replaced nor deleted")
	o.pods[0].Status.Phase = corev1.PodSucceeded
	p = plan(o, o.job.Status.StartTime.Add(time.Second))
	require.Len(t, p.Of(rollout.StepCreate), 2)
	require.NotContains(t, []string{p.Steps[0].Slot, p.Steps[1].Slot}, "kwok-2", "the node's pod has succeeded")
}

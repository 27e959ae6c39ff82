package broadcastjob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

func TestNoPodIsCreatedBeforeItIsSentToThePodWebhook(t *testing.T) {
	t.Parallel()
	o := observed{job: scan().Obj(), nodes: []*corev1.Node{sim.Node("n1"), sim.Node("n2")}, awaited: podwebhook.Wait{Why: "not sent", Left: time.Second}}
	p := plan(o, noon)
	require.Empty(t, p.Of(rollout.StepCreate))
	require.Equal(t, []rollout.Hold{{Reason: rollout.ReasonPodWebhook, Pods: 2, Why: "2 pod(s) waiting: not sent"}}, p.Holds)
	require.Positive(t, p.Recheck)
	require.LessOrEqual(t, p.Recheck, time.Second, "the wait is limited")
	require.Empty(t, p.Stalled.Reason)
	require.Equal(t, report.Reconciling("PodWebhook", "new pods wait until the pod webhook receives them"), readiness(o.job, &p))
	o.awaited = podwebhook.Wait{}
	p = plan(o, noon)
	require.Len(t, p.Of(rollout.StepCreate), 2)
}

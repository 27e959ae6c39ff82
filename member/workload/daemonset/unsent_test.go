package daemonset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/pkg/podstep"
	"github.com/flotilla-io/flotilla/pkg/rollout"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

func TestNoPodIsCreatedBeforeItIsSentToThePodWebhook(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web(), sim.Node("n1"), sim.Node("n2"))
	o.awaited = podstep.Wait{Why: "not sent", Left: time.Second}
	p := plan(o, now)
	require.Empty(t, p.Of(rollout.StepCreate))
	require.Equal(t, []rollout.Hold{{Reason: rollout.ReasonPodWebhook, Pods: 2, Why: "2 pods wait: not sent"}}, p.Holds)
	require.Positive(t, p.Recheck)
	require.LessOrEqual(t, p.Recheck, time.Second, "it waits no longer, whatever becomes of it")
	require.Empty(t, p.Stalled.Reason)
	o.awaited = podstep.Wait{}
	p = plan(o, now)
	require.Len(t, p.Of(rollout.StepCreate), 2)
}

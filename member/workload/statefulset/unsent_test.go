package statefulset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

func TestNoPodIsCreatedBeforeItIsSentToThePodWebhook(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web(2).PVCs("data"))
	o.awaited = podwebhook.Wait{Why: "not sent", Left: time.Second}
	p := plan(o.observed, now)
	require.Empty(t, p.Of(rollout.StepCreate))
	require.Equal(t, []rollout.Hold{{Reason: rollout.ReasonPodWebhook, Pods: 1, Why: "1 pod(s) waiting: not sent"}}, p.Holds)
	require.Positive(t, p.Recheck)
	require.LessOrEqual(t, p.Recheck, time.Second, "the wait is limited")
	require.Empty(t, p.Stalled.Reason)
	require.Empty(t, p.createPVCs, "no PVC is created")
	o.awaited = podwebhook.Wait{}
	p = plan(o.observed, now)
	require.Len(t, p.Of(rollout.StepCreate), 1)
}

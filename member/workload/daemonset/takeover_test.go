package daemonset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// leftBehind returns what OpenKruise left in a cluster, as it would be observed. Its pods determine the nodes.
func leftBehind(t *testing.T) observed {
	t.Helper()
	o := observed{set: &appsv1beta1.DaemonSet{}}
	o.history, o.pods = testkit.ReadTakeover(t, "testdata/openkruise.yaml", o.set)
	for _, p := range o.pods {
		Registration().Fields.Strip(p)
		o.nodes = append(o.nodes, sim.Node(p.Spec.NodeName))
	}
	revision.Sort(o.history)
	var err error
	o.wanted, err = wantedRevision(o.set)
	require.NoError(t, err)
	return o
}

func TestPlanOfATakeOver(t *testing.T) {
	t.Parallel()
	o := leftBehind(t)
	at := time.Date(2026, 11, 21, 9, 2, 0, 0, time.UTC)
	p := plan(o, at)
	require.Equal(t, revision.Keep, p.Revision.Change, "no revision is written")
	require.Same(t, o.history[1], p.Revision.Revision, "the revision is found by its data, as our hash would differ")
	require.NotEqual(t, o.wanted.Name, p.Revision.Revision.Name)
	for _, r := range append(o.history, o.wanted) {
		require.Equal(t, map[string]string{"app": "take-ds", "controller-revision-hash": revision.Short(r.Name)}, r.Labels,
			"one selector finds all revisions, theirs and ours")
	}
	require.Empty(t, summary(p), "no pod is restarted, re-created or written")
	got, events := status(o, p, podcontrol.Results{}, at)
	require.Empty(t, events)
	require.Equal(t, o.set.Status.UpdateRevision, got.UpdateRevision)
	n := int32(len(o.pods))
	require.Equal(t, [4]int32{n, n, n, n},
		[4]int32{got.CurrentNumberScheduled, got.NumberReady, got.NumberAvailable, got.UpdatedNumberScheduled})
}

func TestATakenOverSetIsUpdatedInPlace(t *testing.T) {
	t.Parallel()
	o := leftBehind(t)
	o.set.Spec.Template.Spec.Containers[0].Image = "nginx:1.16.0"
	var err error
	o.wanted, err = wantedRevision(o.set)
	require.NoError(t, err)
	p := plan(o, time.Date(2026, 11, 21, 9, 2, 0, 0, time.UTC))
	require.Equal(t, revision.Create, p.Revision.Change)
	require.NotEmpty(t, p.Of(rollout.StepMarkUnready))
	require.Empty(t, p.Of(rollout.StepDelete))
}

package uniteddeployment

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

const rolloutVersion = "version"

// newRollout returns a settled world with 12 replicas of version a in three clusters, of which 4 may be unavailable.
func newRollout(t *testing.T) *world {
	t.Helper()
	w := newWorld(12, selecting(map[string]string{"tier": "web"}))
	w.o.ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{
		Type: appsv1beta1.WavesUpdateStrategyType, Rollout: &pods.RolloutPlan{MaxUnavailable: new(intstr.FromInt32(4))},
	}
	for _, name := range []string{"east", "north", "west"} {
		w.cluster(name, map[string]string{"tier": "web"})
	}
	w.version("a")
	w.rollOut(t, nil)
	require.Equal(t, map[string]string{"east": "a", "north": "a", "west": "a"}, w.versions())
	w.o.ud.Status.CurrentRevision = w.o.history[0].Name
	return w
}

// version changes the template.
func (w *world) version(name string) {
	w.o.ud.Spec.Template = appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{rolloutVersion: name}},
	}}
}

// versions returns the versions that the slices have, by cluster.
func (w *world) versions() map[string]string {
	out := map[string]string{}
	for cluster, slice := range w.slices {
		out[cluster] = slice.Spec.Template.CloneSetTemplate.Labels[rolloutVersion]
	}
	return out
}

// step plans once, and writes the revision and the rows. It returns how many rows were written.
func (w *world) step(t *testing.T) (planned, int) {
	t.Helper()
	p := plan(w.o)
	if p.revision.Change == revision.Create {
		w.o.history = append(w.o.history, p.revision.Revision)
	}
	return p, w.write(t, p)
}

// rollOut plans and lets the members apply until nothing is written, and calls look after each plan.
func (w *world) rollOut(t *testing.T, look func(p planned)) (writes int) {
	t.Helper()
	for range 50 {
		p, n := w.step(t)
		if look != nil {
			look(p)
		}
		if n == 0 {
			return writes
		}
		writes += n
		w.applyRows()
	}
	require.Fail(t, "the rollout doesn't end")
	return writes
}

func TestAClusterGetsATemplateInItsTurn(t *testing.T) {
	t.Parallel()
	w := newRollout(t)
	w.version("b")
	p, writes := w.step(t)
	require.Equal(t, 1, writes, "the budget is for one cluster at a time")
	require.Equal(t, map[string]string{"east": "b", "north": "a", "west": "a"}, w.versions())
	require.Equal(t, map[string]int32{"s-east": 4}, w.slices["east"].Spec.UpdateStrategy.ManualUpdate.MaxUnavailable)
	require.Nil(t, w.slices["west"].Spec.UpdateStrategy.ManualUpdate.MaxUnavailable)
	require.Equal(t, p.revision.Revision.Name, w.o.Rows["east"].Spec.Grant.Revision)
	require.Equal(t, w.o.history[0].Name, w.o.Rows["west"].Spec.Grant.Revision)

	w.o.ud.Spec.Replicas = new(int32(15))
	_, writes = w.step(t)
	require.Equal(t, 3, writes)
	require.Equal(t, map[string]string{"east": "b", "north": "a", "west": "a"}, w.versions(), "a cluster that waits is scaled with the template that it has")
	require.Equal(t, map[string]int32{"east": 5, "north": 5, "west": 5}, w.grants())

	w.applyRows()
	w.rollOut(t, func(p planned) { require.LessOrEqual(t, p.rollout.result.Bound, 4) })
	require.Equal(t, map[string]string{"east": "b", "north": "b", "west": "b"}, w.versions())
	_, writes = w.step(t)
	require.Zero(t, writes)
}

func TestARolloutWritesEachRowAFewTimes(t *testing.T) {
	t.Parallel()
	w := newRollout(t)
	w.version("b")
	require.LessOrEqual(t, w.rollOut(t, nil), 3*2)
}

func TestARollbackWritesOnlyTheClustersThatWereReached(t *testing.T) {
	t.Parallel()
	w := newRollout(t)
	former := w.o.Rows["west"].Spec
	w.version("b")
	w.step(t)
	w.version("a")
	p, writes := w.step(t)
	require.Equal(t, 1, writes)
	require.Equal(t, former, w.o.Rows["west"].Spec)
	require.Equal(t, revision.Renew, p.revision.Change, "the previous revision is the newest again")
	require.Equal(t, map[string]string{"east": "a", "north": "a", "west": "a"}, w.versions())
}

func TestThePatchOfASubsetIsPartOfARevision(t *testing.T) {
	t.Parallel()
	w := newRollout(t)
	w.o.ud.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"patched":"true"}}}`)}
	w.step(t)
	require.NotNil(t, w.slices["east"].Spec.Topology.Subsets[0].Patch)
	require.Nil(t, w.slices["west"].Spec.Topology.Subsets[0].Patch)
	w.applyRows()
	w.rollOut(t, nil)
	require.NotNil(t, w.slices["west"].Spec.Topology.Subsets[0].Patch)
}

func TestClustersThatJoinDuringARollout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*pods.RolloutPlan)
		want   string
	}{
		"get the new template, because they have no old pods": {func(*pods.RolloutPlan) {}, "b"},
		"get the previous template while it is paused":        {func(r *pods.RolloutPlan) { r.Paused = true }, "a"},
		"get the previous template if the partition leaves no room": {
			func(r *pods.RolloutPlan) { r.Partition = new(intstr.FromString("100%")) }, "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRollout(t)
			c.change(w.o.ud.Spec.UpdateStrategy.Rollout)
			w.version("b")
			w.step(t)
			w.cluster("south", map[string]string{"tier": "web"})
			w.step(t)
			require.Equal(t, c.want, w.versions()["south"])
		})
	}
}

// A hub that is upgraded finds rows that don't name their revision, and a history that begins with the present template.
func TestAnObjectThatChangesToWavesStartsWithWhatItsClustersHave(t *testing.T) {
	t.Parallel()
	w := newRollout(t)
	waves := w.o.ud.Spec.UpdateStrategy
	w.o.ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{}
	w.rollOut(t, nil)
	require.Empty(t, w.o.Rows["east"].Spec.Grant.Revision)
	read := func() {
		for cluster, slice := range w.slices {
			raw, err := json.Marshal(slice)
			require.NoError(t, err)
			found, ok := w.o.unlisted(cluster, raw)
			require.True(t, ok)
			w.o.contents[cluster] = found
		}
	}
	w.o.contents = map[string]content{}
	read()
	w.o.ud.Spec.UpdateStrategy = waves
	p, _ := w.step(t)
	require.Empty(t, p.rollout.result.Waits, "nothing is left to update")
	require.Equal(t, map[string]string{"east": "a", "north": "a", "west": "a"}, w.versions())

	w.o.ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{}
	w.rollOut(t, nil)
	read()
	w.o.ud.Spec.UpdateStrategy, w.o.history = waves, nil
	w.version("b")
	w.step(t)
	require.Equal(t, map[string]string{"east": "b", "north": "a", "west": "a"}, w.versions(), "the content is known from the row")
}

func TestTheStatusOfARollout(t *testing.T) {
	t.Parallel()
	w := newRollout(t)
	w.version("b")
	w.step(t)
	w.applyRows()
	p := plan(w.o)
	s := statusAt(w.o, p, placement.Result{Rows: w.o.Rows}, time.Unix(1000, 0))
	require.Equal(t, int32(4), s.UpdatedReplicas, "pods of clusters that wait are not at the new revision, whatever these report of their own")
	require.Equal(t, int32(12), s.AvailableReplicas)
	require.Equal(t, pods.RolloutBudget{Max: 4, Spent: 0, Bound: 4}, s.Rollout.Budget)
	require.Equal(t, "the budget is used up: 4 of at most 4 pods are or may become unavailable", s.Rollout.Message)
	require.Equal(t, "4 of 12 replicas are at the new revision", find(s.Conditions, appsv1beta1.SubsetUpdated).Message)
	require.NotEqual(t, s.UpdatedRevision, s.CurrentRevision)

	w.unreachable("west")
	p = plan(w.o)
	s = statusAt(w.o, p, placement.Result{Rows: w.o.Rows}, time.Unix(1000, 0))
	require.Contains(t, s.Rollout.Message, "some clusters don't answer, so that all of their pods (4) count as unavailable: west")

	w.o.ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{}
	require.Nil(t, statusAt(w.o, plan(w.o), placement.Result{Rows: w.o.Rows}, time.Unix(1000, 0)).Rollout)
}

func TestTheNumbersOfARollout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value *intstr.IntOrString
		total int
		want  int
	}{
		{nil, 400, 40},
		{nil, 4, 1},
		{new(intstr.FromString("5%")), 400, 20},
		{new(intstr.FromString("5%")), 10, 1},
		{new(intstr.FromInt32(7)), 10, 7},
		{new(intstr.FromInt32(-7)), 100, 10},
		{new(intstr.FromString("some")), 100, 10},
	} {
		require.Equal(t, c.want, budget(c.value, c.total), "%v of %d", c.value, c.total)
	}
	for _, c := range []struct {
		value *intstr.IntOrString
		total int
		want  int
	}{
		{nil, 400, 0},
		{new(intstr.FromString("5%")), 10, 1},
		{new(intstr.FromInt32(7)), 5, 5},
		{new(intstr.FromInt32(-1)), 5, 5},
		{new(intstr.FromString("some")), 5, 5},
	} {
		require.Equal(t, c.want, partitionOf(c.value, c.total), "%v of %d", c.value, c.total)
	}
}

// A Deployment has no partition, and an update that has begun is stopped by pausing it.
func TestARolloutOfDeployments(t *testing.T) {
	t.Parallel()
	w := newRollout(t)
	w.o.ud.Spec.Template = appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{}}
	w.o.ud.Spec.UpdateStrategy.Rollout.Partition = new(intstr.FromInt32(0))
	w.step(t)
	require.Equal(t, map[string]int32{"s-east": 0}, w.slices["east"].Spec.UpdateStrategy.ManualUpdate.Partitions)
	w.o.ud.Spec.UpdateStrategy.Rollout.Paused = true
	w.step(t)
	require.Equal(t, map[string]int32{"s-east": 0}, w.slices["east"].Spec.UpdateStrategy.ManualUpdate.MaxUnavailable)
}

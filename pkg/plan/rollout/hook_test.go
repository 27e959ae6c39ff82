package rollout

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNextWithHooks(t *testing.T) {
	t.Parallel()
	inPlace := Goal{Replicas: 2, MaxUnavailable: 1, Mode: InPlaceIfPossible}
	with := func(g Goal, f func(*Goal)) Goal { f(&g); return g }
	for _, tc := range []struct {
		name string
		goal Goal
		pods []Pod
		want []string
	}{
		{
			name: "a pod that is held is prepared before it is updated, and that takes budget",
			goal: inPlace,
			pods: many(2, "a", old, updateHooked),
			want: []string{"PrepareUpdate a00 InPlace", "hold InFlight 1"},
		},
		{
			name: "a pod that is held waits until its hook releases it",
			goal: inPlace,
			pods: []Pod{pod("a", old, preparingUpdate, updateHooked), pod("b", old, updateHooked)},
			want: []string{"hold InFlight 1", "hold Hook 1"},
		},
		{
			name: "a pod that its hook released is updated",
			goal: inPlace,
			pods: []Pod{pod("a", old, preparingUpdate), pod("b")},
			want: []string{"MarkUnready a InPlace"},
		},
		{
			name: "an update that restarts nothing is held as well, and then takes budget",
			goal: with(inPlace, func(g *Goal) { g.MaxUnavailable = 0 }),
			pods: []Pod{pod("a", old, noRestart, updateHooked), pod("b", old, noRestart)},
			want: []string{"hold Budget 2"},
		},
		{
			name: "an update that restarts nothing is one step once the hook released the pod",
			goal: inPlace,
			pods: []Pod{pod("a", old, noRestart, preparingUpdate), pod("b")},
			want: []string{"UpdateInPlace a InPlace"},
		},
		{
			name: "a pod in the middle of an update is not held again",
			goal: inPlace,
			pods: []Pod{pod("a", old, updating, updateHooked), pod("b")},
			want: []string{"UpdateInPlace a InPlace"},
		},
		{
			name: "#1156: a pod that awaits its hook before service is prepared again for another update, at no cost",
			goal: inPlace,
			pods: []Pod{pod("a", old, awaitingHook, updateHooked), pod("b")},
			want: []string{"PrepareUpdate a InPlace"},
		},
		{
			name: "a pod that awaits its hook before service has no step",
			goal: inPlace,
			pods: []Pod{pod("a", awaitingHook, updateHooked), pod("b")},
			want: []string{"hold Hook 1"},
		},
		{
			name: "#1156: a pod that is prepared is restored when its own revision is wanted again",
			goal: inPlace,
			pods: []Pod{pod("a", preparingUpdate, updateHooked), pod("b", preparingUpdate)},
			want: []string{"MarkReady a Restored", "MarkReady b Restored"},
		},
		{
			name: "a pod that is prepared is restored when the partition is raised",
			goal: with(inPlace, func(g *Goal) { g.Partition = 2 }),
			pods: many(2, "a", old, preparingUpdate),
			want: []string{"MarkReady a00 Restored", "MarkReady a01 Restored"},
		},
		{
			name: "a pod that is prepared is restored while updates are paused",
			goal: with(inPlace, func(g *Goal) { g.Paused = true }),
			pods: many(2, "a", old, preparingUpdate, updateHooked),
			want: []string{"MarkReady a00 Restored", "MarkReady a01 Restored", "hold Paused 2"},
		},
		{
			name: "a pod that is held is prepared before it is deleted",
			goal: Goal{Replicas: 1, MaxUnavailable: 1},
			pods: slices.Concat(many(1, "a", deleteHooked), many(1, "b")),
			want: []string{"PrepareDelete a00 ScaleIn"},
		},
		{
			name: "a pod that is preparing delete stays chosen, even if another one ranks before it now",
			goal: Goal{Replicas: 2},
			pods: []Pod{pod("a", preparingDelete, deleteHooked), pod("b", unready), pod("c")},
			want: []string{"hold Hook 1"},
		},
		{
			name: "a pod that its hook released is deleted, whatever is available",
			goal: Goal{Replicas: 2},
			pods: []Pod{pod("a", preparingDelete), pod("b", unready), pod("c", unready)},
			want: []string{"Delete a ScaleIn"},
		},
		{
			name: "of pods that are preparing delete, those that the update deletes anyway are not the surplus ones",
			goal: Goal{Replicas: 2, MaxUnavailable: 1, Mode: InPlaceIfPossible},
			pods: []Pod{pod("a", old, notInPlace, preparingDelete, deleteHooked), pod("b", old, preparingDelete, deleteHooked), pod("c")},
			want: []string{"hold Hook 2"},
		},
		{
			name: "a pod that waits for its deletion is restored when more are wanted",
			goal: Goal{Replicas: 3},
			pods: []Pod{pod("a", preparingDelete, deleteHooked), pod("b"), pod("c")},
			want: []string{"CancelDelete a Restored"},
		},
		{
			name: "a deletion that the user requested is not canceled",
			goal: Goal{Replicas: 3},
			pods: []Pod{pod("a", preparingDelete, toDelete, deleteHooked), pod("b"), pod("c")},
			want: []string{"hold Hook 1"},
		},
		{
			name: "no pod is created for one that waits for its deletion",
			goal: Goal{Replicas: 2},
			pods: []Pod{pod("a", preparingDelete, toDelete, deleteHooked), pod("b")},
			want: []string{"hold Hook 1"},
		},
		{
			name: "a pod is created beside it where such pods don't count",
			goal: Goal{Replicas: 2, ExcludePreparingDelete: true},
			pods: []Pod{pod("a", preparingDelete, toDelete, deleteHooked), pod("b")},
			want: []string{"Create new Missing", "hold Hook 1"},
		},
		{
			name: "a pod whose deletion is canceled counts as a new one, also where such pods don't count",
			goal: Goal{Replicas: 2, ExcludePreparingDelete: true},
			pods: []Pod{pod("a", preparingDelete, deleteHooked), pod("b")},
			want: []string{"CancelDelete a Restored"},
		},
		{
			name: "a pod that is held is prepared before it is re-created",
			goal: Goal{Replicas: 2, MaxUnavailable: 1},
			pods: many(2, "a", old, deleteHooked),
			want: []string{"PrepareDelete a00 Recreate", "hold InFlight 1"},
		},
		{
			name: "#1156: a pod that waits to be re-created is restored when its own revision is wanted again",
			goal: Goal{Replicas: 2, MaxUnavailable: 1},
			pods: []Pod{pod("a", preparingDelete, deleteHooked), pod("b", old)},
			want: []string{"CancelDelete a Restored", "hold InFlight 1"},
		},
		{
			name: "a pod that waits for its deletion is not updated in place",
			goal: with(inPlace, func(g *Goal) { g.MaxUnavailable = 2 }),
			pods: []Pod{pod("a", old, preparingDelete, deleteHooked), pod("b", old)},
			want: []string{"CancelDelete a Restored", "MarkUnready b InPlace"},
		},
		{
			name: "pods that are prepared count as new ones for scaling where it is asked for",
			goal: Goal{Replicas: 2, Partition: 1, PreparingUpdateAsUpdated: true, Mode: InPlaceIfPossible, Paused: true},
			pods: []Pod{pod("a", old, preparingUpdate), pod("b", old), pod("c", old), pod("d")},
			want: []string{"Delete b ScaleIn", "Delete a ScaleIn"},
		},
		{
			name: "and count as old ones otherwise",
			goal: Goal{Replicas: 2, Partition: 1, Mode: InPlaceIfPossible, Paused: true},
			pods: []Pod{pod("a", old), pod("b", old, preparingUpdate), pod("c", old), pod("d")},
			want: []string{"Delete b ScaleIn", "Delete a ScaleIn"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, brief(Next(tc.goal, tc.pods, start)))
		})
	}
}

func TestNextContinuesAnUpdateInSeveralBatches(t *testing.T) {
	t.Parallel()
	inPlace := Goal{Replicas: 2, MaxUnavailable: 1, Mode: InPlaceIfPossible}
	for _, tc := range []struct {
		name string
		goal Goal
		pods []Pod
		want []string
	}{
		{
			name: "the next batch of containers is written when the previous one is ready",
			goal: inPlace,
			pods: []Pod{pod("a", nextBatch), pod("b")},
			want: []string{"UpdateInPlace a NextBatch"},
		},
		{
			name: "also while paused, because the pod is out of service until all batches are done",
			goal: Goal{Replicas: 2, MaxUnavailable: 1, Mode: InPlaceIfPossible, Paused: true},
			pods: []Pod{pod("a", nextBatch), pod("b", old)},
			want: []string{"UpdateInPlace a NextBatch", "hold Paused 1"},
		},
		{
			name: "another update interrupts the remaining batches",
			goal: inPlace,
			pods: []Pod{pod("a", old, nextBatch), pod("b")},
			want: []string{"UpdateInPlace a InPlace"},
		},
		{
			name: "a pod that keeps its revision gets the remaining batches",
			goal: Goal{Replicas: 2, Partition: 1, MaxUnavailable: 1, Mode: InPlaceIfPossible},
			pods: []Pod{pod("a", old, nextBatch), pod("b")},
			want: []string{"UpdateInPlace a NextBatch"},
		},
		{
			name: "a marked pod is not written before its traffic has drained, and keeps its slot",
			goal: inPlace,
			pods: []Pod{pod("a", old, draining), pod("b", old)},
			want: []string{"hold InFlight 1", "hold Draining 1"},
		},
		{
			name: "a pod that drains for an update that is no longer wanted is restored at once",
			goal: inPlace,
			pods: []Pod{pod("a", draining), pod("b")},
			want: []string{"MarkReady a Restored"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.ElementsMatch(t, tc.want, brief(Next(tc.goal, tc.pods, start)))
		})
	}
}

func TestNextRollsBackWhenThePartitionHasGrown(t *testing.T) {
	t.Parallel()
	goal := Goal{Replicas: 4, Partition: 3, MaxUnavailable: 1, Mode: InPlaceIfPossible, Rollback: true}
	pods := slices.Concat(many(1, "a", old), many(3, "b"))
	require.Equal(t, []string{"MarkUnready b00 back InPlace", "hold InFlight 1"}, brief(Next(goal, pods, start)))

	goal.Mode = ReCreate
	require.Equal(t, []string{"Delete b00 back Recreate", "hold InFlight 1"}, brief(Next(goal, pods, start)))
	require.Equal(t, []string{"Create old Missing", "hold Budget 1"}, brief(Next(goal, pods[:3], start)),
		"the pod that takes its slot is of the old revision")

	goal.Paused = true
	require.Equal(t, []string{"hold Paused 2"}, brief(Next(goal, pods, start)))

	goal.Paused, goal.Rollback = false, false
	require.Empty(t, brief(Next(goal, pods, start)), "without it, updated pods stay updated")
}

func TestScaleMaxUnavailable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		goal Goal
		pods []Pod
		want []string
	}{
		{
			name: "at most as many pods are created as may be unavailable",
			goal: Goal{Replicas: 5, ScaleMaxUnavailable: new(2)},
			want: []string{"Create new Missing", "Create new Missing", "hold ScaleLimit 3"},
		},
		{
			name: "unavailable pods count toward that limit",
			goal: Goal{Replicas: 5, ScaleMaxUnavailable: new(2)},
			pods: slices.Concat(many(1, "a"), many(1, "b", held)),
			want: []string{"Create new Missing", "hold ScaleLimit 2", "MarkReady b00 Started"},
		},
		{
			name: "no pod is created at that limit",
			goal: Goal{Replicas: 5, ScaleMaxUnavailable: new(1)},
			pods: many(2, "a", unready),
			want: []string{"hold ScaleLimit 3"},
		},
		{
			name: "a surge is limited, too",
			goal: Goal{Replicas: 2, MaxSurge: 2, ScaleMaxUnavailable: new(1)},
			pods: many(2, "a", old),
			want: []string{"Create new Surge", "hold ScaleLimit 1", "hold Budget 2"},
		},
		{
			name: "a scale-in is not limited",
			goal: Goal{Replicas: 1, ScaleMaxUnavailable: new(1)},
			pods: slices.Concat(many(1, "a"), many(2, "b", unready)),
			want: []string{"Delete b00 ScaleIn", "Delete b01 ScaleIn"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.ElementsMatch(t, tc.want, brief(Next(tc.goal, tc.pods, start)))
		})
	}
}

package rollout

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// slotsOf returns slots; the first keep of them are Old.
func slotsOf(keep int, keys ...string) []Slot {
	out := make([]Slot, 0, len(keys))
	for i, k := range keys {
		out = append(out, Slot{Key: k, Old: i < keep})
	}
	return out
}

// in returns a pod in a slot, named after it.
func in(slot string, fs ...func(*Pod)) Pod {
	return pod(slot, append([]func(*Pod){func(p *Pod) { p.Slot = slot }}, fs...)...)
}

// beside returns a second pod in slot n1.
func beside(fs ...func(*Pod)) Pod {
	return pod("n1-2", append([]func(*Pod){func(p *Pod) { p.Slot = "n1" }}, fs...)...)
}

// createdAfter makes a pod newer than others.
func createdAfter(p *Pod) {
	p.Rank.Created, p.Rank.ReadySince = start.Add(time.Minute), start.Add(time.Minute)
}

// TestStatefulSetScenarios: the slots of a StatefulSet are the ordinals, and those below the partition keep the old revision. Updates and
// deletions go by ordinal, highest first. OrderedReady is InOrder.
func TestStatefulSetScenarios(t *testing.T) {
	t.Parallel()
	ordered := func(keep int, keys ...string) Goal {
		return Goal{Slots: slotsOf(keep, keys...), MaxUnavailable: 1, Ordered: true}
	}
	parallel := func(keep, unavailable int, keys ...string) Goal {
		return Goal{Slots: slotsOf(keep, keys...), MaxUnavailable: unavailable}
	}
	for _, tc := range []struct {
		name string
		goal Goal
		pods []Pod
		want []string
	}{
		{
			name: "in order, the first pod is created alone",
			goal: ordered(0, "0", "1", "2"),
			want: []string{"Create new 0 Missing"},
		},
		{
			name: "in order, the next pod waits until the first is available",
			goal: ordered(0, "0", "1", "2"),
			pods: []Pod{in("0", notAvailable)},
			want: []string{"hold InOrder 2"},
		},
		{
			name: "in order, a gap is filled before later slots",
			goal: ordered(0, "0", "1", "2"),
			pods: []Pod{in("0"), in("2", unready)},
			want: []string{"Create new 1 Missing"},
		},
		{
			name: "in order, a pod is not created while its predecessor is still terminating",
			goal: ordered(0, "0", "1"),
			pods: []Pod{in("0"), in("1", inactive)},
		},
		{
			name: "a surplus pod does not allow the deletion of a named one that alone is available",
			goal: parallel(0, 1, "0", "1"),
			pods: []Pod{in("0", toDelete), in("1", unready), in("2")},
			want: []string{"Delete 2 ScaleIn", "hold Budget 1"},
		},
		{
			name: "in parallel, all pods are created, those below the partition at the old revision",
			goal: parallel(1, 1, "0", "1", "2"),
			want: []string{"Create old 0 Missing", "Create new 1 Missing", "Create new 2 Missing"},
		},
		{
			name: "in parallel, the limit on creations applies",
			goal: Goal{Slots: slotsOf(0, "0", "1", "2"), ScaleMaxUnavailable: new(2)},
			pods: []Pod{in("0", unready)},
			want: []string{"Create new 1 Missing", "hold ScaleLimit 1"},
		},
		{
			name: "reserved ordinals are left out",
			goal: parallel(0, 1, "0", "2", "4"),
			pods: []Pod{in("0"), in("1", order(-1)), in("2")},
			want: []string{"Create new 4 Missing", "Delete 1 ScaleIn"},
		},
		{
			name: "in order, surplus pods are deleted one by one, the highest first",
			goal: ordered(0, "0", "1"),
			pods: []Pod{in("0"), in("1"), in("2", order(-2)), in("3", order(-3))},
			want: []string{"Delete 3 ScaleIn"},
		},
		{
			name: "in order, the next surplus pod waits until the previous one is gone",
			goal: ordered(0, "0", "1"),
			pods: []Pod{in("0"), in("1"), in("2", order(-2)), in("3", order(-3), inactive)},
			want: []string{"hold InOrder 1"},
		},
		{
			name: "in order, the next surplus pod waits until the desired pods are available",
			goal: ordered(0, "0", "1"),
			pods: []Pod{in("0"), in("1", unready), in("2", order(-2))},
			want: []string{"hold InOrder 1"},
		},
		{
			name: "in order, a surplus pod that doesn't serve is deleted if it is the only one",
			goal: ordered(0, "0", "1"),
			pods: []Pod{in("0"), in("1"), in("2", order(-2)), in("3", order(-3), unready)},
			want: []string{"Delete 3 ScaleIn"},
		},
		{
			name: "in order, it waits while another surplus pod isn't available either",
			goal: ordered(0, "0", "1"),
			pods: []Pod{in("0"), in("1"), in("2", order(-2), unready), in("3", order(-3), unready)},
			want: []string{"hold InOrder 2"},
		},
		{
			name: "in order, a surplus pod that is available doesn't wait",
			goal: ordered(0, "0", "1"),
			pods: []Pod{in("0"), in("1"), in("2", order(-2), unready), in("3", order(-3))},
			want: []string{"Delete 3 ScaleIn"},
		},
		{
			name: "in order, a surplus pod that isn't ready for long enough waits likewise",
			goal: ordered(0, "0", "1"),
			pods: []Pod{in("0"), in("1"), in("2", order(-2), unready), in("3", order(-3), notAvailable)},
			want: []string{"hold InOrder 2"},
		},
		{
			name: "in order, the deletion of a prepared pod continues",
			goal: ordered(0, "0"),
			pods: []Pod{in("0"), in("1", order(-1), unready), in("2", order(-2), preparingDelete, unready)},
			want: []string{"Delete 2 ScaleIn"},
		},
		{
			name: "in order, a prepared pod stays so while it waits for a desired pod",
			goal: ordered(0, "0"),
			pods: []Pod{in("0", unready), in("1", order(-1), preparingDelete, deleteHooked)},
			want: []string{"hold InOrder 1"},
		},
		{
			name: "in parallel, surplus pods cost no budget",
			goal: parallel(0, 0, "0"),
			pods: []Pod{in("0", unready), in("1", order(-1)), in("2", order(-2))},
			want: []string{"Delete 2 ScaleIn", "Delete 1 ScaleIn"},
		},
		{
			name: "updates start at the highest ordinal and stop at the partition",
			goal: ordered(2, "0", "1", "2", "3"),
			pods: []Pod{in("0", old), in("1", old, order(-1)), in("2", old, order(-2)), in("3", old, order(-3))},
			want: []string{"Delete 3 Recreate", "hold Budget 1"},
		},
		{
			name: "a pod that is new below the partition stays new",
			goal: ordered(2, "0", "1"),
			pods: []Pod{in("0"), in("1", old)},
		},
		{
			name: "an update waits while another pod is not available",
			goal: ordered(0, "0", "1", "2"),
			pods: []Pod{in("0", old), in("1", unready, order(-1)), in("2", order(-2))},
			want: []string{"hold Budget 1"},
		},
		{
			name: "a broken pod is updated although another one is missing",
			goal: ordered(0, "0", "1", "2"),
			pods: []Pod{in("0"), in("1", old, unready, order(-1))},
			want: []string{"Delete 1 Recreate", "hold InOrder 1"},
		},
		{
			name: "a named pod is deleted within the budget, regardless of the partition, and recreated in its slot",
			goal: parallel(3, 1, "0", "1", "2"),
			pods: []Pod{in("0", old, toDelete), in("1", old, toDelete), in("2", old)},
			want: []string{"Delete 0 Named", "hold Budget 1"},
		},
		{
			name: "the highest named pod is deleted first",
			goal: parallel(0, 1, "0", "1", "2"),
			pods: []Pod{in("0", toDelete), in("1", toDelete, order(-1)), in("2", order(-2))},
			want: []string{"Delete 1 Named", "hold Budget 1"},
		},
		{
			name: "a pod that has ended is deleted, and its slot waits until it is gone",
			goal: ordered(0, "0", "1"),
			pods: []Pod{in("0", inactive, ended), in("1", unready)},
			want: []string{"Delete 0 Ended"},
		},
		{
			name: "a pod that has ended goes through its hook",
			goal: ordered(0, "0"),
			pods: []Pod{in("0", inactive, ended, deleteHooked)},
			want: []string{"PrepareDelete 0 Ended"},
		},
		{
			name: "in parallel, slots whose pods are terminating count against the limit on creations",
			goal: Goal{Slots: slotsOf(0, "0", "1", "2"), ScaleMaxUnavailable: new(2)},
			pods: []Pod{in("0", inactive)},
			want: []string{"Create new 1 Missing", "hold ScaleLimit 1"},
		},
		{
			name: "by priority, the partition keeps the pods that would be updated last",
			goal: Goal{Slots: slotsOf(0, "0", "1", "2"), Partition: 2, MaxUnavailable: 3},
			pods: []Pod{in("0", old, order(1)), in("1", old), in("2", old, order(2))},
			want: []string{"Delete 1 Recreate"},
		},
		{
			name: "by priority, updated pods count in every slot",
			goal: Goal{Slots: slotsOf(0, "0", "1", "2"), Partition: 2, MaxUnavailable: 3},
			pods: []Pod{in("0", old, order(1)), in("1", old), in("2")},
		},
		{
			name: "by priority, a pod that is being replaced is not made old again",
			goal: Goal{Slots: slotsOf(0, "0", "1", "2"), Partition: 2, MaxUnavailable: 3},
			pods: []Pod{in("0", old, order(1)), in("2", old, order(2))},
			want: []string{"Create new 1 Missing"},
		},
		{
			name: "by priority, a lost pod is recreated at the old revision while there are too few old ones",
			goal: Goal{Slots: slotsOf(0, "0", "1", "2"), Partition: 2, MaxUnavailable: 3},
			pods: []Pod{in("0", old), in("1")},
			want: []string{"Create old 2 Missing"},
		},
		{
			name: "by priority, a pod that is preparing delete stays chosen",
			goal: Goal{Slots: slotsOf(0, "0", "1"), Partition: 1, MaxUnavailable: 1},
			pods: []Pod{in("0", old, deleteHooked), in("1", old, order(1), preparingDelete, deleteHooked)},
			want: []string{"hold Hook 1"},
		},
		{
			name: "with OnDelete a lost pod is recreated at the new revision, regardless of the partition",
			goal: Goal{Slots: slotsOf(1, "0", "1"), Partition: 2, MaxUnavailable: 1, Mode: OnDelete},
			pods: []Pod{in("1", old)},
			want: []string{"Create new 0 Missing"},
		},
		{
			name: "an update in place keeps the pod",
			goal: Goal{Slots: slotsOf(1, "0", "1"), MaxUnavailable: 1, Mode: InPlaceIfPossible, Ordered: true},
			pods: []Pod{in("0", old), in("1", old, order(-1))},
			want: []string{"MarkUnready 1 InPlace"},
		},
		{
			name: "hooks apply in slots, too",
			goal: ordered(0, "0"),
			pods: []Pod{in("0"), in("1", order(-1), deleteHooked)},
			want: []string{"PrepareDelete 1 ScaleIn"},
		},
		{
			name: "a pod that waits for its deletion returns with its ordinal",
			goal: ordered(0, "0", "1"),
			pods: []Pod{in("0"), in("1", order(-1), preparingDelete, deleteHooked)},
			want: []string{"CancelDelete 1 Restored"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, brief(Next(tc.goal, tc.pods, start)))
		})
	}
}

// TestDaemonSetScenarios: the slots of a DaemonSet are the nodes that fit, and a pod on another node is surplus. A terminating pod is left out,
// so that its node gets another one at once. The partition covers the nodes that come last in its order.
func TestDaemonSetScenarios(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		goal Goal
		pods []Pod
		want []string
	}{
		{
			name: "each node gets a pod",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxUnavailable: 1},
			pods: []Pod{in("n2")},
			want: []string{"Create new n1 Missing"},
		},
		{
			name: "a node that no longer fits loses its pod, regardless of what else is available",
			goal: Goal{Slots: slotsOf(0, "n1"), MaxUnavailable: 1},
			pods: []Pod{in("n1", unready), in("n2")},
			want: []string{"Delete n2 ScaleIn"},
		},
		{
			name: "of two pods on a node, the available one stays",
			goal: Goal{Slots: slotsOf(0, "n1"), MaxUnavailable: 0},
			pods: []Pod{in("n1", unready), beside()},
			want: []string{"Delete n1 Recreate"},
		},
		{
			name: "old pods are replaced within the budget of nodes",
			goal: Goal{Slots: slotsOf(0, "n1", "n2", "n3"), MaxUnavailable: 1},
			pods: []Pod{in("n1", old), in("n2", old), in("n3", old)},
			want: []string{"Delete n1 Recreate", "hold Budget 2"},
		},
		{
			name: "a node without a pod counts against the budget",
			goal: Goal{Slots: slotsOf(0, "n1", "n2", "n3"), MaxUnavailable: 1},
			pods: []Pod{in("n1", old), in("n2", old)},
			want: []string{"Create new n3 Missing", "hold Budget 2"},
		},
		{
			name: "old pods that aren't available are replaced at once",
			goal: Goal{Slots: slotsOf(0, "n1", "n2", "n3"), MaxUnavailable: 1},
			pods: []Pod{in("n1", old, unready), in("n2", old, unready), in("n3", old)},
			want: []string{"Delete n1 Recreate", "Delete n2 Recreate", "hold Budget 1"},
		},
		{
			name: "nodes of the partition keep their pods",
			goal: Goal{Slots: slotsOf(2, "n1", "n2", "n3"), MaxUnavailable: 3},
			pods: []Pod{in("n1", old), in("n2", old), in("n3", old)},
			want: []string{"Delete n3 Recreate"},
		},
		{
			name: "nodes that aren't selected keep their pods, and count toward the partition",
			goal: Goal{Slots: slotsOf(1, "n1", "n2", "n3"), Partition: 2, MaxUnavailable: 3, CreateUpdated: true},
			pods: []Pod{in("n1", old), in("n2", old, order(2)), in("n3", old, order(1))},
			want: []string{"Delete n3 Recreate"},
		},
		{
			name: "a node that isn't selected and has a new pod doesn't count toward the partition",
			goal: Goal{Slots: slotsOf(2, "n1", "n2", "n3", "n4"), Partition: 2, MaxUnavailable: 3, CreateUpdated: true},
			pods: []Pod{in("n1", old), in("n2"), in("n3", old, order(1)), in("n4", old, order(2))},
			want: []string{"Delete n3 Recreate"},
		},
		{
			name: "a lost pod is created at the update revision, regardless of the partition",
			goal: Goal{Slots: slotsOf(1, "n1", "n2"), Partition: 2, MaxUnavailable: 2, CreateUpdated: true},
			pods: []Pod{in("n2", old)},
			want: []string{"Create new n1 Missing"},
		},
		{
			name: "a node with two pods is not kept by the partition",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), Partition: 1, MaxSurge: 1, CreateUpdated: true},
			pods: []Pod{in("n1", old, order(2)), beside(), in("n2", old, order(1))},
			want: []string{"Delete n1 Recreate"},
		},
		{
			name: "an unavailable pod is updated before its turn, as it takes no budget",
			goal: Goal{Slots: slotsOf(0, "n1", "n2", "n3"), MaxUnavailable: 1},
			pods: []Pod{in("n1", old, order(3), unready), in("n2", old, order(1)), in("n3", old, order(2), unready)},
			want: []string{"Delete n3 Recreate", "Delete n1 Recreate", "hold Budget 1"},
		},
		{
			name: "with a surge, new pods are created first, on as many nodes as may have two",
			goal: Goal{Slots: slotsOf(0, "n1", "n2", "n3"), MaxSurge: 2},
			pods: []Pod{in("n1", old), in("n2", old), in("n3", old)},
			want: []string{"Create new n1 Surge", "Create new n2 Surge", "hold Budget 1"},
		},
		{
			name: "#1012: an old pod is deleted as soon as the new one on its node is available",
			goal: Goal{Slots: slotsOf(0, "n1", "n2", "n3"), MaxSurge: 1},
			pods: []Pod{in("n1", old), beside(), in("n2", old), in("n3", old)},
			want: []string{"Delete n1 Recreate", "hold Budget 2"},
		},
		{
			name: "the next node follows when the old pod is terminating",
			goal: Goal{Slots: slotsOf(0, "n1", "n2", "n3"), MaxSurge: 1},
			pods: []Pod{in("n1", old, func(p *Pod) { p.Inactive = true }), beside(), in("n2", old), in("n3", old)},
			want: []string{"Create new n2 Surge", "hold Budget 1"},
		},
		{
			name: "an old pod that its hook does not release still holds its slot beside the new one",
			goal: Goal{Slots: slotsOf(0, "n1", "n2", "n3"), MaxSurge: 1},
			pods: []Pod{in("n1", old, func(p *Pod) { p.DeleteHooked, p.PreparingDelete, p.Available = true, true, false }), beside(), in("n2", old), in("n3", old)},
			want: []string{"hold Budget 2", "hold Hook 1"},
		},
		{
			name: "while the new pod is not available both stay",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 1},
			pods: []Pod{in("n1", old), beside(unready), in("n2", old)},
			want: []string{"hold Budget 1"},
		},
		{
			name: "an old pod that doesn't serve is deleted at once",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 1},
			pods: []Pod{in("n1", old, unready), beside(unready), in("n2")},
			want: []string{"Delete n1 Recreate"},
		},
		{
			name: "while paused, two pods on a node stay and no other node gets a second",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 2, Paused: true},
			pods: []Pod{in("n1", old), beside(), in("n2", old)},
			want: []string{"hold Paused 1"},
		},
		{
			name: "with a surge, the replacement of a named pod is created first",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 1},
			pods: []Pod{in("n1", toDelete), in("n2")},
			want: []string{"Create new n1 Surge", "hold Budget 1"},
		},
		{
			name: "also while updates are paused",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 1, Paused: true},
			pods: []Pod{in("n1", toDelete), in("n2")},
			want: []string{"Create new n1 Surge", "hold Budget 1"},
		},
		{
			name: "a named pod stays until its replacement is available, and no other node gets a second",
			goal: Goal{Slots: slotsOf(0, "n1", "n2", "n3"), MaxSurge: 1},
			pods: []Pod{in("n1", toDelete), beside(unready), in("n2", toDelete), in("n3", old)},
			want: []string{"hold Budget 2", "hold Budget 1"},
		},
		{
			name: "a named pod is deleted when its replacement is available, even if another named pod has to wait",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 1},
			pods: []Pod{in("n1", toDelete, order(1)), beside(), in("n2", toDelete)},
			want: []string{"Delete n1 Named", "hold Budget 1"},
		},
		{
			name: "the replacement is at the revision that a lost pod would get, regardless of the partition",
			goal: Goal{Slots: slotsOf(0, "n1"), Partition: 1, MaxSurge: 1, CreateUpdated: true},
			pods: []Pod{in("n1", old, toDelete)},
			want: []string{"Create new n1 Surge", "hold Budget 1"},
		},
		{
			name: "it stays on a node that is not to be updated",
			goal: Goal{Slots: slotsOf(1, "n1"), Partition: 1, MaxSurge: 1, CreateUpdated: true},
			pods: []Pod{in("n1", old, toDelete), beside(unready)},
			want: []string{"hold Budget 1"},
		},
		{
			name: "a replacement at the previous revision is itself replaced at the next revision",
			goal: Goal{Slots: slotsOf(0, "n1"), MaxSurge: 1},
			pods: []Pod{in("n1", old, toDelete), beside(old, unready)},
			want: []string{"Delete n1-2 Recreate", "hold Budget 1"},
		},
		{
			name: "the replacement of a named pod that no longer serves stays",
			goal: Goal{Slots: slotsOf(0, "n1"), MaxSurge: 1},
			pods: []Pod{in("n1", toDelete, unready), beside(unready, createdAfter)},
			want: []string{"Delete n1 Named"},
		},
		{
			name: "the replacement of a named pod stays even if the surge is used up",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxUnavailable: 2},
			pods: []Pod{in("n1", toDelete), beside(createdAfter), in("n2")},
			want: []string{"Delete n1 Named"},
		},
		{
			name: "of two replacements of a named pod, one stays",
			goal: Goal{Slots: slotsOf(0, "n1"), MaxSurge: 1},
			pods: []Pod{
				in("n1", toDelete, unready), beside(createdAfter, unready),
				pod("n1-3", func(p *Pod) { p.Slot = "n1" }, createdAfter, unready),
			},
			want: []string{"Delete n1 Named", "Delete n1-2 Recreate"},
		},
		{
			name: "an old replacement of a named pod is updated once the named pod is deleted",
			goal: Goal{Slots: slotsOf(0, "n1"), MaxSurge: 1},
			pods: []Pod{in("n1", old, toDelete, unready), beside(old, unready, createdAfter)},
			want: []string{"Delete n1 Named", "Delete n1-2 Recreate"},
		},
		{
			name: "a named pod that doesn't serve is deleted at once",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 1},
			pods: []Pod{in("n1", toDelete, unready), in("n2")},
			want: []string{"Delete n1 Named"},
		},
		{
			name: "named pods use the surge before updates",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 1},
			pods: []Pod{in("n1", old, order(-1)), in("n2", toDelete)},
			want: []string{"Create new n2 Surge", "hold Budget 1", "hold Budget 1"},
		},
		{
			name: "with OnDelete old pods stay",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 2, Mode: OnDelete},
			pods: []Pod{in("n1", old), in("n2", old)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, brief(Next(tc.goal, tc.pods, start)))
		})
	}
}

// TestSidecarSetScenarios: a SidecarSet doesn't own its pods. Replicas is their number and the mode is InPlaceOnly, so that none is created or
// deleted.
func TestSidecarSetScenarios(t *testing.T) {
	t.Parallel()
	goal := func(want, partition, unavailable int) Goal {
		return Goal{Replicas: want, Partition: partition, MaxUnavailable: unavailable, Mode: InPlaceOnly, Foreign: true}
	}
	for _, tc := range []struct {
		name string
		goal Goal
		pods []Pod
		want []string
	}{
		{
			name: "pods are updated in place within the budget",
			goal: goal(3, 0, 1),
			pods: many(3, "a", old, ungated),
			want: []string{"UpdateInPlace a00 InPlace", "hold InFlight 2"},
		},
		{
			name: "the partition keeps old pods",
			goal: goal(3, 2, 3),
			pods: many(3, "a", old, ungated),
			want: []string{"UpdateInPlace a00 InPlace"},
		},
		{
			name: "pods that can't take the new revision wait with a reason",
			goal: goal(2, 0, 1),
			pods: []Pod{pod("a", old, notInPlace), pod("b", old, ungated)},
			want: []string{"UpdateInPlace b InPlace", "hold NotInPlace 1"},
		},
		{
			name: "terminating pods are left alone and not replaced",
			goal: goal(1, 0, 1),
			pods: []Pod{pod("a", old, inactive), pod("b", old, ungated)},
			want: []string{"UpdateInPlace b InPlace"},
		},
		{
			name: "pods that are out of service are all updated at once",
			goal: goal(6, 0, 1),
			pods: append(many(5, "a", old, ungated, unready), pod("b", old, ungated)),
			want: []string{
				"UpdateInPlace a00 InPlace", "UpdateInPlace a01 InPlace", "UpdateInPlace a02 InPlace", "UpdateInPlace a03 InPlace",
				"UpdateInPlace a04 InPlace", "hold InFlight 1",
			},
		},
		{
			name: "including those that come after pods that wait",
			goal: goal(3, 0, 1),
			pods: []Pod{pod("a", old, ungated, order(1)), pod("b", old, ungated, order(2)), pod("c", old, ungated, unready, order(3))},
			want: []string{"UpdateInPlace c InPlace", "hold InFlight 2"},
		},
		{
			name: "but not below the partition",
			goal: goal(3, 2, 1),
			pods: many(3, "a", old, ungated, unready),
			want: []string{"UpdateInPlace a00 InPlace"},
		},
		{
			name: "a pod that can't be updated and is out of service uses no budget",
			goal: goal(3, 0, 1),
			pods: []Pod{pod("a", old, notInPlace, unready), pod("b", old, ungated), pod("c", old, ungated)},
			want: []string{"UpdateInPlace b InPlace", "hold InFlight 1"},
		},
		{
			name: "nor does a pod that the partition keeps",
			goal: goal(3, 2, 1),
			pods: []Pod{pod("a", old, ungated, order(1)), pod("b", old, ungated, order(2)), pod("c", old, ungated, unready, order(3))},
			want: []string{"UpdateInPlace a InPlace"},
		},
		{
			name: "an updated pod that isn't available uses budget",
			goal: goal(3, 0, 1),
			pods: []Pod{pod("a", unready), pod("b", old, ungated), pod("c", old, ungated)},
			want: []string{"hold InFlight 2"},
		},
		{
			name: "so does a pod that is about to restart for an earlier update",
			goal: goal(3, 0, 1),
			pods: []Pod{pod("a", old, notInPlace, updating), pod("b", old, ungated), pod("c", old, ungated)},
			want: []string{"hold InFlight 2"},
		},
		{
			name: "without a budget, pods out of service are updated",
			goal: goal(2, 0, 0),
			pods: []Pod{pod("a", old, ungated, unready), pod("b", old, ungated)},
			want: []string{"UpdateInPlace a InPlace", "hold Budget 1"},
		},
		{
			name: "no pod is updated while paused",
			goal: Goal{Replicas: 1, MaxUnavailable: 1, Mode: InPlaceOnly, Foreign: true, Paused: true},
			pods: []Pod{pod("a", old, ungated, unready)},
			want: []string{"hold Paused 1"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := Next(tc.goal, tc.pods, start)
			require.Equal(t, tc.want, brief(s))
			require.Empty(t, s.Of(StepCreate))
			require.Empty(t, s.Of(StepDelete))
		})
	}
}

// TestPodsThatHaveEndedMayKeepTheirSlots: a BroadcastJob runs one pod to completion on each node.
func TestPodsThatHaveEndedMayKeepTheirSlots(t *testing.T) {
	t.Parallel()
	completed := func(p *Pod) { inactive(p); p.Ended, p.Rank.Phase = true, corev1.PodSucceeded }
	going := func(p *Pod) { inactive(p); p.Ended = false }
	for _, tc := range []struct {
		name string
		goal Goal
		pods []Pod
		want []string
	}{
		{"without KeepEnded, ended pods are deleted", Goal{Slots: slotsOf(0, "n1")}, []Pod{in("n1", completed)}, []string{"Delete n1 Ended"}},
		{
			"ended pods are neither deleted nor replaced",
			Goal{Slots: slotsOf(0, "n1", "n2"), KeepEnded: true},
			[]Pod{in("n1", completed)},
			[]string{"Create new n2 Missing"},
		},
		{
			"an ended pod of the old revision is not updated",
			Goal{Slots: slotsOf(0, "n1"), KeepEnded: true, MaxUnavailable: 1},
			[]Pod{in("n1", old, completed)},
			nil,
		},
		{
			"an ended pod that a user deletes is replaced when it is gone",
			Goal{Slots: slotsOf(0, "n1", "n2"), KeepEnded: true},
			[]Pod{in("n1", going)},
			[]string{"Create new n2 Missing"},
		},
		{
			"an ended pod that has to be deleted makes room",
			Goal{Slots: slotsOf(0, "n1"), KeepEnded: true},
			[]Pod{in("n1", completed, toDelete)},
			[]string{"Delete n1 Ended"},
		},
		{
			"an ended pod in a slot that isn't wanted stays",
			Goal{Slots: slotsOf(0, "n1"), KeepEnded: true},
			[]Pod{in("n1", completed), in("n9", completed)},
			nil,
		},
		{
			"ended pods don't count as unavailable while others are created",
			Goal{Slots: slotsOf(0, "n1", "n2", "n3"), KeepEnded: true, ScaleMaxUnavailable: new(1)},
			[]Pod{in("n1", completed)},
			[]string{"Create new n2 Missing", "hold ScaleLimit 1"},
		},
		{
			"in order, the next pod doesn't wait for an ended one",
			Goal{Slots: slotsOf(0, "n1", "n2"), KeepEnded: true, Ordered: true},
			[]Pod{in("n1", completed)},
			[]string{"Create new n2 Missing"},
		},
		{
			"ended pods count as available for the budget",
			Goal{Slots: slotsOf(0, "n1", "n2"), KeepEnded: true, MaxUnavailable: 1},
			[]Pod{in("n1", completed), in("n2", old)},
			[]string{"Delete n2 Recreate"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, brief(Next(tc.goal, tc.pods, start)))
		})
	}
}

// FuzzSlots replays scenarios with slots until nothing is left to do.
func FuzzSlots(f *testing.F) {
	for i := range uint64(60) {
		f.Add(i, uint8(i*7), uint8(i%4), uint8(i%3), uint8(i*5))
	}
	f.Fuzz(replaySlots)
}

func replaySlots(t *testing.T, seed uint64, slots, unavailable, surge, flags uint8) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	keys := []string{"s0", "s1", "s2", "s3", "s4", "s5", "s6"}
	wanted := func() []Slot { return slotsOf(r.IntN(3), keys[:int(slots)%6+r.IntN(2)]...) }
	m := newModel(Goal{
		Slots: wanted(), MaxUnavailable: int(unavailable % 4), MaxSurge: int(surge % 3), Ordered: flags&1 != 0,
		Mode: []Mode{ReCreate, InPlaceIfPossible}[flags>>1&1], Rollback: flags&64 != 0,
	}, r.IntN(7))
	if flags&128 != 0 {
		m.goal.Partition, m.goal.CreateUpdated, m.goal.Rollback = r.IntN(4), r.IntN(2) == 0, false
	}
	m.hooks = modelHooks{update: flags&4 != 0, delete: flags&8 != 0}
	m.freeSlots, m.target, m.minReady = flags&16 != 0 && flags&1 == 0, "v2", r.IntN(3)
	if flags&32 != 0 {
		m.notInPlace = func(_, _ string) string { return "volumes changed" }
	}
	for _, name := range m.names() {
		i := r.IntN(len(keys))
		m.pods[name].slot, m.pods[name].rank.Order = keys[i], -i
		m.pods[name].toDelete = r.IntN(6) == 0
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m.log.String())
		}
	})
	for tick := range 500 {
		if tick < 20 && r.IntN(4) == 0 {
			m.goal.Slots, m.goal.Paused = wanted(), r.IntN(4) == 0
			m.target = []string{"v1", "v2"}[r.IntN(2)]
			if names := m.names(); len(names) > 0 {
				m.pods[names[r.IntN(len(names))]].toDelete = true
			}
		}
		if tick == 20 {
			m.goal.Paused = false
		}
		if m.target == m.previous {
			m.goal.Rollback = false
		}
		waiting := m.waiting()
		facts := m.facts()
		s := Next(m.goal, facts, m.at(m.tick))
		fmt.Fprintf(&m.log, "%3d  %+v\n     %s\n", m.tick, m.goal, m.summary(facts))
		writeSteps(&m.log, s)
		checkSlots(t, m.goal, facts, m.at(m.tick), s)
		if len(s.Steps) == 0 && !waiting && tick >= 20 {
			checkSlotsAtRest(t, m, s)
			return
		}
		m.apply(s)
	}
	t.Fatal("no rest")
}

func checkSlots(t *testing.T, g Goal, pods []Pod, now time.Time, s Decision) {
	t.Helper()
	shuffled := slices.Clone(pods)
	slices.Reverse(shuffled)
	require.Equal(t, s, Next(g, shuffled, now), "the order of pods doesn't matter")

	wanted, held := map[string]bool{}, map[string]int{}
	for _, slot := range g.Slots {
		wanted[slot.Key] = true
	}
	available, serves, active := map[string]int{}, map[string]int{}, map[string]int{}
	byKey := map[string]Pod{}
	for _, p := range pods {
		byKey[p.Key] = p
		held[p.Slot]++
		if wanted[p.Slot] && !p.Inactive {
			active[p.Slot]++
		}
		if wanted[p.Slot] && p.Available {
			available[p.Slot]++
		}
		if wanted[p.Slot] && !p.Inactive && p.serves() {
			serves[p.Slot]++
		}
	}
	checkKept(t, g, pods, s)
	before, serving, surging := len(available), len(serves), 0
	for _, c := range s.Of(StepCreate) {
		require.True(t, wanted[c.Slot], "a pod in %q, which is not wanted", c.Slot)
		held[c.Slot]++
		active[c.Slot]++
		if c.Reason == ReasonMissing {
			require.Equal(t, 1, held[c.Slot], "slot %s is not empty", c.Slot)
		} else {
			require.Equal(t, 2, held[c.Slot], "slot %s", c.Slot)
			surging++
		}
	}
	if surging > 0 { // Even if the deletions of this call fail.
		maps.DeleteFunc(active, func(_ string, n int) bool { return n < 2 })
		require.LessOrEqual(t, len(active), g.MaxSurge)
	}
	if g.Ordered {
		require.LessOrEqual(t, len(s.Of(StepCreate))-surging, 1)
	}
	checkHooks(t, byKey, s)
	for _, d := range slices.Concat(s.Of(StepPrepareDelete), s.Of(StepDelete), s.Of(StepPrepareUpdate), s.Of(StepMarkUnready)) {
		p := byKey[d.Key]
		require.False(t, g.Paused && d.Reason == ReasonInPlace, "an update while paused")
		for n, counts := range map[*map[string]int]bool{&available: p.Available, &serves: p.serves()} {
			if counts && wanted[p.Slot] {
				if (*n)[p.Slot]--; (*n)[p.Slot] == 0 {
					delete(*n, p.Slot)
				}
			}
		}
	}
	require.GreaterOrEqual(t, len(available), min(before, len(g.Slots)-g.MaxUnavailable), "the budget of slots was broken")
	require.GreaterOrEqual(t, len(serves), min(serving, len(g.Slots)-g.MaxUnavailable), "ready pods that a rollout replaces were taken")
}

// checkKept: an update leaves as many slots old as the partition asks for, or all of them if there are fewer.
func checkKept(t *testing.T, g Goal, pods []Pod, s Decision) {
	t.Helper()
	if g.Rollback {
		return
	}
	type count struct {
		pinned       bool
		old, updated int
	}
	counts, byKey := map[string]*count{}, map[string]Pod{}
	for _, slot := range g.Slots {
		counts[slot.Key] = &count{pinned: slot.Old}
	}
	for _, p := range pods {
		byKey[p.Key] = p
		c := counts[p.Slot]
		switch {
		case c == nil || p.Inactive:
		case p.Old:
			c.old++
		default:
			c.updated++
		}
	}
	kept := func() (n int) {
		for _, c := range counts {
			if c.updated == 0 && (c.old > 0 || c.pinned && !g.CreateUpdated) {
				n++
			}
		}
		return n
	}
	before := kept()
	for _, d := range slices.Concat(
		s.Of(StepPrepareDelete), s.Of(StepDelete), s.Of(StepPrepareUpdate), s.Of(StepMarkUnready), s.Of(StepUpdateInPlace),
	) {
		p := byKey[d.Key]
		c := counts[p.Slot]
		if c == nil || !p.Old || d.Reason != ReasonRecreate && d.Reason != ReasonInPlace {
			continue
		}
		c.old--
		require.False(t, c.pinned && c.old+c.updated == 0, "slot %s keeps its pod", p.Slot)
	}
	require.GreaterOrEqual(t, kept(), min(before, g.Partition), "the partition was broken")
}

func checkSlotsAtRest(t *testing.T, m *model, s Decision) {
	t.Helper()
	var why strings.Builder
	for _, h := range s.Holds {
		why.WriteString(h.Why + "\n")
	}
	if m.goal.MaxUnavailable+m.goal.MaxSurge == 0 || m.goal.MaxUnavailable == 0 && m.goal.Mode != ReCreate && m.notInPlace == nil {
		return // the budget never allows a step
	}
	have := map[string]bool{}
	kept, pinned := 0, 0
	for _, p := range m.facts() {
		require.False(t, p.ToDelete, "%s is named and stays\n%s", p.Key, &why)
		require.False(t, have[p.Slot], "two pods in %s\n%s", p.Slot, &why)
		have[p.Slot] = true
		i := slices.IndexFunc(m.goal.Slots, func(s Slot) bool { return s.Key == p.Slot })
		require.GreaterOrEqual(t, i, 0, "a pod in %s\n%s", p.Slot, &why)
		switch {
		case p.Old && m.goal.Slots[i].Old:
			pinned++
		case p.Old:
			kept++
		}
	}
	require.LessOrEqual(t, kept, max(m.goal.Partition-pinned, 0), "too many old pods\n%s", &why)
	require.Len(t, have, len(m.goal.Slots), &why)
}

package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// blueGreen is the goal that kruise-rollouts sets during a blue-green rollout of 5 pods: no pod may be unavailable, none becomes available
// because minReadySeconds is 68 years, and maxSurge is the size of the step.
func blueGreen(surge int) Goal { return Goal{Replicas: 5, MaxSurge: surge, Mode: ReCreate} }

func TestBlueGreen(t *testing.T) {
	t.Parallel()
	blue := func(n int) []Pod { return many(n, "blue", old, notAvailable) }
	green := func(n int) []Pod { return many(n, "green", notAvailable) }
	rollback := func(g Goal) Goal { g.Partition, g.Rollback = g.Replicas, true; return g }
	for _, tc := range []struct {
		name string
		goal Goal
		pods []Pod
		want []string
	}{
		{
			name: "green pods are created beside the blue ones",
			goal: blueGreen(3), pods: blue(5),
			want: []string{"Create new Surge", "Create new Surge", "Create new Surge", "hold Budget 5"},
		},
		{
			name: "at half, ready pods of both colors stay",
			goal: blueGreen(3), pods: slices.Concat(blue(5), green(3)),
			want: []string{"hold Budget 1", "hold InFlight 2"},
		},
		{
			name: "from half to all, the other green pods are created",
			goal: blueGreen(5), pods: slices.Concat(blue(5), green(3)),
			want: []string{"Create new Surge", "Create new Surge", "hold Budget 1", "hold InFlight 2"},
		},
		{
			name: "at all, ready pods of both colors stay",
			goal: blueGreen(5), pods: slices.Concat(blue(5), green(5)),
			want: []string{"hold Budget 5"},
		},
		{
			name: "ready pods of both colors stay while paused, too",
			goal: Goal{Replicas: 5, MaxSurge: 5, Paused: true}, pods: slices.Concat(blue(5), green(5)),
			want: []string{"hold Budget 5"},
		},
		{
			name: "a blue pod that is not ready is deleted",
			goal: blueGreen(5), pods: slices.Concat(blue(4), []Pod{pod("blue05", old, unready)}, green(5)),
			want: []string{"Delete blue05 ScaleIn", "hold Budget 4"},
		},
		{
			name: "maxUnavailable allows the deletion of one blue pod",
			goal: Goal{Replicas: 5, MaxSurge: 5, MaxUnavailable: 1}, pods: slices.Concat(blue(5), green(5)),
			want: []string{"Delete blue00 ScaleIn", "hold Budget 4"},
		},
		{
			name: "a scale-in deletes as many pods of each color",
			goal: Goal{Replicas: 3, MaxSurge: 5}, pods: slices.Concat(blue(5), green(5)),
			want: []string{
				"Delete blue00 ScaleIn", "Delete blue01 ScaleIn", "Delete green00 ScaleIn", "Delete green01 ScaleIn", "hold Budget 3",
			},
		},
		{
			name: "a named blue pod waits for green ones",
			goal: blueGreen(5), pods: slices.Concat(blue(4), []Pod{pod("blue05", old, notAvailable, toDelete)}, green(5)),
			want: []string{"hold Budget 1", "hold Budget 4"},
		},
		{
			name: "a promotion deletes all blue pods",
			goal: blueGreen(5), pods: slices.Concat(many(5, "blue", old), many(5, "green")),
			want: []string{"Delete blue00 ScaleIn", "Delete blue01 ScaleIn", "Delete blue02 ScaleIn", "Delete blue03 ScaleIn", "Delete blue04 ScaleIn"},
		},
		{
			name: "when the partition returns to the old revision, pods of the new one are the blue ones",
			goal: rollback(blueGreen(5)), pods: slices.Concat(many(5, "was", notAvailable), many(3, "is", old, notAvailable)),
			want: []string{"Create old Surge", "Create old Surge", "hold Budget 1", "hold InFlight 2"},
		},
		{
			name: "in a slot, the green pod is created beside the blue one",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 1}, pods: []Pod{in("n1", old, notAvailable), in("n2", old, notAvailable)},
			want: []string{"Create new n1 Surge", "hold Budget 1"},
		},
		{
			name: "in a slot, ready pods of both colors stay",
			goal: Goal{Slots: slotsOf(0, "n1", "n2"), MaxSurge: 2},
			pods: []Pod{in("n1", old, notAvailable), beside(notAvailable), in("n2", old, notAvailable), pod("n2-2", func(p *Pod) { p.Slot = "n2" }, notAvailable)},
		},
		{
			name: "in a slot, the blue pod is deleted when the green one is available",
			goal: Goal{Slots: slotsOf(0, "n1"), MaxSurge: 1}, pods: []Pod{in("n1", old, notAvailable), beside()},
			want: []string{"Delete n1 Recreate"},
		},
		{
			name: "in slots without surge, as many are deleted as may be unavailable",
			goal: Goal{Slots: slotsOf(0, "0", "1", "2"), MaxUnavailable: 1},
			pods: []Pod{in("0", old, notAvailable), in("1", old, notAvailable, order(-1)), in("2", old, notAvailable, order(-2))},
			want: []string{"Delete 2 Recreate", "hold Budget 2"},
		},
		{
			name: "in slots, the next one waits until the updated pod is available",
			goal: Goal{Slots: slotsOf(0, "0", "1", "2"), MaxUnavailable: 1, Mode: InPlaceIfPossible},
			pods: []Pod{in("0", old, notAvailable), in("1", old, notAvailable, order(-1)), in("2", notAvailable, order(-2))},
			want: []string{"hold Budget 2"},
		},
		{
			name: "in slots, a named pod waits likewise",
			goal: Goal{Slots: slotsOf(0, "0", "1", "2"), MaxUnavailable: 1},
			pods: []Pod{in("0", old, notAvailable, toDelete), in("1", old, notAvailable, order(-1)), in("2", notAvailable, order(-2))},
			want: []string{"hold Budget 1", "hold Budget 1"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, brief(Next(tc.goal, tc.pods, start)))
		})
	}
}

// TestReplayBlueGreen rolls out one revision after the other, with the steps of a blue-green Rollout: half, all, promotion.
func TestReplayBlueGreen(t *testing.T) {
	t.Parallel()
	for name, slots := range map[string][]Slot{"blue-green": nil, "blue-green-in-slots": slotsOf(0, "n1", "n2", "n3", "n4", "n5")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := blueGreen(3)
			g.Slots = slots
			m := newModel(g, 5)
			for i, key := range m.names() {
				if slots != nil {
					m.pods[key].slot = slots[i].Key
				}
			}
			var out strings.Builder
			never := int(68 * 365 * 24 * time.Hour / time.Second)
			m.target, m.minReady = "v2", never
			out.WriteString("# v2 for 5 pods, half of them at first; no pod becomes available\n")
			m.play(&out, 8)
			out.WriteString("# all\n")
			m.goal.MaxSurge = 5
			m.play(&out, 8)
			require.Len(t, m.pods, 10, out.String())
			out.WriteString("# promoted\n")
			m.minReady, m.goal.MaxSurge, m.goal.MaxUnavailable = 0, 0, 1
			m.rest(t, &out)
			golden(t, name, out.String())
		})
	}
}

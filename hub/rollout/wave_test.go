package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/hub/rollout"
)

// in puts the cluster of a part into a wave.
func in(wave int) func(p *rollout.Part) { return func(p *rollout.Part) { p.Wave = wave } }

// updatedPart returns a part whose pods are all updated and available.
func updatedPart(cluster string, replicas int) rollout.Part {
	return updating(cluster, replicas, 0, 1, replicas)
}

func TestWavesAreUpdatedInTheirOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		limits rollout.Limits
		parts  []rollout.Part
		want   string
	}{
		{
			"clusters of later waves keep their content",
			rollout.Limits{Desired: 12, MaxUnavailable: 12},
			[]rollout.Part{with(settled("a", 6), in(1)), settled("b", 6)},
			"old 0:-, new 0:6",
		}, {
			"a wave that has begun gets what is free",
			rollout.Limits{Desired: 12, MaxUnavailable: 4, Open: 1},
			[]rollout.Part{updatedPart("a", 6), with(settled("b", 6), in(1))},
			"new 0:1, new 0:4",
		}, {
			"a wave is limited in pods",
			rollout.Limits{Desired: 12, MaxUnavailable: 6, Pods: 5},
			[]rollout.Part{settled("a", 3), settled("b", 9)},
			"new 0:3, new 7:2",
		}, {
			"when its gates have opened, the rest of its pods comes first",
			rollout.Limits{Desired: 12, MaxUnavailable: 2, Open: 1},
			[]rollout.Part{updating("b", 9, 7, 2, 2), with(settled("a", 3), in(1))},
			"new 0:2, old 0:-",
		}, {
			"at most one cluster of a wave",
			rollout.Limits{Desired: 12, MaxUnavailable: 6, Clusters: 1},
			[]rollout.Part{settled("a", 3), settled("b", 9)},
			"new 0:3, old 0:-",
		}, {
			"the next cluster follows when the first one is complete",
			rollout.Limits{Desired: 12, MaxUnavailable: 6, Clusters: 1},
			[]rollout.Part{updatedPart("a", 3), settled("b", 9)},
			"new 0:1, new 0:6",
		}, {
			"subsets of a cluster are updated together",
			rollout.Limits{Desired: 12, MaxUnavailable: 12, Clusters: 1},
			[]rollout.Part{settled("a", 3), with(settled("a", 4), subset2), settled("b", 5)},
			"new 0:3, new 0:4, old 0:-",
		}, {
			"the first revision has no waves",
			rollout.Limits{Desired: 6, MaxUnavailable: 1, First: true},
			[]rollout.Part{joining("a", 3), with(joining("b", 3), in(1))},
			"new 0:-, new 0:-",
		}, {
			"a cluster that joins a later wave gets the previous revision",
			rollout.Limits{Desired: 6, MaxUnavailable: 1},
			[]rollout.Part{joining("a", 3), with(joining("b", 3), in(1))},
			"new 0:-, old 0:-",
		}, {
			"a cluster that is moved to a later wave stops",
			rollout.Limits{Desired: 12, MaxUnavailable: 4},
			[]rollout.Part{settled("a", 3), with(updating("b", 9, 0, 2, 4), in(1))},
			"new 0:2, new 0:0",
		}, {
			"pods beyond the limit of a wave are taken back",
			rollout.Limits{Desired: 12, MaxUnavailable: 4, Pods: 5},
			[]rollout.Part{updating("a", 9, 0, 2, 4), settled("b", 3)},
			"new 4:4, old 0:-",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, grants(rollout.Next(c.limits, c.parts).Steps))
		})
	}
}

func TestAWaveBeginsWhenTheGatesOfTheEarlierOnesHaveOpened(t *testing.T) {
	t.Parallel()
	const soak = time.Minute
	plain, rest := rollout.Wave{}, rollout.Wave{}
	approval := rollout.Wave{Approval: true}
	for _, c := range []struct {
		name      string
		waves     []rollout.Wave
		open      int
		soaked    time.Duration
		skipStale bool
		parts     []rollout.Part
		want      rollout.Progress
	}{
		{
			"its pods are not updated",
			[]rollout.Wave{plain, rest},
			0, 0, false,
			[]rollout.Part{updating("a", 3, 0, 1, 2), with(settled("b", 3), in(1))},
			rollout.Progress{Phase: rollout.Updating},
		}, {
			"its pods are updated and not available",
			[]rollout.Wave{plain, rest},
			0, 0, false,
			[]rollout.Part{with(updatedPart("a", 3), unavailable(1)), with(settled("b", 3), in(1))},
			rollout.Progress{Phase: rollout.Updating},
		}, {
			"its report is about an earlier grant",
			[]rollout.Wave{plain, rest},
			0, 0, false,
			[]rollout.Part{with(updatedPart("a", 3), unacked), with(settled("b", 3), in(1))},
			rollout.Progress{Phase: rollout.Updating},
		}, {
			"it is healthy",
			[]rollout.Wave{plain, rest},
			0, 0, false,
			[]rollout.Part{updatedPart("a", 3), with(settled("b", 3), in(1))},
			rollout.Progress{Open: 1, Phase: rollout.Updating},
		}, {
			"so many pods are enough",
			[]rollout.Wave{{Pods: 2}, rest},
			0, 0, false,
			[]rollout.Part{updating("a", 3, 1, 1, 2), with(settled("b", 3), in(1))},
			rollout.Progress{Open: 1, Phase: rollout.Updating},
		}, {
			"too few pods",
			[]rollout.Wave{{Pods: 2}, rest},
			0, 0, false,
			[]rollout.Part{updating("a", 3, 1, 1, 1), with(settled("b", 3), in(1))},
			rollout.Progress{Phase: rollout.Updating},
		}, {
			"fewer pods than the limit exist",
			[]rollout.Wave{{Pods: 5}, rest},
			0, 0, false,
			[]rollout.Part{updatedPart("a", 3), with(settled("b", 3), in(1))},
			rollout.Progress{Open: 1, Phase: rollout.Updating},
		}, {
			"old pods that are broken don't matter",
			[]rollout.Wave{{Pods: 2}, rest},
			0, 0, false,
			[]rollout.Part{with(updating("a", 3, 1, 1, 2), broken(1)), with(settled("b", 3), in(1))},
			rollout.Progress{Open: 1, Phase: rollout.Updating},
		}, {
			"it soaks",
			[]rollout.Wave{{Soak: soak}, rest},
			0, 10 * time.Second, false,
			[]rollout.Part{updatedPart("a", 3), with(settled("b", 3), in(1))},
			rollout.Progress{Phase: rollout.Soaking, Soaked: 10 * time.Second},
		}, {
			"it has soaked",
			[]rollout.Wave{{Soak: soak}, rest},
			0, soak, false,
			[]rollout.Part{updatedPart("a", 3), with(settled("b", 3), in(1))},
			rollout.Progress{Open: 1, Phase: rollout.Updating},
		}, {
			"a pod fails while it soaks",
			[]rollout.Wave{{Soak: soak}, rest},
			0, 50 * time.Second, false,
			[]rollout.Part{with(updatedPart("a", 3), unavailable(1)), with(settled("b", 3), in(1))},
			rollout.Progress{Phase: rollout.Updating},
		}, {
			"a pod of an earlier wave fails while it soaks",
			[]rollout.Wave{plain, {Soak: soak}, rest},
			1, 50 * time.Second, false,
			[]rollout.Part{with(updatedPart("a", 3), unavailable(1)), with(updatedPart("b", 3), in(1)), with(settled("c", 3), in(2))},
			rollout.Progress{Open: 1, Phase: rollout.Updating},
		}, {
			"nobody has approved",
			[]rollout.Wave{approval, rest},
			0, 0, false,
			[]rollout.Part{updatedPart("a", 3), with(settled("b", 3), in(1))},
			rollout.Progress{Phase: rollout.AwaitingApproval},
		}, {
			"somebody has approved",
			[]rollout.Wave{{Approval: true, Approved: true}, rest},
			0, 0, false,
			[]rollout.Part{updatedPart("a", 3), with(settled("b", 3), in(1))},
			rollout.Progress{Open: 1, Phase: rollout.Updating},
		}, {
			"an approval doesn't shorten the time",
			[]rollout.Wave{{Soak: soak, Approval: true, Approved: true}, rest},
			0, 0, false,
			[]rollout.Part{updatedPart("a", 3), with(settled("b", 3), in(1))},
			rollout.Progress{Phase: rollout.Soaking},
		}, {
			"the gates of a wave without clusters count",
			[]rollout.Wave{approval, rest},
			0, 0, false,
			[]rollout.Part{with(settled("b", 3), in(1))},
			rollout.Progress{Phase: rollout.AwaitingApproval},
		}, {
			"several waves without gates",
			[]rollout.Wave{plain, plain, plain, rest},
			0, 0, false,
			[]rollout.Part{updatedPart("a", 3), with(settled("b", 3), in(3))},
			rollout.Progress{Open: 3, Phase: rollout.Updating},
		}, {
			"a cluster doesn't answer",
			[]rollout.Wave{plain, rest},
			0, 0, false,
			[]rollout.Part{updatedPart("a", 3), with(settled("b", 3), dark), with(settled("c", 3), in(1))},
			rollout.Progress{Phase: rollout.Updating},
		}, {
			"clusters that don't answer are left behind",
			[]rollout.Wave{plain, rest},
			0, 0, true,
			[]rollout.Part{updatedPart("a", 3), with(settled("b", 3), dark), with(settled("c", 3), in(1))},
			rollout.Progress{Open: 1, Phase: rollout.Updating},
		}, {
			"no cluster of the wave answers, so that no pod has tried the revision",
			[]rollout.Wave{plain, rest},
			0, 0, true,
			[]rollout.Part{with(settled("a", 3), dark), with(settled("c", 3), in(1))},
			rollout.Progress{Phase: rollout.Updating},
		}, {
			"a subset that is emptied isn't waited for",
			[]rollout.Wave{plain, rest},
			0, 0, false,
			[]rollout.Part{updatedPart("a", 3), with(settled("a", 3), subset2, leaving), with(settled("b", 3), in(1))},
			rollout.Progress{Open: 1, Phase: rollout.Updating},
		}, {
			"everything is updated",
			[]rollout.Wave{approval, rest},
			1, 0, false,
			[]rollout.Part{updatedPart("a", 3), with(updatedPart("b", 3), in(1))},
			rollout.Progress{Open: 1, Phase: rollout.Done},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, rollout.Advance(c.waves, c.open, c.soaked, c.skipStale, c.parts))
		})
	}
}

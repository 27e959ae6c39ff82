package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

const (
	soaks    = "wave canary is updated, and must be healthy for 600 s before the next wave begins"
	approves = "wave canary is updated, and waits for an approval: kubectl kruise rollout approve ud/demo --wave canary"
)

// inWaves returns a UnitedDeployment on a hub that updates cluster eu-1 first, as wave canary, and then eu-2 and us-1, as wave rest. updated are
// the numbers of updated pods in eu-1, eu-2 and us-1. All pods are available.
func inWaves(canary, rest pods.RolloutWavePhase, message string, updated [3]int32, change ...changeUD) *appsv1beta1.UnitedDeployment {
	return overHub(append([]changeUD{func(ud *appsv1beta1.UnitedDeployment) {
		rolloutOf(func(r *pods.RolloutPlan) {
			r.Waves = []pods.RolloutWave{{Name: "canary", Clusters: []string{"eu-1"}, Gates: []pods.RolloutGate{{Type: pods.ApprovalGate}, {Type: pods.SoakGate, Seconds: new(int32(600))}}}}
			r.Gates = []pods.RolloutGate{{Type: pods.SoakGate, Seconds: new(int32(60))}}
		})(ud)
		s := &ud.Status
		for i, n := range updated {
			s.SubsetStatuses[i].UpdatedReplicas = n
		}
		n := updated[0] + updated[1] + updated[2]
		s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas = n, n, n
		s.Rollout = &pods.RolloutStatus{
			Budget: pods.RolloutBudget{Max: 2}, Message: message, Revision: "demo-3", Wave: "canary",
			Waves: []pods.RolloutWaveStatus{
				{Name: "canary", Phase: canary, Clusters: 1, Pods: 2, Updated: updated[0]},
				{Name: "rest", Phase: rest, Clusters: 2, Pods: 3, Updated: updated[1] + updated[2]},
			},
		}
		if rest != pods.WavePending {
			s.Rollout.Wave = "rest"
		}
	}}, change...)...)
}

// soaked sets how long the wave has been healthy.
func soaked(seconds int32) changeUD {
	return func(ud *appsv1beta1.UnitedDeployment) { ud.Status.Rollout.SoakedSeconds = seconds }
}

// broken makes pods of a subset unavailable.
func broken(subset int, n int32) changeUD {
	return func(ud *appsv1beta1.UnitedDeployment) {
		s := &ud.Status
		s.SubsetStatuses[subset].AvailableReplicas -= n
		s.ReadyReplicas, s.AvailableReplicas = s.ReadyReplicas-n, s.AvailableReplicas-n
		s.Rollout.Budget.Spent, s.Rollout.Budget.Bound = n, n+1
	}
}

// wholeRollout returns a rollout from its beginning to its end.
func wholeRollout() []*appsv1beta1.UnitedDeployment {
	const missing = "some pods are not available: eu-1 (1)"
	return []*appsv1beta1.UnitedDeployment{
		inWaves(pods.WaveDone, pods.WaveDone, "", [3]int32{2, 2, 1}, func(ud *appsv1beta1.UnitedDeployment) { ud.Generation = 3 }),
		inWaves(pods.WaveUpdating, pods.WavePending, missing, [3]int32{1, 0, 0}, broken(0, 1)),
		inWaves(pods.WaveUpdating, pods.WavePending, missing, [3]int32{1, 0, 0}, broken(0, 1)),
		inWaves(pods.WaveSoaking, pods.WavePending, soaks, [3]int32{2, 0, 0}),
		inWaves(pods.WaveSoaking, pods.WavePending, soaks, [3]int32{2, 0, 0}, soaked(120)),
		inWaves(pods.WaveAwaitingApproval, pods.WavePending, approves, [3]int32{2, 0, 0}, soaked(600)),
		inWaves(pods.WaveDone, pods.WaveUpdating, "some pods are not available: eu-2 (1)", [3]int32{2, 1, 0}, broken(1, 1)),
		inWaves(pods.WaveDone, pods.WaveDone, "", [3]int32{2, 2, 1}),
	}
}

// readable shows the control sequences that move the cursor.
func readable(out string) string {
	out = strings.ReplaceAll(out, redraw, "<redraw>\n")
	for i := range 40 {
		out = strings.ReplaceAll(out, fmt.Sprintf(redrawAll, i), fmt.Sprintf("\n<up %d, redraw>\n", i))
	}
	return out
}

func TestLinesListWavesThatChange(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &lines{out: &out}
	for _, ud := range wholeRollout() {
		require.NoError(t, l.print(rolloutStateFor(t, ud)))
	}
	require.NoError(t, l.end())
	golden(t, "status-lines-waves", out.String())
}

func TestABarIsDrawnWithWaves(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &bar{out: &out, width: 80, height: 24}
	for _, ud := range wholeRollout() {
		require.NoError(t, b.print(rolloutStateFor(t, ud)))
	}
	require.NoError(t, b.end())
	golden(t, "bar-waves", readable(out.String()))
}

func TestABarThatIsStoppedListsClustersInTheMiddle(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &bar{out: &out, width: 100}
	require.NoError(t, b.print(rolloutStateFor(t, inWaves(pods.WaveDone, pods.WaveUpdating, "pods are being updated", [3]int32{2, 1, 0}))))
	require.NoError(t, b.end())
	require.NoError(t, b.end())
	golden(t, "bar-waves-stopped", readable(out.String()))
}

func TestARolloutInWavesIsFollowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ud   *appsv1beta1.UnitedDeployment
		args string
		out  string
		fail string
	}{
		{
			"an approval is awaited until the timeout, with the command that gives it", inWaves(pods.WaveAwaitingApproval, pods.WavePending, approves, [3]int32{2, 0, 0}), "--timeout=300ms",
			"2 of 5 new pods have been updated; " + approves + "...\n", "ud/demo: not complete after 300ms: 2 of 5 new pods have been updated; " + approves,
		},
		{
			"a paused rollout names the way out", inWaves(pods.WaveUpdating, pods.WavePending, "paused", [3]int32{1, 0, 0}, pausedWaves), "--watch=false",
			"paused, until kubectl kruise rollout resume ud/demo; paused...\n  wave canary [===============...............] 1/2 updated, 1 cluster, updating\n", "",
		},
		{
			"the soak time is the longest of all gates", inWaves(pods.WaveSoaking, pods.WavePending, soaks, [3]int32{2, 0, 0}, rolloutOf(func(r *pods.RolloutPlan) {
				r.Gates[0].Seconds = new(int32(900))
			}), soaked(45)), "--watch=false", "2/2 updated, 1 cluster, soaking 45 s of 900 s\n", "",
		},
		{
			"pods of a wave that are updated before its gates are named", inWaves(pods.WaveUpdating, pods.WavePending, "", [3]int32{0, 0, 0}, rolloutOf(func(r *pods.RolloutPlan) {
				r.Waves[0].Pods = new(int32(1))
			})), "--watch=false", "0/2 updated (1 before the next wave), 1 cluster, updating\n", "",
		},
		{
			"a phase of a newer hub is shown as it is", inWaves("Analysing", pods.WavePending, "", [3]int32{2, 0, 0}), "--watch=false",
			"2/2 updated, 1 cluster, analysing\n", "",
		},
		{
			"a hub without waves in the status has no lines for them", inWaves(pods.WaveUpdating, pods.WavePending, "", [3]int32{1, 0, 0}, func(ud *appsv1beta1.UnitedDeployment) {
				ud.Status.Rollout.Waves = nil
			}), "--watch=false", "1 of 5 new pods have been updated; budget: 0 of 2 pods unavailable, at most 0...\n  eu-eu-1 in cluster eu-1: 1/2", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, newCluster(t, c.ud), "rollout", "status", "ud/demo", c.args)
			if c.fail != "" {
				require.EqualError(t, err, c.fail)
			} else {
				require.NoError(t, err)
			}
			require.Contains(t, out, c.out)
		})
	}
}

func TestWavesFitTheTerminal(t *testing.T) {
	t.Parallel()
	var waves []wave
	for i := range 9 {
		waves = append(waves, wave{name: fmt.Sprintf("wave-%d", i), done: i < 5, phase: "pending", clusters: 2, pods: 20})
	}
	shown := func(room int) string {
		var out []string
		for _, line := range listSome(waves, 0, room) {
			line = strings.TrimPrefix(line, "  ")
			out = append(out, strings.TrimPrefix(strings.SplitN(line, " [", 2)[0], "wave wave-"))
		}
		return strings.Join(out, " ")
	}
	require.Equal(t, "0 1 2 3 4 5 6 7 8", shown(9))
	require.Equal(t, "2 3 4 5 6 7 8 waves not shown: 2", shown(8))
	require.Equal(t, "4 5 6 waves not shown: 6", shown(4))
	require.Equal(t, "5 waves not shown: 8", shown(0))
	for i := range waves {
		waves[i].done = true
	}
	require.Equal(t, "0 1 2 waves not shown: 6", shown(4))

	long := []wave{{name: "a", phase: "soaking 120 s of 600 s", clusters: 13, pods: 120, updated: 60}, {name: "canary", phase: "done", clusters: 1, pods: 2, updated: 2}}
	require.Equal(t, []string{
		"  wave a      [======......] 60/120 updated, 13 clusters, soaking 120 s of 600 s",
		"  wave canary [============] 2/2 updated, 1 cluster, done",
	}, listWaves(long, 82))
	require.Equal(t, "  wave a      60/120 updated, 13 clusters, soaking 120 s of 600 s", listWaves(long, 70)[0], "a short bar is left out")

	// What it waits for may fill several rows. They count when the cursor moves up.
	b := &bar{width: 40, height: 10}
	s := rolloutState{name: "demo", want: 5, goal: 5, total: 5, waves: waves, budget: "budget", waits: strings.Repeat("x", 78)}
	text, rows := b.render(s)
	require.Equal(t, 10, rows)
	require.Equal(t, "  "+strings.Repeat("x", 78)+" ", strings.Split(text, "\n")[6], "a row that is full is followed by a space")
	s.waits = ""
	_, rows = b.render(s)
	require.Equal(t, 10, rows)
}

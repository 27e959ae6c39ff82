package uniteddeployment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// wavy is a settled world whose rollouts have waves, with a hub that can be restarted.
type wavy struct {
	*world
	now    time.Time
	times  soaks
	events []event.Event
	// began is true if the last plan let a wave begin.
	began bool
}

// newWaves returns a world with 12 replicas of version a in three clusters: east, then north, then the rest.
func newWaves(t *testing.T, gates ...pods.RolloutGate) *wavy {
	t.Helper()
	w := &wavy{world: newRollout(t), now: time.Unix(1000, 0)}
	w.o.ud.Spec.UpdateStrategy.Rollout.Waves = []pods.RolloutWave{
		{Name: "canary", Clusters: []string{"east"}, Gates: gates},
		{Name: "second", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "n"}}},
	}
	w.o.Clusters["north"].Labels["zone"] = "n"
	return w
}

// reconcile plans once, writes the rows or the status, and lets the members apply. It returns the plan, and how many rows were written.
func (w *wavy) reconcile(t *testing.T) (planned, int) {
	t.Helper()
	w.o.soaked = w.times.elapsed(w.o.ud, w.now)
	p, writes, r := plan(w.o), 0, placement.Result{Rows: w.o.Rows}
	w.times.planned(w.o.ud, p, w.now)
	if w.began = p.rollout.waves.begins(); w.began {
		r.Err = placement.ErrPlanAgain
	} else {
		_, writes = w.step(t)
	}
	s, events := reported(w.o, p, r, w.now)
	w.o.ud.Status, w.events = s, append(w.events, events...)
	w.applyRows()
	return p, writes
}

// settleWaves reconciles until nothing is written.
func (w *wavy) settleWaves(t *testing.T) {
	t.Helper()
	for range 50 {
		before := w.o.ud.Status.DeepCopy()
		if _, writes := w.reconcile(t); writes == 0 && equal(before.Rollout, w.o.ud.Status.Rollout) {
			return
		}
	}
	require.Fail(t, "the rollout doesn't come to rest")
}

func equal(a, b *pods.RolloutStatus) bool {
	return a != nil && b != nil && a.Message == b.Message && a.Wave == b.Wave && a.Revision == b.Revision && a.SoakedSeconds == b.SoakedSeconds
}

func (w *wavy) phases() map[string]pods.RolloutWavePhase {
	out := map[string]pods.RolloutWavePhase{}
	for _, line := range w.o.ud.Status.Rollout.Waves {
		out[line.Name] = line.Phase
	}
	return out
}

func (w *wavy) approve(revision, wave string) {
	w.o.approvals = append(w.o.approvals, fleetv1alpha1.RolloutApproval{Spec: fleetv1alpha1.RolloutApprovalSpec{
		Target:   fleetv1alpha1.RolloutTarget{Kind: fleetv1alpha1.RolloutUnitedDeployment, Name: w.o.ud.Name, UID: string(w.o.ud.UID)},
		Revision: revision, Wave: wave,
	}})
}

func soakForAMinute() pods.RolloutGate {
	return pods.RolloutGate{Type: pods.SoakGate, Seconds: new(int32(60))}
}

func TestWavesFollowEachOther(t *testing.T) {
	t.Parallel()
	w := newWaves(t)
	w.version("b")
	w.reconcile(t)
	require.Equal(t, map[string]string{"east": "b", "north": "a", "west": "a"}, w.versions())
	require.Equal(t, []pods.RolloutWaveStatus{
		{Name: "canary", Phase: pods.WaveUpdating, Clusters: 1, Pods: 4},
		{Name: "second", Phase: pods.WavePending, Clusters: 1, Pods: 4},
		{Name: "rest", Phase: pods.WavePending, Clusters: 1, Pods: 4},
	}, w.o.ud.Status.Rollout.Waves)
	w.settleWaves(t)
	require.Equal(t, map[string]string{"east": "b", "north": "b", "west": "b"}, w.versions())
	require.Equal(t, w.o.ud.Status.UpdatedRevision, w.o.ud.Status.CurrentRevision)
	w.reconcile(t)
	require.Equal(t, map[string]pods.RolloutWavePhase{"canary": pods.WaveDone, "second": pods.WaveDone, "rest": pods.WaveDone}, w.phases())
	require.Empty(t, w.o.ud.Status.Rollout.Message)
	var notes []string
	for _, e := range w.events {
		if e.Reason == eventWave {
			notes = append(notes, e.Note)
		}
	}
	r := w.o.ud.Status.UpdatedRevision
	require.Equal(t, []string{
		"wave canary begins to be updated to revision " + r, "wave second begins to be updated to revision " + r,
		"wave rest begins to be updated to revision " + r,
	}, notes)
}

// A hub that stops after it has written a row of the next wave must not hold that wave up.
func TestTheStatusNamesAWaveBeforeItsRowsAreWritten(t *testing.T) {
	t.Parallel()
	w := newWaves(t)
	w.version("b")
	for range 50 {
		_, writes := w.reconcile(t)
		if w.began {
			require.Zero(t, writes)
			require.Equal(t, map[string]string{"east": "b", "north": "a", "west": "a"}, w.versions())
			require.Equal(t, "second", w.o.ud.Status.Rollout.Wave)
			return
		}
	}
	require.Fail(t, "no wave begins")
}

func TestAWaveSoaks(t *testing.T) {
	t.Parallel()
	w := newWaves(t, soakForAMinute())
	w.version("b")
	w.settleWaves(t)
	require.Equal(t, pods.WaveSoaking, w.phases()["canary"])
	require.Equal(t, "wave canary is updated, and must be healthy for 60 s before the next wave begins", w.o.ud.Status.Rollout.Message)

	w.now = w.now.Add(25 * time.Second)
	p, writes := w.reconcile(t)
	require.Zero(t, writes)
	require.Equal(t, int32(20), w.o.ud.Status.Rollout.SoakedSeconds, "it is stored from time to time")
	require.Equal(t, 5*time.Second, p.Recheck)

	w.times = soaks{} // The hub restarts.
	w.now = w.now.Add(time.Hour)
	w.reconcile(t)
	require.Equal(t, pods.WaveSoaking, w.phases()["canary"], "time without a hub doesn't count")
	w.now = w.now.Add(39 * time.Second)
	w.reconcile(t)
	require.Equal(t, pods.WaveSoaking, w.phases()["canary"])
	w.now = w.now.Add(time.Second)
	w.settleWaves(t)
	require.Equal(t, map[string]string{"east": "b", "north": "b", "west": "b"}, w.versions())
}

func TestAWaveThatIsNotHealthySoaksAnew(t *testing.T) {
	t.Parallel()
	w := newWaves(t, soakForAMinute())
	w.version("b")
	w.settleWaves(t)
	w.now = w.now.Add(50 * time.Second)
	w.o.Rows["east"].Status.Subsets[0].UpdatedAvailable = 3
	w.o.soaked = w.times.elapsed(w.o.ud, w.now)
	p := plan(w.o)
	w.times.planned(w.o.ud, p, w.now)
	require.Zero(t, p.rollout.waves.progress.Soaked)
	w.applyRows()
	w.now = w.now.Add(20 * time.Second)
	w.reconcile(t)
	require.Equal(t, pods.WaveSoaking, w.phases()["canary"], "although the status, which was not written, has 50 s")
	w.now = w.now.Add(59 * time.Second)
	w.reconcile(t)
	require.Equal(t, pods.WaveSoaking, w.phases()["canary"], "the time before the failure doesn't count")
}

func TestAWaveThatHasSoakedWaitsForItsApprovalAlone(t *testing.T) {
	t.Parallel()
	w := newWaves(t, soakForAMinute(), pods.RolloutGate{Type: pods.ApprovalGate})
	w.version("b")
	w.settleWaves(t)
	require.Equal(t, pods.WaveSoaking, w.phases()["canary"])
	w.now = w.now.Add(time.Minute)
	w.settleWaves(t)
	require.Equal(t, pods.WaveAwaitingApproval, w.phases()["canary"])
	require.Equal(t, int32(60), w.o.ud.Status.Rollout.SoakedSeconds)
	w.times = soaks{} // The hub restarts.
	w.settleWaves(t)
	require.Equal(t, pods.WaveAwaitingApproval, w.phases()["canary"])
}

func TestTheWaveOfACluster(t *testing.T) {
	t.Parallel()
	of := newMatcher([]pods.RolloutWave{
		{Name: "named", Clusters: []string{"east"}},
		{Name: "by subset", Subsets: []string{"b"}},
		{Name: "by label", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}},
		{Name: "any of them", Clusters: []string{"west", "east"}, Subsets: []string{"c"}},
		{Name: "refused", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}},
	})
	web := map[string]string{"tier": "web"}
	require.Equal(t, 0, of.wave("east", web, []string{"a", "b"}), "the first one counts")
	require.Equal(t, 1, of.wave("north", web, []string{"a", "b"}))
	require.Equal(t, 2, of.wave("west", web, []string{"a", "c"}))
	require.Equal(t, 3, of.wave("west", nil, []string{"a"}))
	require.Equal(t, 3, of.wave("north", nil, []string{"c"}))
	require.Equal(t, 5, of.wave("north", nil, []string{"a"}), "rest")
}

func TestAWaveWaitsForAnApproval(t *testing.T) {
	t.Parallel()
	w := newWaves(t, pods.RolloutGate{Type: pods.ApprovalGate})
	w.version("b")
	w.settleWaves(t)
	require.Equal(t, pods.WaveAwaitingApproval, w.phases()["canary"])
	require.Contains(t, w.o.ud.Status.Rollout.Message, "kubectl kruise rollout approve ud/web --wave canary")
	target := w.o.ud.Status.UpdatedRevision
	w.approve("another", "canary")
	w.approve(target, "second")
	w.settleWaves(t)
	require.Equal(t, pods.WaveAwaitingApproval, w.phases()["canary"], "for another revision, and another wave")
	w.approve(target, "canary")
	w.settleWaves(t)
	require.Equal(t, map[string]string{"east": "b", "north": "b", "west": "b"}, w.versions())
}

func TestARollbackDoesNotWaitForWaves(t *testing.T) {
	t.Parallel()
	w := newWaves(t, soakForAMinute())
	w.version("b")
	w.settleWaves(t)
	w.now = w.now.Add(time.Minute)
	w.reconcile(t) // The second wave begins.
	w.reconcile(t)
	require.Equal(t, map[string]string{"east": "b", "north": "b", "west": "a"}, w.versions())
	w.version("a")
	w.settleWaves(t)
	require.Equal(t, map[string]string{"east": "a", "north": "a", "west": "a"}, w.versions())
	require.Empty(t, w.o.ud.Status.Rollout.Wave)
}

func TestANewTemplateStartsWithTheFirstWaveAgain(t *testing.T) {
	t.Parallel()
	w := newWaves(t, soakForAMinute())
	w.version("b")
	w.settleWaves(t)
	w.now = w.now.Add(time.Minute)
	w.reconcile(t)
	require.Equal(t, "second", w.o.ud.Status.Rollout.Wave)
	w.version("c")
	w.settleWaves(t)
	require.Equal(t, "canary", w.o.ud.Status.Rollout.Wave)
	require.Equal(t, map[string]string{"east": "c", "north": "a", "west": "a"}, w.versions())
	require.Equal(t, pods.WaveSoaking, w.phases()["canary"])
}

func TestWavesThatChangeInTheMiddle(t *testing.T) {
	t.Parallel()
	second := func(w *wavy) {
		w.now = w.now.Add(time.Minute)
		w.reconcile(t)
	}
	for name, c := range map[string]struct {
		change func(w *wavy)
		wave   string
		want   map[string]string
	}{
		"a wave that has begun is renamed: it begins again": {func(w *wavy) {
			second(w)
			w.o.ud.Spec.UpdateStrategy.Rollout.Waves[1].Name = "other"
		}, "canary", map[string]string{"east": "b", "north": "a", "west": "a"}},
		"a cluster is relabelled into a wave that has begun": {func(w *wavy) {
			second(w)
			w.o.Clusters["west"].Labels["zone"] = "n"
		}, "rest", map[string]string{"east": "b", "north": "b", "west": "b"}},
		"a cluster of a wave that has not begun leaves": {func(w *wavy) {
			delete(w.o.Clusters["north"].Labels, "tier")
		}, "canary", map[string]string{"east": "b", "north": "a", "west": "a"}},
		"the waves are removed": {func(w *wavy) {
			w.o.ud.Spec.UpdateStrategy.Rollout.Waves = nil
		}, "", map[string]string{"east": "b", "north": "b", "west": "b"}},
		"the clusters of the first wave are gone: its gates still count": {func(w *wavy) {
			w.o.ud.Spec.UpdateStrategy.Rollout.Waves[0].Clusters = []string{"gone"}
		}, "canary", map[string]string{"east": "b", "north": "a", "west": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWaves(t, soakForAMinute())
			w.version("b")
			w.settleWaves(t)
			c.change(w)
			w.settleWaves(t)
			require.Equal(t, c.wave, w.o.ud.Status.Rollout.Wave)
			require.Equal(t, c.want, w.versions())
		})
	}
}

// The first revision has no older one that waves could protect.
func TestTheFirstRevisionHasNoWaves(t *testing.T) {
	t.Parallel()
	w := newWaves(t, pods.RolloutGate{Type: pods.ApprovalGate})
	w.o.history, w.o.ud.Status = nil, appsv1beta1.UnitedDeploymentStatus{}
	clear(w.o.Rows)
	clear(w.slices)
	w.settleWaves(t)
	require.Equal(t, map[string]string{"east": "a", "north": "a", "west": "a"}, w.versions())
}

// If the hub doesn't know what a cluster has, that may be an older revision.
func TestClustersWhoseContentIsUnknownWaitForTheirWave(t *testing.T) {
	t.Parallel()
	w := newWaves(t)
	w.version("b")
	w.o.history, w.o.ud.Status.CurrentRevision = nil, ""
	p, _ := w.step(t)
	require.True(t, p.rollout.waves.ordered)
	require.Equal(t, map[string]string{"east": "b", "north": "a", "west": "a"}, w.versions())
}

func TestTheTimeOfAGateIsStoredAtMostTwentyTimes(t *testing.T) {
	t.Parallel()
	for soak, want := range map[time.Duration]time.Duration{
		time.Second: 10 * time.Second, time.Minute: 10 * time.Second, time.Hour: 3 * time.Minute, 24 * time.Hour: 72 * time.Minute,
	} {
		require.Equal(t, want, soakStep(soak))
	}
}

package podset

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/testkit"
)

// version names a pod and sets its resourceVersion.
func version(name string, n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Name, p.UID, p.ResourceVersion = name, types.UID(name), strconv.Itoa(n) }
}

func TestMemoryViewsWhatHasChanged(t *testing.T) {
	t.Parallel()
	ready := Rules{MinReady: 10 * time.Second}
	hook := &pods.Lifecycle{PreDelete: &pods.LifecycleHook{FinalizersHandler: []string{"example.com/hook"}}}
	// Whether the pod's cost is read again without a new version.
	cheap, dear := serving(version("web-a", 1)), serving(version("web-a", 1), annotation(keys.PodDeletionCost, "5"))
	for _, tt := range []struct {
		name    string
		pod     *corev1.Pod
		rules   Rules
		after   time.Duration
		changed bool
	}{
		{name: "the same version is read from memory", pod: dear, rules: ready, after: time.Second},
		{name: "until a fact changes with time", pod: dear, rules: ready, after: 10 * time.Second, changed: true},
		{name: "or the clock is set back", pod: dear, rules: ready, after: -time.Second, changed: true},
		{name: "or the rules change", pod: dear, rules: Rules{MinReady: 11 * time.Second}, changed: true},
		{name: "or the hooks change", pod: dear, rules: Rules{MinReady: 10 * time.Second, Hooks: lifecycle.HooksOf(hook)}, changed: true},
		{name: "another version is read anew", pod: serving(version("web-a", 2), annotation(keys.PodDeletionCost, "5")), rules: ready, changed: true},
		{
			name: "and so is an older version", pod: serving(version("web-a", 0), annotation(keys.PodDeletionCost, "5")), rules: ready, changed: true,
		},
		{
			name: "and a pod without a version", rules: ready, changed: true,
			pod: serving(version("web-a", 0), annotation(keys.PodDeletionCost, "5"), func(p *corev1.Pod) { p.ResourceVersion = "" }),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var m Memory
			m.begin(ready)
			require.Zero(t, m.view(cheap, ready, start).Rank.Cost)
			m.end(1)
			m.begin(tt.rules)
			require.Equal(t, tt.changed, m.view(tt.pod, tt.rules, start.Add(tt.after)).Rank.Cost == 5)
			m.end(1)
		})
	}

	t.Run("facts are at most five minutes old", func(t *testing.T) {
		t.Parallel()
		var m Memory
		for _, step := range []struct {
			pod   *corev1.Pod
			after time.Duration
			cost  int32
		}{{cheap, 0, 0}, {dear, memorySpan - 1, 0}, {dear, memorySpan, 5}} {
			m.begin(Rules{})
			require.Equal(t, step.cost, m.view(step.pod, Rules{}, start.Add(step.after)).Rank.Cost, step.after)
			m.end(1)
		}
	})

	t.Run("pods that are gone are forgotten", func(t *testing.T) {
		t.Parallel()
		var m Memory
		for _, names := range [][]string{{"a", "b", "c"}, {"b"}, {"b", "d"}} {
			m.begin(Rules{})
			for _, n := range names {
				m.view(serving(version(n, 1)), Rules{}, start)
			}
			m.end(len(names))
			require.Len(t, m.pods, len(names))
		}
	})
}

// TestPlansWithMemoryAreThoseWithout plans from caches that show any earlier version of a pod, miss some pods, and show others again.
func TestPlansWithMemoryAreThoseWithout(t *testing.T) {
	t.Parallel()
	changes := []func(*corev1.Pod){
		phase(corev1.PodFailed), unscheduled, set(corev1.PodReady, corev1.ConditionFalse), set(keys.InPlaceUpdateReady, corev1.ConditionFalse),
		label(keys.LifecycleState, "PreparingUpdate"), label(keys.SpecifiedDelete, "true"), label("app", "other"),
		annotation(keys.InPlaceUpdateState, `{"revision":"web-6f7c","updateTimestamp":"2026-01-02T03:04:05Z","lastContainerStatuses":{"app":{"imageID":"app@sha256:0"}}}`),
		annotation(keys.InPlaceUpdateGrace, `{"revision":"web-6f7c","containerImages":{"app":"app:2"},"graceSeconds":20}`),
		annotation(keys.PodDeletionCost, "7"),
		func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} },
		func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 3, 2 },
		func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount++ },
	}
	wanted, err := revision.New(revision.Spec{Owner: testkit.CloneSet("web").Obj(), Template: &testkit.CloneSet("web").Obj().Spec.Template})
	require.NoError(t, err)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		// versions holds the pods as they were at each of their versions.
		versions := map[string][]*corev1.Pod{}
		var m Memory
		at := start
		for round := range 30 {
			for _, name := range []string{"a", "b", "c", "d"} {
				if n := len(versions[name]); n == 0 || r.IntN(4) == 0 {
					v := []func(*corev1.Pod){version(name, n+1), label("app", "web")}
					for range r.IntN(4) {
						v = append(v, changes[r.IntN(len(changes))])
					}
					versions[name] = append(versions[name], serving(v...))
				}
			}
			var shown []*corev1.Pod
			for _, all := range versions {
				if r.IntN(8) > 0 {
					shown = append(shown, all[max(0, len(all)-1-r.IntN(3))])
				}
			}
			at = at.Add(time.Duration(r.IntN(20)-2) * time.Second)
			options := ViewOptions{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Differ: &Differ{},
				Rules: Rules{MinReady: time.Duration(r.IntN(2)*15) * time.Second, Grace: 10 * time.Second},
			}
			history := History{Wanted: wanted, Pods: shown}
			plain := NewPlan(history)
			plain.Classify(shown, options, at)
			options.Memory = &m
			remembered := NewPlan(history)
			remembered.Classify(shown, options, at)
			require.Equal(t, plain.Pods, remembered.Pods, "seed %d, round %d", seed, round)
			require.Equal(t, plain.Release, remembered.Release, "seed %d, round %d", seed, round)
		}
	}
}

// requireFactsUntilTheyChange checks that Facts.ChangesAt is the first time at which a fact can change.
func requireFactsUntilTheyChange(t *testing.T, pod *corev1.Pod, r Rules, f Facts) {
	t.Helper()
	for _, after := range []time.Duration{1, time.Second, 5 * time.Second, 10 * time.Second, 35 * time.Second, time.Minute, time.Hour, 1e5 * time.Hour} {
		at := start.Add(after)
		if !f.ChangesAt.IsZero() {
			at = f.ChangesAt.Add(-after)
		}
		if at.After(start) {
			require.Empty(t, cmp.Diff(f, View(pod, r, at)), "after %s", at.Sub(start))
		}
	}
}

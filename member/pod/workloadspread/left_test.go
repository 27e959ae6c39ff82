package workloadspread

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// TestANewPodWaitsForThePlaceOfOneThatLeft creates a pod while the status still counts the one that it replaces.
func TestANewPodWaitsForThePlaceOfOneThatLeft(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// left is the subset that a pod has left. counts says whether the status still counts that pod.
		left   string
		counts bool
		subset string
		waits  time.Duration
	}{
		{name: "the place is given back", left: "a", counts: true, subset: "a", waits: 20 * time.Millisecond},
		{name: "the controller does not update the status", left: "a", subset: "c", waits: patience},
		{name: "a pod of a later subset has left", left: "c", subset: "c"},
		{name: "no pod has left", subset: "c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				full := ledger(spreading(ours, "CloneSet", subset("a", 1), subset("b", 0), subset("c", unlimited)), versionIgnored,
					line("a", 1, 0), line("b", 0, 0), line("c", 1, unlimited))
				c := store(t, full, cloneSetOf(2))
				s := newSpreader("flotilla-system", nil, true, clock.RealClock{})
				s.setClients(c, c)
				if tc.left != "" {
					s.left.add(stored("old", tc.left))
				}
				s.left.add(stored("other", "a", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "of-another" }))
				if tc.counts {
					time.AfterFunc(20*time.Millisecond, func() {
						var ws appsv1beta1.WorkloadSpread
						require.NoError(t, c.Get(t.Context(), key, &ws))
						ledger(&ws, versionIgnored, line("a", 0, 1), line("b", 0, 0), line("c", 1, unlimited))
						require.NoError(t, c.Status().Update(t.Context(), &ws))
						s.left.notify()
					})
				}
				pod := newPodOf(ours, "CloneSet", "web", "set")
				began := s.clock.Now()
				f, err := s.observe(t.Context(), c, pod)
				require.NoError(t, err)
				require.NoError(t, f.(podwebhook.Reserver).Reserve(t.Context(), pod))
				f.Change(pod)
				m, _ := matchedOf(pod)
				require.Equal(t, tc.subset, m.Subset)
				require.Equal(t, tc.waits, s.clock.Since(began))
			})
		})
	}
}

// TestANewPodDoesNotWaitForAllThatLeave creates a pod during a rollout in which pods leave a full subset all the time.
func TestANewPodDoesNotWaitForAllThatLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		full := ledger(spreading(ours, "CloneSet", subset("a", 1), subset("b", unlimited)), versionIgnored, line("a", 1, 0), line("b", 0, unlimited))
		c := store(t, full, cloneSetOf(2))
		s := newSpreader("flotilla-system", nil, true, clock.RealClock{})
		s.setClients(c, c)
		for i := range 30 {
			time.AfterFunc(time.Duration(i)*patience/4, func() {
				s.left.add(stored("old", "a"))
				s.left.notify()
			})
		}
		clock.RealClock{}.Sleep(time.Millisecond)
		pod := newPodOf(ours, "CloneSet", "web", "set")
		began := s.clock.Now()
		f, err := s.observe(t.Context(), c, pod)
		require.NoError(t, err)
		require.NoError(t, f.(podwebhook.Reserver).Reserve(t.Context(), pod))
		require.Equal(t, "web assigns it to subset b", f.Change(pod))
		require.Equal(t, patience, s.clock.Since(began))
		clock.RealClock{}.Sleep(30 * patience)
	})
}

func TestLeftForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newDepartures(clock.RealClock{})
		l.add(stored("1", "a"))
		l.add(stored("none", ""))
		pod := stored("new", "")
		wait, _ := l.waitFor(pod, "web", []string{"a"})
		require.Equal(t, patience, wait)
		for spread, subsets := range map[string][]string{"web": {"b"}, "other": {"a"}} {
			wait, _ = l.waitFor(pod, spread, subsets)
			require.Zero(t, wait)
		}
		clock.RealClock{}.Sleep(patience) // In the time of the synctest bubble.
		wait, _ = l.waitFor(pod, "web", []string{"a"})
		require.Zero(t, wait)
		l.add(stored("2", "b"))
		require.Len(t, l.at, 1)
		pod.OwnerReferences = []metav1.OwnerReference{}
		wait, _ = l.waitFor(pod, "web", []string{"b"})
		require.Zero(t, wait)
	})
}

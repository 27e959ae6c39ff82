//go:build integration

package cloneset

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/sim"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestStoriesInCluster plays the stories of the simulator on a real apiserver with simulated nodes. Each must come to the same
// state, at the end and wherever the simulated one was at rest.
func TestStoriesInCluster(t *testing.T) {
	t.Parallel()
	s := begin(t)
	manage(t, s, Options{})
	for _, tt := range stories() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			play(t, newFixture(t, s), tt)
		})
	}
}

// statesAtRest returns the states of the simulated story before each of its acts and at its end.
func statesAtRest(t *testing.T, s story) []string {
	t.Helper()
	var out []string
	recorded := s.simulated()
	for i, e := range recorded.Edits {
		do := e.Do
		recorded.Edits[i].Do = func(ctx context.Context, w *sim.World) error {
			out = append(out, sceneOf(w).end(0))
			return do(ctx, w)
		}
	}
	r := sim.Run(t.Context(), simulated(t), recorded, sim.Schedule{})
	require.NoError(t, r.Err)
	return append(out, r.Summary)
}

func play(t *testing.T, g *fixture, s story) {
	t.Helper()
	want := statesAtRest(t, s)
	unowned := foreign()
	unowned.Namespace, unowned.UID, unowned.ResourceVersion, unowned.Spec.NodeName = g.Namespace, "", "", ""
	require.NoError(t, g.Create(t.Context(), unowned))
	set := s.set.Obj().DeepCopy()
	set.Namespace, set.UID, set.ResourceVersion = g.Namespace, "", ""
	if slices.ContainsFunc(s.acts, func(a act) bool { return a.when != nil }) {
		// An act in the middle of an update must come in time on a busy machine.
		set.Spec.Template.Annotations = map[string]string{"lab.flotilla.io/restart-delay": "3s"}
	}
	require.NoError(t, g.Create(t.Context(), set))
	for i, a := range s.acts {
		if a.when == nil {
			g.awaitState(t, a.name, want[i])
		} else {
			require.Eventually(t, func() bool { return a.when(g.scene(t)) }, testenv.Long, testenv.Poll, a.name)
		}
		g.perform(t, a)
	}
	g.awaitState(t, "the end", want[len(s.acts)])
	g.Rests(t)
	require.Empty(t, cmp.Diff(want[len(s.acts)], g.scene(t).end(0)))
}

// scene reads the namespace, and acts as the hook handler.
func (g *fixture) scene(t *testing.T) scene {
	t.Helper()
	s := scene{set: g.Object(t), now: clock.RealClock{}.Now()}
	var all corev1.PodList
	var pvcs corev1.PersistentVolumeClaimList
	require.NoError(t, g.List(t.Context(), &all, client.InNamespace(g.Namespace)))
	require.NoError(t, g.List(t.Context(), &pvcs, client.InNamespace(g.Namespace)))
	for i := range all.Items {
		p := &all.Items[i]
		s.pods = append(s.pods, p)
		if s.set.Spec.Lifecycle == nil || !activeIn(s.set, p) {
			continue
		}
		if next, _ := sim.HandleHook(p); next != nil {
			ignoreTransient(t, g.Update(t.Context(), next))
		}
	}
	for i := range pvcs.Items {
		s.pvcs = append(s.pvcs, &pvcs.Items[i])
	}
	return s
}

// ignoreTransient ignores errors that the next attempt does not meet.
func ignoreTransient(t *testing.T, err error) {
	t.Helper()
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
}

// awaitState waits until the cluster is in the state that the simulated story was in.
func (g *fixture) awaitState(t *testing.T, what, want string) {
	t.Helper()
	var got string
	require.Eventually(t, func() bool {
		got = g.scene(t).end(0)
		return got == want
	}, testenv.Long, testenv.Poll, "%s: %s", what, lazyText(func() string { return cmp.Diff(want, got) }))
}

// lazyText is text that is computed when it is printed.
type lazyText func() string

func (l lazyText) String() string { return l() }

// perform does what the user does, again if there was a concurrent change.
func (g *fixture) perform(t *testing.T, a act) {
	t.Helper()
	require.Eventually(t, func() bool {
		o := a.change(g.scene(t))
		if o == nil {
			return true
		}
		err := g.Update(t.Context(), o)
		if apierrors.IsInvalid(err) { // The pod that it names is gone: the next attempt names another one.
			t.Logf("%s: %v", a.name, err)
			return false
		}
		ignoreTransient(t, err)
		return err == nil
	}, testenv.Long, testenv.Poll, a.name)
}

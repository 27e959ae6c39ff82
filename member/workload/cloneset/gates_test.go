package cloneset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

func TestRevisionLabel(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60) + "-abc"
	require.Equal(t, "web-abc", podset.Label("web-abc", false))
	require.Equal(t, "abc", podset.Label(long, false), "a name that is too long for a label")
	require.Equal(t, "abc", podset.Label("web-abc", true))
}

func TestPodsWithFullAndShortHashesAreAtTheSameRevision(t *testing.T) {
	t.Parallel()
	for _, gates := range []gates{{}, {ShortHash: true}} {
		o, names := observedOf(t, web(3))
		o.gates = gates
		o.with(names[0], "full")
		o.with(revision.Short(names[0]), "short")
		o.pods = append(o.pods, pod("former").Rev("former-name-"+revision.Short(names[0])).Serving(start).Obj())
		p := plan(o, now)
		require.Empty(t, p.Steps, text(p))
		require.Empty(t, p.RevisionsToDelete)
		got, _ := status(o, p, applied{}, now)
		require.EqualValues(t, 3, got.UpdatedAvailableReplicas)
		require.Equal(t, names[0], got.UpdateRevision, "the status has the full name in both cases")
	}
}

func TestPodsGetTheHashThatTheGateSelects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		gates gates
		want  func(name string) string
	}{
		{"the full name", gates{}, func(name string) string { return name }},
		{"the hash alone with CloneSetShortHash", gates{ShortHash: true}, revision.Short},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, web(2).Image("app:2").Policy(appsv1beta1.PodInPlaceIfPossible), web(2))
			made := newPod(o.set, tt.gates, names[1], &o.set.Spec.Template, "a", now)
			require.Equal(t, tt.want(names[1]), made.Labels[keys.ControllerRevisionHash])
			require.Equal(t, revision.Short(names[1]), made.Labels[keys.PodTemplateHash])
		})
	}
}

func TestPodsPreparingDeleteAreExcludedByTheSetOrTheFlag(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		set, flag  bool
		wantCreate int
	}{
		{"counted by default", false, false, 0},
		{"excluded by the set", true, false, 1},
		{"excluded by the flag", false, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, web(2).Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.Lifecycle = &pods.Lifecycle{PreDelete: &pods.LifecycleHook{FinalizersHandler: []string{"example.com/drain"}}}
				s.ScaleStrategy.ExcludePreparingDelete = tt.set
			}))
			o.gates.ExcludePreparingDelete = tt.flag
			o.with(names[0], "a")
			held := pod("b").Rev(names[0]).Serving(start).State(pods.LifecyclePreparingDelete).Label(keys.SpecifiedDelete, "true").Obj()
			held.Finalizers = []string{"example.com/drain"}
			o.pods = append(o.pods, held)
			require.Len(t, createsOf(plan(o, now)), tt.wantCreate)
		})
	}
}

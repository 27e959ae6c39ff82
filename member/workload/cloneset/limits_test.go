package cloneset

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
)

// keysOf returns the names of the pods of steps.
func keysOf(steps []podset.Step) []string {
	out := []string{}
	for _, c := range steps {
		out = append(out, c.Pod.Key)
	}
	return out
}

// Each case is an OpenKruise issue, with its number there, and what this controller does instead. If users rely on OpenKruise's behaviour, it
// is kept, and the case says so.
func TestKnownIssuesOfOpenKruise(t *testing.T) {
	t.Parallel()
	type Spec = appsv1beta1.CloneSetSpec
	tests := []struct {
		name  string
		set   *testkit.CloneSetBuilder
		pods  func(o *observed, rev []string) // rev: the previous revision, then the current one
		check func(*testing.T, planned)
	}{
		{
			name: "#2369: an in-place update creates no surge pods",
			set:  web(4).Image("app:2").Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "1", "2"),
			pods: func(o *observed, rev []string) { o.with(rev[0], "a", "b", "c", "d") },
			check: func(t *testing.T, p planned) {
				t.Helper()
				require.Empty(t, p.Of(rollout.StepCreate))
				require.Equal(t, []string{"web-a"}, keysOf(p.Of(rollout.StepMarkUnready)))
			},
		},
		{
			name: "#1153: a paused set creates no surge pods",
			set:  web(4).Image("app:2").Rolling("0", "1", "2").Paused(),
			pods: func(o *observed, rev []string) { o.with(rev[0], "a", "b", "c", "d") },
			check: func(t *testing.T, p planned) {
				t.Helper()
				require.Empty(t, p.Steps, text(p))
			},
		},
		{
			name: "#1478: a long minReadySeconds does not hold up scale-in",
			set:  web(2).Rolling("0", "1", "0").Spec(func(s *Spec) { s.MinReadySeconds = 7200 }),
			pods: func(o *observed, rev []string) { o.with(rev[1], "a", "b", "c", "d") },
			check: func(t *testing.T, p planned) {
				t.Helper()
				require.Equal(t, []string{"web-a", "web-b"}, keysOf(p.Of(rollout.StepDelete)))
			},
		},
		{
			name: "#1090, kept: scale-in takes pods at the old revision first, down to the partition, and then by state",
			set:  web(3).Image("app:2").Rolling("1", "100%", "0"),
			pods: func(o *observed, rev []string) {
				o.with(rev[0], "a", "b", "c")
				o.with(rev[1], "d")
				o.pods = append(o.pods, unready("e", rev[1], start))
			},
			check: func(t *testing.T, p planned) {
				t.Helper()
				require.Equal(t, []string{"web-a", "web-b"}, keysOf(p.Of(rollout.StepDelete)), "two of three old pods, as one is kept")
			},
		},
		{
			name: "#518: a deletion cost is the priority of a pod at scale-in",
			set:  web(1).Rolling("0", "100%", "0"),
			pods: func(o *observed, rev []string) {
				for name, cost := range map[string]string{"a": "30", "b": "-5", "c": "+1"} {
					o.pods = append(o.pods, pod(name).Rev(rev[1]).Serving(start).Annotation(keys.PodDeletionCost, cost).Obj())
				}
			},
			check: func(t *testing.T, p planned) {
				t.Helper()
				require.Equal(t, []string{"web-b", "web-c"}, keysOf(p.Of(rollout.StepDelete)), "a cost that is not an integer counts as 0")
			},
		},
		{
			name: "#2473: an evicted pod is replaced, whatever events were sent",
			set:  web(2),
			pods: func(o *observed, rev []string) {
				o.with(rev[1], "a")
				o.pods = append(o.pods, pod("b").Rev(rev[1]).Serving(start).Phase(corev1.PodFailed).Obj())
			},
			check: func(t *testing.T, p planned) {
				t.Helper()
				require.Len(t, p.Of(rollout.StepCreate), 1)
			},
		},
		{
			name: "#892: a gate that was not opened at the creation of a pod is opened once the pod is scheduled, also with ReCreate",
			set:  web(1),
			pods: func(o *observed, rev []string) {
				made := newPod(o.set, gates{}, rev[1], &o.set.Spec.Template, "a", start)
				made.Spec.NodeName = "node-1"
				o.pods = append(o.pods, made)
			},
			check: func(t *testing.T, p planned) {
				t.Helper()
				require.Equal(t, []string{"web-a"}, keysOf(p.Of(rollout.StepMarkReady)))
			},
		},
		{
			name: "#1670, kept: changed volumeClaimTemplates apply to new pods only",
			set:  web(1).PVCs("data"),
			pods: func(o *observed, rev []string) { o.with(rev[1], "a") },
			check: func(t *testing.T, p planned) {
				t.Helper()
				require.Empty(t, p.Steps, text(p))
			},
		},
		{
			name: "#1089: a set that is up to date has no steps and no recheck",
			set:  web(2),
			pods: func(o *observed, rev []string) { o.with(rev[1], "a", "b") },
			check: func(t *testing.T, p planned) {
				t.Helper()
				require.Empty(t, p.Steps, text(p))
				require.Zero(t, p.Recheck)
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, tt.set, web(4).Image("app:0"))
			tt.pods(&o, names)
			tt.check(t, plan(o, now))
		})
	}
}

func TestB2AFailureAloneIsWrittenAndRemoved(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(3))
	o.with(names[0], "a", "b")
	o.set.Status, _ = status(o, plan(o, now), applied{}, now)

	// Only the failure differs, and it is not a count.
	failed, _ := status(o, plan(o, now), applied{Results: stepped(rollout.StepCreate, podcontrol.Result{Err: errors.New("create pod web-c: quota")})}, now)
	require.NotNil(t, find(failed.Conditions, appsv1beta1.CloneSetFailedScale))
	require.False(t, countsOnly(o.set, failed))

	// #1351: the condition is removed once creations work again.
	o.set.Status = failed
	healed, _ := status(o, plan(o, now), applied{}, now.Add(time.Minute))
	require.Empty(t, failures(healed.Conditions))
}

func TestConflictsAreNoFailure(t *testing.T) {
	t.Parallel()
	// #1351: a conflict ends the reconcile silently; podcontrol counts it as skipped.
	o, names := observedOf(t, web(2).Image("app:2").Policy(appsv1beta1.PodInPlaceIfPossible), web(2))
	o.with(names[0], "a", "b")
	got, events := status(o, plan(o, now), applied{Results: stepped(rollout.StepMarkUnready, podcontrol.Result{Skipped: 1})}, now)
	require.Empty(t, failures(got.Conditions))
	require.Empty(t, events)
}

package daemonset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// start is when the pods of all tests became ready; now is an hour later.
var (
	start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	now   = start.Add(time.Hour)
)

// observedOf returns what is observed of a set with these nodes that previously had image app:0.
func observedOf(tb testing.TB, set *testkit.DaemonSetBuilder, nodes ...*corev1.Node) observed {
	tb.Helper()
	o := observed{set: set.Obj(), nodes: nodes}
	former := o.set.DeepCopy()
	former.Spec.Template.Spec.Containers[0].Image = "app:0"
	for i, s := range []*appsv1beta1.DaemonSet{former, o.set} {
		r, err := wantedRevision(s)
		require.NoError(tb, err)
		r.Revision = int64(i + 1)
		o.history = append(o.history, r)
	}
	o.wanted = o.history[1].DeepCopy()
	o.wanted.Revision = 0
	return o
}

// on adds pods on nodes. "n1" is a serving pod at the update revision, "n1 old" one at the previous revision. Further words change it:
// unready, terminating, ended, pending, newer (created later), held (by a hook of the label hold), gated (its readiness gate is False).
func (o observed) on(lines ...string) observed {
	for i, line := range lines {
		words := strings.Fields(line)
		b := testkit.Pod(fmt.Sprintf("p%d", i)).OwnedBy(o.set.UID).Created(start)
		rev, image := o.history[1], "app:1"
		if slices.Contains(words, "old") {
			rev, image = o.history[0], "app:0"
		}
		b.Image(image)
		if slices.Contains(words, "pending") {
			podset.Pin(&b.Obj().Spec, words[0])
		} else {
			b.Node(words[0]).Serving(start)
		}
		b.Rev(rev.Name)
		for _, word := range words[1:] {
			switch word {
			case "unready":
				b.NotReady()
			case "terminating":
				b.Terminating(now)
			case "ended":
				b.Phase(corev1.PodFailed).NotReady()
			case "newer":
				b.Created(start.Add(time.Minute))
			case "held":
				b.Label("hold", "yes")
			case "gated":
				b.Gate(false, start)
			}
		}
		pod := b.Obj()
		pod.OwnerReferences[0].Kind = kind()
		o.pods = append(o.pods, pod)
	}
	return o
}

// summary returns a plan in words.
func summary(p planned) []string {
	var out []string
	for _, c := range p.Of(rollout.StepCreate) {
		out = append(out, fmt.Sprintf("Create %s %s", c.Slot, c.Reason))
	}
	for _, kind := range []rollout.StepKind{
		rollout.StepDelete, rollout.StepPrepareDelete, rollout.StepMarkUnready, rollout.StepUpdateInPlace, rollout.StepMarkReady, rollout.StepCancelDelete,
	} {
		for _, s := range p.Of(kind) {
			out = append(out, fmt.Sprintf("%s %s %s", kind, s.Pod.Key, s.Reason))
		}
	}
	for _, h := range p.Holds {
		out = append(out, fmt.Sprintf("hold %s %d", h.Reason, h.Pods))
	}
	if p.InvalidSpec != "" {
		out = append(out, "invalid spec "+p.InvalidSpec)
	}
	return out
}

func amount(s string) *intstr.IntOrString { return new(intstr.Parse(s)) }

func TestPlan(t *testing.T) {
	t.Parallel()
	nodes := func(n int) []*corev1.Node {
		out := make([]*corev1.Node, 0, n)
		for i := range n {
			out = append(out, sim.Node(fmt.Sprintf("n%d", i+1), "nr", strconv.Itoa(i+1)))
		}
		return out
	}
	with := func(list []*corev1.Node, i int, taints ...corev1.Taint) []*corev1.Node {
		list[i].Spec.Taints = taints
		return list
	}
	burst := func(v string) func(*appsv1beta1.DaemonSetSpec) {
		return func(s *appsv1beta1.DaemonSetSpec) { s.BurstReplicas = amount(v) }
	}
	hooked := func(s *appsv1beta1.DaemonSetSpec) {
		s.Lifecycle = &pods.Lifecycle{
			PreDelete: &pods.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}},
			PreNormal: &pods.LifecycleHook{LabelsHandler: map[string]string{"never": "there"}},
		}
	}
	byParts := func(s *appsv1beta1.DaemonSetSpec) {
		s.ScaleStrategy = &appsv1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
	}
	for _, tc := range []struct {
		name  string
		set   *testkit.DaemonSetBuilder
		nodes []*corev1.Node
		pods  []string
		fails map[string]time.Time
		want  []string
	}{
		{name: "each node that fits gets a pod", set: web(), nodes: nodes(2), want: []string{"Create n1 Missing", "Create n2 Missing"}},
		{name: "a pod that is not scheduled yet counts for its node", set: web(), nodes: nodes(1), pods: []string{"n1 pending"}},
		{name: "a terminating pod occupies its node", set: web(), nodes: nodes(1), pods: []string{"n1 terminating"}},
		{
			name: "a pod that has ended and is terminating doesn't occupy its node", set: web(), nodes: nodes(1), pods: []string{"n1 ended terminating"},
			want: []string{"Create n1 Missing"},
		},
		{name: "a pod that has ended is deleted first", set: web(), nodes: nodes(1), pods: []string{"n1 ended"}, want: []string{"Delete p0 Ended"}},
		{
			name: "a pod that has ended is kept until the backoff of its node is over", set: web(), nodes: nodes(1), pods: []string{"n1 ended"},
			fails: map[string]time.Time{"n1": now.Add(time.Second)}, want: []string{"hold Backoff 1"},
		},
		{
			name: "pods that have ended are deleted when the backoff is over, even if they ended just before the plan", set: web(), nodes: nodes(2),
			pods: []string{"n1 ended", "n2 ended"}, fails: map[string]time.Time{"n1": now, "n2": now.Add(-time.Millisecond)},
			want: []string{"Delete p1 Ended", "Delete p0 Ended"},
		},
		{name: "a pending pod of a deleted node is deleted", set: web(), nodes: nodes(1), pods: []string{"n1", "n9 pending"}, want: []string{"Delete p1 ScaleIn"}},
		{
			name: "a pod on a node that is not in the cache is left alone: the node may be gone, or new", set: web(), nodes: nodes(1),
			pods: []string{"n1", "n9", "n8 old unready"},
		},
		{
			name: "a pod on a node that is not in the cache doesn't count for the budget or the surge", set: web().Budget("0", "0", "1"), nodes: nodes(1),
			pods: []string{"n1 old", "n9 old", "n9"}, want: []string{"Create n1 Surge"},
		},
		{name: "the newer of two pods on a node is deleted", set: web(), nodes: nodes(1), pods: []string{"n1 newer", "n1"}, want: []string{"Delete p0 Recreate"}},
		{
			name: "the last node is updated first", set: web().Budget("0", "2", "0"), nodes: nodes(3), pods: []string{"n1 old", "n2 old", "n3 old"},
			want: []string{"Delete p2 Recreate", "Delete p1 Recreate", "hold Budget 1"},
		},
		{
			name: "pods that are not available are updated beyond the budget", set: web(), nodes: nodes(3), pods: []string{"n1 old unready", "n2 old unready", "n3 old"},
			want: []string{"Delete p1 Recreate", "Delete p0 Recreate", "hold Budget 1"},
		},
		{
			name: "percentages of the budget round up", set: web().Budget("0", "34%", "0"), nodes: nodes(3), pods: []string{"n1 old", "n2 old", "n3 old"},
			want: []string{"Delete p2 Recreate", "Delete p1 Recreate", "hold Budget 1"},
		},
		{
			name: "a budget and a surge of 0 are a budget of 1", set: web().Budget("0", "0", "0"), nodes: nodes(2), pods: []string{"n1 old", "n2 old"},
			want: []string{"Delete p1 Recreate", "hold Budget 1"},
		},
		{
			name: "percentages of the partition round down", set: web().Budget("50%", "100%", "0"), nodes: nodes(3), pods: []string{"n1 old", "n2 old", "n3 old"},
			want: []string{"Delete p2 Recreate", "Delete p1 Recreate"},
		},
		{
			name: "nodes outside of the selector keep the old revision", set: web().Budget("0", "3", "0").Canary("nr", "2"), nodes: nodes(3),
			pods: []string{"n1 old", "n2 old", "n3 old"}, want: []string{"Delete p1 Recreate"},
		},
		{
			name: "a node outside of the selector that lost its pod gets a new one", set: web().Canary("nr", "2"), nodes: nodes(2), pods: []string{"n2"},
			want: []string{"Create n1 Missing"},
		},
		{name: "both selector and partition apply", set: web().Budget("2", "3", "0").Spec(func(s *appsv1beta1.DaemonSetSpec) {
			s.UpdateStrategy.RollingUpdate.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "nr", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"4"}},
			}}
		}), nodes: nodes(4), pods: []string{"n1 old", "n2 old", "n3 old", "n4 old"}, want: []string{"Delete p2 Recreate", "Delete p1 Recreate"}},
		{
			name: "a surge creates the new pod first", set: web().Budget("0", "0", "1"), nodes: nodes(2), pods: []string{"n1 old", "n2 old"},
			want: []string{"Create n2 Surge", "hold Budget 1"},
		},
		{
			name: "#1012: the old pod is deleted when the new one is available", set: web().Budget("0", "0", "1"), nodes: nodes(1), pods: []string{"n1 old", "n1"},
			want: []string{"Delete p0 Recreate"},
		},
		{
			name: "a surge on a node that is no longer selected completes if the new pod is available, and is undone otherwise", set: web().Budget("0", "0", "2").Canary("nr", "9"),
			nodes: nodes(2), pods: []string{"n1 old", "n1 unready", "n2 old", "n2"}, want: []string{"Delete p1 Recreate", "Delete p2 Recreate"},
		},
		{
			name: "paused, missing pods are created", set: web().Rolling(func(r *appsv1beta1.DaemonSetRollingUpdateStrategy) { r.Paused = true }), nodes: nodes(2),
			pods: []string{"n1 old"}, want: []string{"Create n2 Missing", "hold Paused 1"},
		},
		{
			name: "with OnDelete old pods stay, and new ones are at the update revision", set: web().OnDelete(), nodes: nodes(2), pods: []string{"n1 old"},
			want: []string{"Create n2 Missing"},
		},
		{name: "in place, the gate is closed first", set: web().InPlace(), nodes: nodes(1), pods: []string{"n1 old"}, want: []string{"MarkUnready p0 InPlace"}},
		{
			name: "a node on which no pod would be created keeps its old one", set: web().Budget("0", "2", "0"), nodes: with(nodes(2), 0, noSchedule()),
			pods: []string{"n1 old", "n2"},
		},
		{
			name: "a pod that may only stay uses no budget", set: web(), nodes: with(nodes(2), 0, noSchedule()), pods: []string{"n1 old unready", "n2 old"},
			want: []string{"Delete p1 Recreate"},
		},
		{
			name: "a pod that may only stay doesn't count for the partition", set: web().Budget("1", "2", "0"), nodes: with(nodes(3), 0, noSchedule()),
			pods: []string{"n1 old", "n2 old", "n3 old"}, want: []string{"Delete p2 Recreate"},
		},
		{
			name: "a pod is deleted from a node whose taint it does not tolerate", set: web(), nodes: with(nodes(2), 0, noExecute()), pods: []string{"n1", "n2"},
			want: []string{"Delete p0 ScaleIn"},
		},
		{name: "a hook holds a pod before its deletion", set: web().Spec(hooked), nodes: nodes(1), pods: []string{"n1 old held"}, want: []string{"PrepareDelete p0 Recreate"}},
		{name: "a preNormal hook holds nothing", set: web().Spec(hooked), nodes: nodes(1), pods: []string{"n1"}},
		{
			name: "with partitioned scaling, nodes within the partition get no pod", set: web().Budget("2", "1", "0").Spec(byParts), nodes: nodes(3),
			want: []string{"Create n1 Missing"},
		},
		{
			name: "with partitioned scaling, a lower partition adds pods", set: web().Budget("1", "1", "0").Spec(byParts), nodes: nodes(3), pods: []string{"n1"},
			want: []string{"Create n2 Missing"},
		},
		{name: "partitioned scaling without a partition creates all pods", set: web().Spec(byParts), nodes: nodes(2), want: []string{"Create n1 Missing", "Create n2 Missing"}},
		{
			name: "with partitioned scaling, a node within the partition has no missing pod", set: web().Budget("1", "1", "0").Spec(byParts), nodes: nodes(3),
			pods: []string{"n1 old", "n2 old"}, want: []string{"Create n3 Missing", "hold Budget 1"},
		},
		{
			name: "a burst limits creations, deletions and updates separately", set: web().InPlace().Budget("0", "100%", "0").Spec(burst("1")), nodes: nodes(6),
			pods: []string{"n1 old", "n2 old", "n8 pending", "n9 pending"},
			want: []string{"Create n3 Missing", "Delete p2 ScaleIn", "MarkUnready p1 InPlace", "hold Burst 5"},
		},
		{
			name: "a burst doesn't limit how many pods go back into service", set: web().InPlace().Budget("0", "100%", "0").Spec(burst("1")), nodes: nodes(5),
			pods: []string{"n1 gated", "n2 gated", "n3 gated"},
			want: []string{"Create n4 Missing", "MarkReady p0 Restored", "MarkReady p1 Restored", "MarkReady p2 Restored", "hold Burst 1"},
		},
		{name: "a burst in percent rounds down", set: web().Spec(burst("50%")), nodes: nodes(3), want: []string{"Create n1 Missing", "hold Burst 2"}},
		{name: "a burst in percent is at least one pod", set: web().Spec(burst("10%")), nodes: nodes(2), want: []string{"Create n1 Missing", "hold Burst 1"}},
		{name: "a burst of 0 holds everything", set: web().Spec(burst("0")), nodes: nodes(2), want: []string{"hold Burst 2"}},
		{
			name: "the default burst is 250", set: web().Spec(func(s *appsv1beta1.DaemonSetSpec) { s.BurstReplicas = nil }), nodes: nodes(1),
			want: []string{"Create n1 Missing"},
		},
		{
			name: "an invalid partition changes nothing", set: web().Budget("half", "1", "0"), nodes: nodes(1),
			want: []string{`invalid spec partition: resolve "half" of 1 pod(s): invalid value for IntOrString: invalid type: string is not a percentage`},
		},
		{
			name: "an invalid burst changes nothing", set: web().Spec(burst("some")), nodes: nodes(1),
			want: []string{`invalid spec burstReplicas: resolve "some" of 1 pod(s): invalid value for IntOrString: invalid type: string is not a percentage`},
		},
		{
			name: "a selector of all pods changes nothing", set: web().Spec(func(s *appsv1beta1.DaemonSetSpec) { s.Selector = &metav1.LabelSelector{} }),
			nodes: nodes(1), want: []string{"invalid spec selector: it selects all pods: create a new DaemonSet with a narrower selector"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range tc.set.Obj().Spec.Template.Labels {
				require.Equal(t, "web", p)
			}
			o := observedOf(t, tc.set, tc.nodes...).on(tc.pods...)
			o.failures = tc.fails
			require.Equal(t, tc.want, summary(plan(o, now)))
			testkit.RequireSamePlan(t, o.pods, Registration().Fields.Strip, func(pods []*corev1.Pod) string {
				o.pods = pods
				return strings.Join(summary(plan(o, now)), "\n")
			})
		})
	}
}

func TestAPodThatWaitsForItsNodeIsRechecked(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web(), sim.Node("n1")).on("n1 ended")
	o.failures = map[string]time.Time{"n1": now.Add(3 * time.Second)}
	require.Equal(t, 3*time.Second, plan(o, now).Recheck)
}

func TestUnusedRevisionsAreDeleted(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web().Spec(func(s *appsv1beta1.DaemonSetSpec) { s.RevisionHistoryLimit = new(int32(0)) }), sim.Node("n1")).on("n1")
	p := plan(o, now)
	require.Equal(t, []*appsv1.ControllerRevision{o.history[0]}, p.RevisionsToDelete)
	o = observedOf(t, web().Spec(func(s *appsv1beta1.DaemonSetSpec) { s.RevisionHistoryLimit = new(int32(0)) }), sim.Node("n1")).on("n1 old")
	require.Empty(t, plan(o, now).RevisionsToDelete, "a pod is at it")
}

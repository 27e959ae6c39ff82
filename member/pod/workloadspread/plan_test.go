package workloadspread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// observedFor returns what a reconcile of a CloneSet with ten replicas and these pods has read.
func observedFor(ws *appsv1beta1.WorkloadSpread, pods ...*corev1.Pod) observed {
	o := observed{ws: ws, target: cloneSetOf(10), sent: true, total: 10, pods: pods, nodes: map[string]*corev1.Node{}}
	o.unseen = map[string]time.Time{}
	for _, all := range ws.Status.VersionedSubsetStatuses {
		for i := range all {
			for id, at := range all[i].CreatingPods {
				o.unseen[id] = at.Time
			}
		}
	}
	for name, labels := range map[string]string{"node-a": "a", "node-b": "b"} {
		o.nodes[name] = sim.Node(name, zone, labels)
	}
	return o
}

// lines returns a status in a short form.
func lines(s appsv1beta1.WorkloadSpreadStatus) []string {
	var out []string
	for _, v := range slices.Sorted(maps.Keys(s.VersionedSubsetStatuses)) {
		for _, l := range s.VersionedSubsetStatuses[v] {
			text := fmt.Sprintf("%s %s %d+%d", v, l.Name, l.Replicas, l.MissingReplicas)
			if len(l.CreatingPods) > 0 {
				text += fmt.Sprint(" ", slices.Sorted(maps.Keys(l.CreatingPods)))
			}
			if c := report.GetCondition(l.Conditions, appsv1beta1.WorkloadSpreadSubsetSchedulable); c != nil {
				text += fmt.Sprintf(" %s since %s", c.Reason, c.LastTransitionTime.UTC().Format("15:04:05"))
			}
			out = append(out, text)
		}
	}
	return out
}

func TestPlan(t *testing.T) {
	t.Parallel()
	two := func() *appsv1beta1.WorkloadSpread {
		return spreading(ours, "CloneSet", subset("a", 2), subset("b", unlimited))
	}
	ends := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	leaves := func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) }
	three := func() *appsv1beta1.WorkloadSpread {
		return with(spreading(ours, "CloneSet", subset("a", 1), subset("b", 1), subset("c", unlimited)), adaptive(60))
	}
	for _, tc := range []struct {
		name     string
		o        observed
		now      time.Time
		inactive string
		lines    []string
		// patches are in the form name: subset cost. deletes are names.
		patches, deletes, events []string
		recheck                  time.Duration
	}{
		{
			name: "pods are counted, including unseen ones", o: observedFor(ledger(two(), versionIgnored, line("a", 0, 0, "id-1", "id-x"), line("b", 0, unlimited)), stored("1", "a", cost("200"))),
			lines: []string{"versionIgnored a 1+0 [id-x]", "versionIgnored b 0+-1"}, recheck: creationTimeout,
		},
		{
			name: "an admitted pod that was never created", o: func() observed {
				o := observedFor(ledger(two(), versionIgnored, line("a", 0, 0, "id-x", "id-y"), line("b", 0, unlimited)))
				o.lost = map[string]bool{"id-x": true}
				return o
			}(), now: noon.Add(creationTimeout), lines: []string{"versionIgnored a 0+1 [id-y]", "versionIgnored b 0+-1"}, events: []string{reasonCreatePodFailed}, recheck: time.Millisecond,
		},
		{
			name: "ended and terminating pods take no place", o: observedFor(two(), stored("1", "a", ends), stored("2", "a", leaves), stored("3", "a", cost("200"))),
			lines: []string{"versionIgnored a 1+1", "versionIgnored b 0+-1"},
		},
		{
			name: "surplus pods are deleted first, those that are not ready before others", o: observedFor(two(), stored("1", "a"), stored("2", "a", onNode("node-a")), stored("3", "a", onNode("node-a")), stored("4", "b")),
			lines: []string{"versionIgnored a 3+0", "versionIgnored b 1+-1"}, patches: []string{"1: -100", "2: 200", "3: 200", "4: 100"},
		},
		{
			name: "an old version gives up the first subset first", o: func() observed {
				o := observedFor(spreading("apps/v1", "Deployment", subset("a", 1), subset("b", unlimited)), stored("1", "a", version("old")), stored("2", "b", version("old")), stored("3", "a", version("new")), stored("4", "a", version("old")))
				o.versions, o.newest, o.target = versions{"deployment"}, "new", deploymentOf()
				return o
			}(), lines: []string{"new a 1+0", "new b 0+-1", "old a 2+0", "old b 1+-1"}, patches: []string{"1: 100", "2: 200", "3: 200", "4: -200"},
		},
		{
			name: "percentages", o: observedFor(spreading(ours, "CloneSet", subset("a", "25%"), subset("b", "75%"))),
			lines: []string{"versionIgnored a 0+3", "versionIgnored b 0+8"},
		},
		{
			name: "older pods are adopted by node, even without room", o: observedFor(ledger(two(), versionIgnored, line("a", 0, 1, "id-x")), stored("1", "", onNode("node-a")), stored("2", "", onNode("node-a")), stored("3", "", onNode("node-b")), stored("4", ""), stored("5", "gone"), stored("6", "", onNode("node-a"))),
			lines: []string{"versionIgnored a 3+0 [id-x]", "versionIgnored b 1+-1"}, patches: []string{"1: a 200", "2: a 200", "3: b 100", "4: -300", "5: -300", "6: a -100"}, recheck: creationTimeout,
		},
		{
			name: "of equally preferring subsets the one with room adopts", o: observedFor(spreading(ours, "CloneSet", subset("a", 1), subset("a2", 1, func(s *appsv1beta1.WorkloadSpreadSubset) { s.RequiredNodeSelector = inZone("a") })), stored("1", "", onNode("node-a")), stored("2", "", onNode("node-a"))),
			lines: []string{"versionIgnored a 1+0", "versionIgnored a2 1+0"}, patches: []string{"1: a 200", "2: a2 100"},
		},
		{
			name: "pods of a removed subset are deleted first, wherever they run", o: observedFor(two(), stored("1", "removed", onNode("node-a")), stored("2", "removed", onNode("node-b")), stored("3", "b", cost("100"))),
			lines: []string{"versionIgnored a 0+2", "versionIgnored b 1+-1"}, patches: []string{"1: -300", "2: -300"},
		},
		{
			name: "a StatefulSet has no costs", o: func() observed {
				o := observedFor(spreading("apps/v1", "StatefulSet", subset("a", 2)), stored("1", "a", owned("apps/v1", "StatefulSet")))
				o.target = &appsv1.StatefulSet{}
				return o
			}(), lines: []string{"versionIgnored a 1+1"},
		},
		{
			name: "Adaptive waits for pods", o: observedFor(three(), stored("1", "a", cost("300"), stuckSince(noon.Add(-40*time.Second))), stored("2", "c", cost("100"), stuckSince(noon.Add(-time.Hour)))),
			lines:   []string{"versionIgnored a 1+0 Sufficient since 12:00:00", "versionIgnored b 0+1 Sufficient since 12:00:00", "versionIgnored c 1+-1 Sufficient since 12:00:00"},
			recheck: 20 * time.Second,
		},
		{
			name: "Adaptive deletes pods that waited too long", o: observedFor(three(), stored("1", "a", cost("300"), stuckSince(noon.Add(-time.Minute)))), deletes: []string{"1"}, recheck: recovery,
			lines: []string{"versionIgnored a 1+0 PodUnschedulable since 12:00:00", "versionIgnored b 0+1 Sufficient since 12:00:00", "versionIgnored c 0+-1 Sufficient since 12:00:00"},
		},
		{
			name: "a closed subset stays closed for a while", o: observedFor(closed(three(), noon.Add(-time.Minute))), recheck: 4 * time.Minute,
			lines: []string{"versionIgnored a 0+1 PodUnschedulable since 11:59:00", "versionIgnored b 0+1 Sufficient since 12:00:00", "versionIgnored c 0+-1 Sufficient since 12:00:00"},
		},
		{
			name: "a closed subset opens again", o: observedFor(closed(three(), noon.Add(-recovery))), events: []string{reasonRecovered},
			lines: []string{"versionIgnored a 0+1 Sufficient since 12:00:00", "versionIgnored b 0+1 Sufficient since 12:00:00", "versionIgnored c 0+-1 Sufficient since 12:00:00"},
		},
		{
			name: "a reopened subset is closed again", o: observedFor(closed(three(), noon.Add(-recovery)), stored("1", "a", cost("300"), stuckSince(noon.Add(-time.Minute)))), deletes: []string{"1"}, recheck: recovery,
			lines: []string{"versionIgnored a 1+0 PodUnschedulable since 12:00:00", "versionIgnored b 0+1 Sufficient since 12:00:00", "versionIgnored c 0+-1 Sufficient since 12:00:00"},
		},
		{name: "Fixed has no condition", o: observedFor(closed(two(), noon)), lines: []string{"versionIgnored a 0+2", "versionIgnored b 0+-1"}},
		{
			name: "while no pods are sent, the status stays", o: func() observed {
				o := observedFor(ledger(two(), versionIgnored, line("a", 1, 1, "id-x")))
				o.sent, o.notSent = false, "exempt"
				return o
			}(), inactive: reasonNotSent, lines: []string{"versionIgnored a 1+1 [id-x]"}, events: []string{reasonNotSent},
		},
		{name: "the workload is gone", o: observed{ws: two()}, inactive: reasonTargetGone},
		{name: "another WorkloadSpread has the target", o: observed{ws: two(), elder: three()}, inactive: reasonTargetTaken, events: []string{reasonTargetTaken}},
		{name: "the target may not be read", o: observed{ws: two(), denied: errors.New("forbidden")}, inactive: reasonTargetDenied, events: []string{reasonTargetDenied}},
		{name: "a kind that is not listed", o: observed{ws: spreading("a/v1", "B")}, inactive: reasonNotAllowed, events: []string{reasonNotAllowed}},
		{name: "a whitelist that can't be read", o: observed{ws: spreading("a/v1", "B"), fault: errors.New("no JSON")}, inactive: reasonNotAllowed, events: []string{reasonNotAllowed}},
		{name: "unknown replicas", o: observed{ws: two(), target: cloneSetOf(1), unknown: "no scale"}, inactive: reasonReplicasUnknown, events: []string{reasonReplicasUnknown}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now := tc.now
			if now.IsZero() {
				now = noon
			}
			before := tc.o.ws.DeepCopy()
			p := plan(tc.o, now)
			s, events := status(tc.o, p, now)
			require.Equal(t, before, tc.o.ws, "the plan doesn't modify what was observed")
			if tc.inactive != "" {
				require.Equal(t, tc.inactive, p.inactive.reason)
			} else {
				require.Nil(t, p.inactive)
			}
			require.Equal(t, tc.lines, lines(s))
			var patches, deletes, reasons []string
			for _, to := range p.patches {
				text := to.pod.Name + ":"
				if to.adopted {
					i := subsetOf(tc.o.ws, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: to.annotations}})
					text += " " + tc.o.ws.Spec.Subsets[i].Name
				}
				patches = append(patches, text+" "+to.annotations[keys.PodDeletionCost])
			}
			for _, pod := range p.deletes {
				deletes = append(deletes, pod.Name)
			}
			for _, e := range events {
				reasons = append(reasons, e.Reason)
			}
			require.Equal(t, tc.patches, patches)
			require.Equal(t, tc.deletes, deletes)
			require.Equal(t, tc.events, reasons)
			require.Equal(t, tc.recheck, p.recheck)
			tc.o.ws.Status = s
			again, none := status(tc.o, plan(tc.o, now), now)
			if len(tc.events) == 0 && len(p.patches)+len(p.deletes) == 0 {
				require.Equal(t, s, again, "a second plan changes nothing")
				require.Empty(t, none)
			}
		})
	}
}

func TestAdoptedPodsGetTheMetadataOfThePatch(t *testing.T) {
	t.Parallel()
	s := subset("a", 2, patching(`{"metadata":{"labels":{"subset":"a"},"annotations":{"x":"y"}},"spec":{"priorityClassName":"low"}}`))
	p := plan(observedFor(spreading(ours, "CloneSet", s), stored("1", "", onNode("node-a"))), noon)
	require.Equal(t, map[string]string{"subset": "a"}, p.patches[0].labels)
	require.Equal(t, map[string]string{"x": "y", keys.PodDeletionCost: "100", keys.MatchedWorkloadSpread: `{"name":"web","subset":"a"}`}, p.patches[0].annotations)
	p = plan(observedFor(with(spreading(ours, "CloneSet", s), func(ws *appsv1beta1.WorkloadSpread) {
		ws.Annotations = map[string]string{keys.IgnorePatchExistingPods: "true"}
	}), stored("1", "", onNode("node-a"))), noon)
	require.Empty(t, p.patches[0].labels)
	require.Equal(t, map[string]string{keys.PodDeletionCost: "100", keys.MatchedWorkloadSpread: `{"name":"web","subset":"a"}`}, p.patches[0].annotations)
}

func TestAdoptersPrefer(t *testing.T) {
	t.Parallel()
	prefers := func(weight int32, name string) func(*appsv1beta1.WorkloadSpreadSubset) {
		return func(s *appsv1beta1.WorkloadSpreadSubset) {
			s.RequiredNodeSelector = nil
			s.PreferredNodeSelector = []corev1.PreferredSchedulingTerm{{Weight: weight, Preference: *inZone(name)}}
		}
	}
	o := observedFor(spreading(ours, "CloneSet", subset("x", unlimited, prefers(5, "a")), subset("y", unlimited, prefers(50, "b"))), stored("1", "", onNode("node-b")))
	require.Contains(t, plan(o, noon).patches[0].annotations[keys.MatchedWorkloadSpread], `"subset":"y"`)
}

// reading is a cluster in which a Reconciler runs.
type reading struct {
	client.WithWatch

	events *testkit.Events
	clock  *clocktesting.FakeClock
	r      *Reconciler
}

func clusterOf(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *reading {
	t.Helper()
	c := &reading{WithWatch: interceptor.NewClient(store(t, objects...), funcs), events: &testkit.Events{}, clock: clocktesting.NewFakeClock(noon)}
	c.r = reconciler(c, c, c.clock, c.events)
	return c
}

func (c *reading) reconcile(t *testing.T) (ctrl.Result, *appsv1beta1.WorkloadSpread, error) {
	t.Helper()
	res, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	ws := &appsv1beta1.WorkloadSpread{}
	require.NoError(t, c.Get(t.Context(), key, ws))
	return res, ws, err
}

// withoutPods returns a cache that shows no pods.
func withoutPods(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, in client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if _, ok := into.(*corev1.PodList); ok {
				return nil
			}
			return in.List(ctx, into, opts...)
		},
	})
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	two := func() *appsv1beta1.WorkloadSpread {
		return spreading(ours, "CloneSet", subset("a", 2), subset("b", unlimited))
	}
	t.Run("a deleted WorkloadSpread leaves nothing", func(t *testing.T) {
		t.Parallel()
		c := clusterOf(t, interceptor.Funcs{})
		_, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
	})
	t.Run("a pod is adopted after the status has it", func(t *testing.T) {
		t.Parallel()
		var order []string
		c := clusterOf(t, interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				order = append(order, "status")
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				order = append(order, o.GetName())
				return c.Patch(ctx, o, p, opts...)
			},
		}, two(), cloneSetOf(3), sim.Node("node-a", zone, "a"), stored("1", "", onNode("node-a")))
		_, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, []string{"status", "1"}, order)
		require.Equal(t, []string{"versionIgnored a 1+1", "versionIgnored b 0+-1"}, lines(ws.Status))
		_, again, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, ws.ResourceVersion, again.ResourceVersion)
		require.Len(t, order, 2)
	})
	t.Run("no pod is changed if another client has written the status", func(t *testing.T) {
		t.Parallel()
		c := clusterOf(t, interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("newer"))
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				t.Error("a pod is deleted")
				return nil
			},
		}, with(spreading(ours, "CloneSet", subset("a", 2), subset("b", unlimited)), adaptive(5)), cloneSetOf(3), stored("1", "a", stuckSince(noon.Add(-time.Minute))))
		_, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Empty(t, ws.Status.SubsetStatuses)
	})
	t.Run("a changed pod is judged again", func(t *testing.T) {
		t.Parallel()
		c := clusterOf(t, interceptor.Funcs{
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				return apierrors.NewConflict(schema.GroupResource{}, "1", errors.New("newer"))
			},
		}, with(spreading(ours, "CloneSet", subset("a", 2), subset("b", unlimited)), adaptive(5)), cloneSetOf(3), stored("1", "a", stuckSince(noon.Add(-time.Minute))))
		res, _, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, control.RetrySkipped, res.RequeueAfter)
	})
	t.Run("a failed patch is reported and retried", func(t *testing.T) {
		t.Parallel()
		c := clusterOf(t, interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return errors.New("boom")
			},
		}, two(), cloneSetOf(3), stored("1", "a"))
		_, _, err := c.reconcile(t)
		require.ErrorContains(t, err, "boom")
		require.Contains(t, fmt.Sprint(c.events), reasonPatchFailed)
	})
	t.Run("a place is given back when the apiserver has no such pod", func(t *testing.T) {
		t.Parallel()
		c := clusterOf(t, interceptor.Funcs{}, ledger(two(), versionIgnored, line("a", 0, 1, "id-x"), line("b", 0, unlimited)), cloneSetOf(3))
		res, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, creationTimeout, res.RequeueAfter)
		require.Equal(t, []string{"versionIgnored a 0+1 [id-x]", "versionIgnored b 0+-1"}, lines(ws.Status))
		c.clock.Step(creationTimeout)
		_, ws, err = c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, []string{"versionIgnored a 0+2", "versionIgnored b 0+-1"}, lines(ws.Status))
		require.Contains(t, fmt.Sprint(c.events), reasonCreatePodFailed)
	})
	t.Run("the clock of the webhook's replica may be wrong", func(t *testing.T) {
		t.Parallel()
		for _, wrong := range []time.Duration{-time.Hour, time.Hour} {
			ws := ledger(two(), versionIgnored, line("a", 0, 1, "id-x"), line("b", 0, unlimited))
			statusOf(ws.Status.VersionedSubsetStatuses[versionIgnored], "a").CreatingPods["id-x"] = metav1.NewTime(noon.Add(wrong))
			c := clusterOf(t, interceptor.Funcs{}, ws, cloneSetOf(3))
			res, ws, err := c.reconcile(t)
			require.NoError(t, err)
			require.Equal(t, creationTimeout, res.RequeueAfter, wrong)
			require.Equal(t, []string{"versionIgnored a 0+1 [id-x]", "versionIgnored b 0+-1"}, lines(ws.Status), "the pod may still be created")
			c.clock.Step(creationTimeout)
			_, ws, err = c.reconcile(t)
			require.NoError(t, err)
			require.Equal(t, []string{"versionIgnored a 0+2", "versionIgnored b 0+-1"}, lines(ws.Status), wrong)
		}
	})
	t.Run("a place of a pod that the cache does not show is kept", func(t *testing.T) {
		t.Parallel()
		pod := stored("x", "a")
		c := clusterOf(t, interceptor.Funcs{}, ledger(two(), versionIgnored, line("a", 0, 1, "id-x"), line("b", 0, unlimited)), cloneSetOf(3), pod)
		c.r.Client = withoutPods(c.WithWatch)
		c.r.memory.Change(two(), func(k *known) { k.begun = true })
		_, _, err := c.reconcile(t)
		require.NoError(t, err)
		c.clock.Step(creationTimeout)
		res, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, creationTimeout, res.RequeueAfter, "the apiserver is not asked more often")
		require.Equal(t, []string{"versionIgnored a 0+1 [id-x]", "versionIgnored b 0+-1"}, lines(ws.Status))
	})
	t.Run("the place of a pod that no longer belongs to the workload is given back", func(t *testing.T) {
		t.Parallel()
		pod := stored("x", "a", func(p *corev1.Pod) { p.OwnerReferences = nil })
		c := clusterOf(t, interceptor.Funcs{}, ledger(two(), versionIgnored, line("a", 0, 1, "id-x"), line("b", 0, unlimited)), cloneSetOf(3), pod)
		_, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, []string{"versionIgnored a 0+1 [id-x]", "versionIgnored b 0+-1"}, lines(ws.Status))
		c.clock.Step(creationTimeout)
		res, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Zero(t, res.RequeueAfter)
		require.Equal(t, []string{"versionIgnored a 0+2", "versionIgnored b 0+-1"}, lines(ws.Status))
	})
	t.Run("a new leader does not wait for pods that no longer belong to the workload", func(t *testing.T) {
		t.Parallel()
		released := stored("x", "a", func(p *corev1.Pod) { p.OwnerReferences = nil })
		c := clusterOf(t, interceptor.Funcs{}, two(), cloneSetOf(3), released, stored("1", "a", cost("200")))
		_, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, []string{"versionIgnored a 1+1", "versionIgnored b 0+-1"}, lines(ws.Status))
	})
	t.Run("a new leader waits until its cache shows all existing pods", func(t *testing.T) {
		t.Parallel()
		c := clusterOf(t, interceptor.Funcs{}, ledger(two(), versionIgnored, line("a", 2, 0), line("b", 0, unlimited)), cloneSetOf(3), stored("1", "a", cost("200")), stored("2", "a", cost("200")))
		c.r.Client = withoutPods(c.WithWatch)
		_, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, []string{"versionIgnored a 2+0", "versionIgnored b 0+-1"}, lines(ws.Status))
		c.r.Client = c.WithWatch
		_, ws, err = c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, []string{"versionIgnored a 2+0", "versionIgnored b 0+-1"}, lines(ws.Status))
	})
	t.Run("the next WorkloadSpread takes over when the older one is gone", func(t *testing.T) {
		t.Parallel()
		elder := two()
		elder.Name, elder.UID, elder.CreationTimestamp = "elder", "elder", metav1.NewTime(noon.Add(-time.Hour))
		younger := with(two(), func(ws *appsv1beta1.WorkloadSpread) { ws.CreationTimestamp = metav1.NewTime(noon) })
		c := clusterOf(t, interceptor.Funcs{}, elder, younger, cloneSetOf(3))
		_, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, reasonTargetTaken, ws.Status.Conditions[0].Reason)
		require.NoError(t, c.Delete(t.Context(), elder))
		require.Equal(t, []ctrl.Request{{NamespacedName: key}}, c.r.forTarget(t.Context(), elder))
		_, ws, err = c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, reasonSpreading, ws.Status.Conditions[0].Reason)
	})
	t.Run("pods of a Deployment through ReplicaSets", func(t *testing.T) {
		t.Parallel()
		pod := podOfSet()
		pod.Name, pod.UID = "1", "1"
		pod.Annotations = map[string]string{keys.MatchedWorkloadSpread: matched{Name: "web", Subset: "a"}.String()}
		c := clusterOf(t, interceptor.Funcs{}, spreading("apps/v1", "Deployment", subset("a", 2), subset("b", unlimited)), deploymentOf(), setOf("7", "new"), pod)
		_, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, []string{"new a 1+1", "new b 0+-1"}, lines(ws.Status))
	})
	t.Run("a Deployment's WorkloadSpread leaves the pods of a ReplicaSet to the ReplicaSet's own", func(t *testing.T) {
		t.Parallel()
		pod := podOfSet()
		pod.Name, pod.UID = "1", "1"
		onNode("node-a")(pod)
		pod.Annotations = map[string]string{keys.MatchedWorkloadSpread: matched{Name: "of-set", Subset: "a"}.String(), keys.PodDeletionCost: "100"}
		ofSet := spreading("apps/v1", "ReplicaSet", subset("a", 5))
		ofSet.Name, ofSet.UID, ofSet.Spec.TargetRef.Name = "of-set", "of-set", "web-new"
		ofDeployment := spreading("apps/v1", "Deployment", subset("a", 2), subset("b", unlimited))
		c := clusterOf(t, interceptor.Funcs{}, ofDeployment, ofSet, deploymentOf(), setOf("7", "new"), pod, sim.Node("node-a", zone, "a"))
		stays := func() {
			var now corev1.Pod
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), &now))
			require.Equal(t, pod.Annotations, now.Annotations)
		}
		_, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, []string{"new a 0+2", "new b 0+-1"}, lines(ws.Status))
		stays()
		_, err = c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ofSet)})
		require.NoError(t, err)
		stays()
		require.NoError(t, c.Delete(t.Context(), ofSet))
		require.Equal(t, []ctrl.Request{{NamespacedName: key}}, c.r.forTarget(t.Context(), ofSet))
		_, ws, err = c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, []string{"new a 1+1", "new b 0+-1"}, lines(ws.Status))
	})
	t.Run("a workload of a kind that the cache does not watch is read from the apiserver", func(t *testing.T) {
		t.Parallel()
		c := clusterOf(t, interceptor.Funcs{}, with(spreading("batch/v1", "Job", subset("a", "50%"), subset("b", "50%"))), jobOf(5))
		_, ws, err := c.reconcile(t)
		require.NoError(t, err)
		require.Equal(t, []string{"versionIgnored a 0+3", "versionIgnored b 0+3"}, lines(ws.Status))
	})
}

func TestAKindBetweenIsListedOnce(t *testing.T) {
	t.Parallel()
	pool := func(version string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "game.kruise.io", Version: version, Kind: "Pool"}
	}
	set := schema.GroupVersionKind{Group: "game.kruise.io", Version: "v1", Kind: "GameServerSet"}
	old := set
	old.Version = "v1alpha1"
	listed := []scaletarget.Listed{
		{Kind: old, Between: []schema.GroupVersionKind{pool("v1alpha1"), corev1.SchemeGroupVersion.WithKind("Pod")}},
		{Kind: set, Between: []schema.GroupVersionKind{pool("v1"), pool("v1"), replicaSets(), set}},
	}
	require.Equal(t, []schema.GroupVersionKind{replicaSets(), pool("v1alpha1")}, kindsBetween(set, set, listed))
}

func TestTotal(t *testing.T) {
	t.Parallel()
	job := jobOf(5)
	job.Spec.Completions = new(int32(7))
	paths := func(list ...string) func(*appsv1beta1.WorkloadSpread) {
		return func(ws *appsv1beta1.WorkloadSpread) {
			ws.Spec.TargetFilter = &appsv1beta1.WorkloadSpreadTargetFilter{ReplicasPathList: list}
		}
	}
	for _, tc := range []struct {
		name    string
		paths   []string
		n       int32
		unknown string
	}{
		{name: "parallelism of a Job", n: 5},
		{name: "fields", paths: []string{"spec.parallelism", "spec.completions", "spec.none.replicas"}, n: 12},
		{name: "a field that is not a number", paths: []string{"metadata.name"}, unknown: "field metadata.name of the workload is not a number of replicas"},
		{name: "an element of a list", paths: []string{"metadata.list.0"}, n: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := store(t, job)
			n, unknown, err := total(t.Context(), c, c, with(spreading("batch/v1", "Job"), paths(tc.paths...)), job, nil)
			require.NoError(t, err)
			require.Equal(t, tc.n, n)
			require.Equal(t, tc.unknown, unknown)
		})
	}
	object := map[string]any{"pools": []any{map[string]any{"replicas": int64(3)}}}
	n, why := valueAt(object, "pools.0.replicas")
	require.Empty(t, why)
	require.Equal(t, int32(3), n)
	_, why = valueAt(object, "pools.7.replicas")
	require.Contains(t, why, `"7" is not an index`)
	_, unknown, err := total(t.Context(), interceptor.NewClient(store(t), interceptor.Funcs{
		SubResourceGet: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceGetOption) error {
			return apierrors.NewNotFound(schema.GroupResource{}, "web")
		},
	}), store(t), spreading("a/v1", "B"), scaletarget.Empty(schema.GroupVersionKind{Group: "a", Version: "v1", Kind: "B"}), nil)
	require.NoError(t, err)
	require.Contains(t, unknown, "B.a has no scale subresource")
}

// reconciler returns a Reconciler with these clients.
func reconciler(c client.Client, live client.Reader, clk interface {
	Now() time.Time
	Since(time.Time) time.Duration
}, events *testkit.Events,
) *Reconciler {
	return &Reconciler{
		Controller: controltest.New(c, live, clk, events), Namespace: "flotilla-system", Opening: openTo{}, Versions: versions{"deployment", "replicaset"},
	}
}

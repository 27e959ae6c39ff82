package podprobemarker

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

func marker(change ...func(*appsv1alpha1.PodProbeMarker)) *appsv1alpha1.PodProbeMarker {
	m := &appsv1alpha1.PodProbeMarker{
		ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: "idle"},
		Spec: appsv1alpha1.PodProbeMarkerSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"game": "yes"}},
			Probes: []appsv1alpha1.PodContainerProbe{{
				Name: "idle", ContainerName: "app", PodConditionType: "example.com/idle",
				Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/idle.sh"}}}},
			}},
		},
	}
	for _, c := range change {
		c(m)
	}
	return m
}

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func TestPlanCountsPodsThatAreProbed(t *testing.T) {
	t.Parallel()
	runs := testkit.Pod("a").Node("node-1").Obj()
	runs.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}}
	ended, waits, nowhere := runs.DeepCopy(), runs.DeepCopy(), runs.DeepCopy()
	ended.Status.Phase, waits.Status.Conditions, nowhere.Spec.NodeName = corev1.PodFailed, nil, ""
	m := marker(func(m *appsv1alpha1.PodProbeMarker) { m.Generation = 3 })
	got := plan(observed{marker: m, pods: []*corev1.Pod{runs, runs, ended, waits, nowhere}}, noon)
	got.status.Conditions = nil
	require.Equal(t, planned{status: appsv1alpha1.PodProbeMarkerStatus{ObservedGeneration: 3, MatchedPods: 2}}, got)
}

// A PodProbeMarker of OpenKruise stays as it is until it is deleted. Then its finalizer is removed.
func TestAMarkerOfOpenKruiseIsTakenOver(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	m := &appsv1alpha1.PodProbeMarker{}
	require.NoError(t, yaml.UnmarshalStrict(text, m))
	require.Equal(t, []string{keys.NodePodProbeCleanup}, m.Finalizers)
	w := webhook()
	warnings, err := w.ValidateCreate(t.Context(), m)
	require.NoError(t, err)
	require.Empty(t, warnings)
	pod := testkit.Pod("a").Node("node-1").Obj()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}}
	got := plan(observed{marker: m, pods: []*corev1.Pod{pod, pod}}, noon)
	got.status.Conditions = nil
	require.Equal(t, planned{status: m.Status}, got, "only its readiness is written")
	m.DeletionTimestamp = &metav1.Time{}
	require.Equal(t, planned{release: true, status: m.Status}, plan(observed{marker: m}, noon))
}

func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1alpha1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{
				Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{}),
			}, nil
		},
		For: &appsv1alpha1.PodProbeMarker{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Pod{}: func(w *sim.World, before, after client.Object) []reconcile.Request {
				if before != nil && after != nil && !podChanged(before, after) {
					return nil
				}
				var out []reconcile.Request
				for _, m := range sim.Cached[*appsv1alpha1.PodProbeMarker](w) {
					for _, o := range []client.Object{before, after} {
						if o != nil && ownership.Selects(m.Spec.Selector, o) {
							out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
						}
					}
				}
				return out
			},
		},
		Actors: sim.Cluster(2),
		Rules:  []sim.Rule{{Name: "only OpenKruise's finalizer is removed, and only from an object that is being deleted", Write: checkFinalizers}},
		Summary: func(w *sim.World) string {
			var out []string
			for _, m := range sim.All[*appsv1alpha1.PodProbeMarker](w) {
				out = append(out, fmt.Sprintf("%s matches %d, observed=%t", m.Name, m.Status.MatchedPods, m.Status.ObservedGeneration == m.Generation))
			}
			return strings.Join(out, "\n")
		},
	}
}

func checkFinalizers(_ *sim.World, c sim.Change) error {
	before, ok := c.Before.(*appsv1alpha1.PodProbeMarker)
	after, stays := c.After.(*appsv1alpha1.PodProbeMarker)
	if ok && stays && c.ByController() && before.DeletionTimestamp == nil && len(before.Finalizers) != len(after.Finalizers) {
		return fmt.Errorf("%s changes the finalizers to %v", c.Request, after.Finalizers)
	}
	return nil
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	pod := func(name string) *corev1.Pod {
		current := testkit.Pod(name).Label("game", "yes").Obj()
		current.ResourceVersion = ""
		return current
	}
	held := func(m *appsv1alpha1.PodProbeMarker) { m.Finalizers = []string{keys.NodePodProbeCleanup} }
	do := func(name string, do func(context.Context, client.Client) error) sim.Edit {
		return sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error { return client.IgnoreNotFound(do(ctx, w.User())) }}
	}
	nodes := []client.Object{sim.Node("node-1"), sim.Node("node-2")}
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 30 * time.Second},
		sim.Scenario{Name: "pods come and go", Objects: append(nodes, marker(), pod("a"), pod("b"), testkit.Pod("other").Obj()), Edits: []sim.Edit{
			do("create c", func(ctx context.Context, c client.Client) error { return c.Create(ctx, pod("c")) }),
			do("delete a", func(ctx context.Context, c client.Client) error { return c.Delete(ctx, pod("a")) }),
		}},
		sim.Scenario{Name: "a PodProbeMarker of OpenKruise is deleted", Objects: append(nodes, marker(held), pod("a")), Edits: []sim.Edit{
			do("delete", func(ctx context.Context, c client.Client) error { return c.Delete(ctx, marker()) }),
		}},
		sim.Scenario{Name: "the spec changes", Objects: append(nodes, marker(), pod("a")), Edits: []sim.Edit{{
			Name: "edit", Do: func(ctx context.Context, w *sim.World) error {
				return sim.Set(ctx, w, types.NamespacedName{Namespace: testkit.Namespace, Name: "idle"}, func(m *appsv1alpha1.PodProbeMarker) {
					m.Spec.Probes[0].Probe.PeriodSeconds = 5
				})
			},
		}}},
	)
}

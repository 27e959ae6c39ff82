//go:build integration

package cloneset

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

func TestHooksInCluster(t *testing.T) {
	t.Parallel()
	s := begin(t)
	manage(t, s, Options{})
	for name, test := range map[string]func(*testing.T, *fixture){
		"an update in place waits for its hook before and after": testUpdateHook,
		"#1156: a rollback is held by hooks and never stalls":    testHookedRollback,
		"a deletion waits for its hook, or is cancelled":         testDeleteHook,
		"a new pod waits for its hook":                           testNormalHook,
		"a scale-out is bounded":                                 testBoundedScaleOut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, s))
		})
	}
}

const (
	holdLabel     = "example.com/hold"
	holdFinalizer = "example.com/hold"
)

// hold returns a hook with a label and a finalizer that marks pods not ready.
func hold() *pods.LifecycleHook {
	return &pods.LifecycleHook{
		LabelsHandler: map[string]string{holdLabel: "on"}, FinalizersHandler: []string{holdFinalizer}, MarkPodNotReady: true,
	}
}

// hooked returns a set whose pods are created with the label and the finalizer.
func hooked(n int32, l pods.Lifecycle) *testkit.CloneSetBuilder {
	return web(n).Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "1", "0").Spec(func(s *appsv1beta1.CloneSetSpec) {
		s.Lifecycle = &l
		s.Template.Labels[holdLabel] = "on"
		s.Template.Finalizers = []string{holdFinalizer}
	})
}

// awaitPodsIn waits until n pods are in a state, and returns them.
func (g *fixture) awaitPodsIn(t *testing.T, state pods.LifecycleState, n int) []*corev1.Pod {
	t.Helper()
	var out []*corev1.Pod
	require.Eventually(t, func() bool {
		out = nil
		for _, p := range g.Pods(t) {
			if p.Labels[keys.LifecycleState] == string(state) {
				out = append(out, p)
			}
		}
		return len(out) == n
	}, testenv.Long, testenv.Poll, "%d pods in %s: %v", n, state, g.Describe(t))
	return out
}

// patch changes a pod's metadata like a user's controller does.
func (g *fixture) patch(t *testing.T, p *corev1.Pod, data string) {
	t.Helper()
	require.NoError(t, g.Patch(t.Context(), p, client.RawPatch(types.MergePatchType, []byte(data))))
}

func (g *fixture) removeHookLabel(t *testing.T, p *corev1.Pod) {
	t.Helper()
	g.patch(t, p, `{"metadata":{"labels":{"`+holdLabel+`":null},"finalizers":null}}`)
}

func (g *fixture) addHookLabel(t *testing.T, p *corev1.Pod) {
	t.Helper()
	g.patch(t, p, `{"metadata":{"labels":{"`+holdLabel+`":"on"},"finalizers":["`+holdFinalizer+`"]}}`)
}

// removeFinalizers removes the finalizers, so that the namespace can be deleted.
func (g *fixture) removeFinalizers(t *testing.T) {
	t.Helper()
	for _, p := range g.Pods(t) {
		g.removeHookLabel(t, p)
	}
}

func testUpdateHook(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, hooked(2, pods.Lifecycle{InPlaceUpdate: hold()}))
	for _, p := range g.Pods(t) {
		require.True(t, podpatch.Gated(p, keys.KruisePodReady))
		require.Equal(t, corev1.ConditionTrue, podpatch.Find(p, keys.KruisePodReady).Status)
	}
	began := clock.RealClock{}.Now()
	g.change(t, image("app:2"))
	for range 2 {
		p := g.awaitPodsIn(t, pods.LifecyclePreparingUpdate, 1)[0]
		c := podpatch.Find(p, keys.KruisePodReady)
		require.Equal(t, corev1.ConditionFalse, c.Status)
		require.JSONEq(t, `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`, c.Message)
		require.Equal(t, corev1.ConditionFalse, podpatch.Find(p, corev1.PodReady).Status)
		require.Equal(t, "app:1", p.Spec.Containers[0].Image)
		g.removeHookLabel(t, p)
		p = g.awaitPodsIn(t, pods.LifecycleUpdated, 1)[0]
		require.Equal(t, corev1.ConditionTrue, podpatch.Find(p, keys.KruisePodReady).Status)
		require.Equal(t, "app:2", p.Spec.Containers[0].Image)
		g.addHookLabel(t, p)
	}
	g.Await(t, rolledOut)
	// Per pod: PreparingUpdate; marked unready; spec; Updated; Normal.
	g.PodWrites(t, began, map[string]int{"patch pods": 2, "patch pods/status": 8})
	g.removeFinalizers(t)
}

func testHookedRollback(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, hooked(2, pods.Lifecycle{InPlaceUpdate: hold()}))
	g.change(t, image("app:2"))
	g.awaitPodsIn(t, pods.LifecyclePreparingUpdate, 1)
	g.change(t, image("app:1"))
	g.Await(t, rolledOut)
	g.awaitPodsIn(t, pods.LifecycleNormal, 2)

	g.change(t, image("app:2"))
	g.removeHookLabel(t, g.awaitPodsIn(t, pods.LifecyclePreparingUpdate, 1)[0])
	p := g.awaitPodsIn(t, pods.LifecycleUpdated, 1)[0]
	g.change(t, image("app:1"))
	again := g.awaitPodsIn(t, pods.LifecyclePreparingUpdate, 1)[0]
	require.Equal(t, p.Name, again.Name)
	require.Equal(t, "on", again.Labels[holdLabel], "the label is added again")
	require.Contains(t, again.Finalizers, holdFinalizer)
	g.removeHookLabel(t, again)
	back := g.awaitPodsIn(t, pods.LifecycleUpdated, 1)[0]
	require.Equal(t, "app:1", back.Spec.Containers[0].Image)
	g.addHookLabel(t, back)
	g.Await(t, rolledOut)
	g.removeFinalizers(t)
}

func testDeleteHook(t *testing.T, g *fixture) {
	t.Helper()
	h := hold()
	h.MarkPodNotReady = false
	g.make(t, hooked(3, pods.Lifecycle{PreDelete: h}))
	scale := func(n int32) { g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Replicas = new(n) }) }
	names := slices.Sorted(maps.Keys(g.Pods(t)))
	scale(2)
	g.awaitPodsIn(t, pods.LifecyclePreparingDelete, 1)
	scale(3)
	g.Await(t, rolledOut)
	require.Equal(t, names, slices.Sorted(maps.Keys(g.Pods(t))), "no pod was created or deleted")
	scale(2)
	p := g.awaitPodsIn(t, pods.LifecyclePreparingDelete, 1)[0]
	g.removeHookLabel(t, p)
	g.Await(t, rolledOut)
	require.NotContains(t, g.Pods(t), p.Name)
	g.removeFinalizers(t)
}

func testNormalHook(t *testing.T, g *fixture) {
	t.Helper()
	h := &pods.LifecycleHook{LabelsHandler: map[string]string{"example.com/warm": "yes"}}
	set := web(1).Spec(func(s *appsv1beta1.CloneSetSpec) { s.Lifecycle = &pods.Lifecycle{PreNormal: h} }).Obj()
	set.Namespace, set.UID, set.ResourceVersion = g.Namespace, "", ""
	require.NoError(t, g.Create(t.Context(), set))
	g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		return s.Status.ReadyReplicas == 1 && s.Status.AvailableReplicas == 0
	})
	p := g.awaitPodsIn(t, pods.LifecyclePreparingNormal, 1)[0]
	g.patch(t, p, `{"metadata":{"labels":{"example.com/warm":"yes"}}}`)
	g.Await(t, rolledOut)
}

func testBoundedScaleOut(t *testing.T, g *fixture) {
	t.Helper()
	h := &pods.LifecycleHook{LabelsHandler: map[string]string{"example.com/warm": "yes"}}
	bound := web(4).Spec(func(s *appsv1beta1.CloneSetSpec) {
		s.Lifecycle = &pods.Lifecycle{PreNormal: h}
		s.ScaleStrategy.MaxUnavailable = new(intstr.FromInt32(2))
	}).Obj()
	bound.Namespace, bound.UID, bound.ResourceVersion = g.Namespace, "", ""
	require.NoError(t, g.Create(t.Context(), bound))
	for available := int32(0); available < 4; available += 2 {
		g.Await(t, func(s *appsv1beta1.CloneSet) bool { return s.Status.AvailableReplicas == available })
		for _, p := range g.awaitPodsIn(t, pods.LifecyclePreparingNormal, 2) {
			g.patch(t, p, `{"metadata":{"labels":{"example.com/warm":"yes"}}}`)
		}
	}
	g.Await(t, rolledOut)
}

//go:build integration

package daemonset

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const (
	underTest  = "daemonset-under-test"
	nodesThere = testenv.Nodes
)

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is the namespace of one test, with one DaemonSet.
type fixture struct {
	*testenv.Fixture[*appsv1beta1.DaemonSet]
}

// make creates the set in the test's namespace and waits until a pod is available on each node that fits.
func (g *fixture) make(t *testing.T, b *testkit.DaemonSetBuilder, fit int32) {
	t.Helper()
	set := b.Obj()
	set.Namespace, set.UID, set.ResourceVersion = g.Namespace, "", ""
	require.NoError(t, g.Create(t.Context(), set))
	g.awaitRollout(t, fit)
}

// awaitRollout waits until a pod of the template is available on each of that many nodes.
func (g *fixture) awaitRollout(t *testing.T, fit int32) {
	t.Helper()
	g.Await(t, func(s *appsv1beta1.DaemonSet) bool {
		st := &s.Status
		return st.ObservedGeneration == s.Generation && st.DesiredNumberScheduled == fit && st.CurrentNumberScheduled == fit &&
			st.UpdatedNumberScheduled == fit && st.NumberAvailable == fit && st.NumberMisscheduled == 0
	})
}

func (g *fixture) change(t *testing.T, change func(*appsv1beta1.DaemonSetSpec)) {
	t.Helper()
	g.Change(t, func(set *appsv1beta1.DaemonSet) { change(&set.Spec) })
}

// uids returns the pods' UIDs by node.
func (g *fixture) uids(t *testing.T) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, p := range g.Pods(t) {
		require.NotContains(t, out, nodeOf(p), "one pod a node")
		out[nodeOf(p)] = p.UID
	}
	return out
}

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	s.Run(t, underTest, Kind(), func(mgr ctrl.Manager) {
		require.NoError(t, setUp(t.Context(), mgr, options{podcontrol.Options{Options: control.Options{Clock: clock.RealClock{}}}}))
		hook := &Webhook{Client: mgr.GetClient()}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.DaemonSet]{
			Object: &appsv1beta1.DaemonSet{}, Defaulter: hook, Validator: hook,
		}))
	})
	for name, test := range map[string]func(*testing.T, *fixture){
		"creation takes one write for each pod, and nothing is written after":  testWrites,
		"an in-place update keeps pods":                                        testInPlace,
		"a surge replaces pods with none missing":                              testSurge,
		"nodes that match get pods, others lose them":                          testNodes,
		"a minimal object is defaulted and an invalid one refused":             testWebhook,
		"the pods of a native DaemonSet are adopted":                           testMove,
		"examples are accepted, refused or warned about as their comments say": testExamples,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &fixture{testenv.New(t, s, underTest, &appsv1beta1.DaemonSet{})})
		})
	}
}

func testExamples(t *testing.T, g *fixture) {
	t.Helper()
	webhooktest.DryRun(t, g, g.Namespace, examples, "daemonset")
}

func testWrites(t *testing.T, g *fixture) {
	t.Helper()
	began := clock.RealClock{}.Now()
	g.make(t, web(), nodesThere)
	g.PodWrites(t, began, map[string]int{"create pods": nodesThere})
	g.Rests(t)
}

func testInPlace(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, web().InPlace().Budget("0", "2", "0"), nodesThere)
	before, began := g.uids(t), clock.RealClock{}.Now()
	g.change(t, image("app:2"))
	g.awaitRollout(t, nodesThere)
	require.Equal(t, before, g.uids(t))
	g.PodWrites(t, began, map[string]int{"patch pods": nodesThere, "patch pods/status": 2 * nodesThere})
	g.Rests(t)
}

func testSurge(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, web().Budget("0", "0", "2"), nodesThere)
	before := g.uids(t)
	ctx, stop := context.WithTimeout(t.Context(), testenv.Long)
	defer stop()
	events, err := g.Watch(ctx, &corev1.PodList{}, client.InNamespace(g.Namespace))
	require.NoError(t, err)
	g.change(t, image("app:2"))
	pods, updated := map[string]*corev1.Pod{}, map[string]bool{}
	for e := range events.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		require.True(t, ok)
		pods[pod.Name] = pod
		if e.Type == watch.Deleted {
			delete(pods, pod.Name)
		}
		if len(pods) < nodesThere {
			continue // the watch begins with existing pods
		}
		serving := map[string]bool{}
		for _, p := range pods {
			f := podset.View(p, podset.Rules{}, clock.RealClock{}.Now())
			if f.Available && f.Active {
				serving[nodeOf(p)] = true
				updated[nodeOf(p)] = updated[nodeOf(p)] || p.Spec.Containers[0].Image == "app:2"
			}
		}
		require.Len(t, serving, nodesThere, "each node has an available pod")
		if len(updated) == nodesThere && !slices.Contains(slices.Collect(maps.Values(updated)), false) {
			break
		}
	}
	g.awaitRollout(t, nodesThere)
	for node, uid := range g.uids(t) {
		require.NotEqual(t, before[node], uid)
	}
}

func testNodes(t *testing.T, g *fixture) {
	t.Helper()
	var nodes corev1.NodeList
	require.NoError(t, g.List(t.Context(), &nodes))
	mark := func(i int, value string) {
		testkit.Change(t, g, &nodes.Items[i], func(n *corev1.Node) { n.Labels[g.Namespace] = value })
	}
	mark(0, "yes")
	mark(1, "yes")
	g.make(t, web().OnNodes(g.Namespace, "yes"), 2)
	first := g.uids(t)[nodes.Items[0].Name]
	mark(1, "no")
	mark(2, "yes")
	require.Eventually(t, func() bool {
		uids := g.uids(t)
		return len(uids) == 2 && uids[nodes.Items[2].Name] != "" && uids[nodes.Items[0].Name] == first
	}, testenv.Long, testenv.Poll)
	g.awaitRollout(t, 2)
	g.Rests(t)
}

func testWebhook(t *testing.T, g *fixture) {
	t.Helper()
	set := &appsv1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name, Namespace: g.Namespace}}
	set.Spec.Selector, set.Spec.Template = web().Obj().Spec.Selector, web().Obj().Spec.Template
	require.NoError(t, g.Create(t.Context(), set))
	require.Equal(t, "250", set.Spec.BurstReplicas.String())
	require.Equal(t, "1", set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String())
	before := set.DeepCopy()
	set.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	err := g.Patch(t.Context(), set, client.MergeFrom(before)) // The controller may have written the status meanwhile.
	require.True(t, apierrors.IsInvalid(err), err)
}

// testMove deletes a DaemonSet of Kubernetes without its pods, and creates one of ours with the same name.
func testMove(t *testing.T, g *fixture) {
	t.Helper()
	spec := web().Obj().Spec
	native := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: testenv.Name, Namespace: g.Namespace},
		Spec:       appsv1.DaemonSetSpec{Selector: spec.Selector, Template: spec.Template},
	}
	require.NoError(t, g.Create(t.Context(), native))
	require.Eventually(t, func() bool {
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(native), native))
		return native.Status.NumberAvailable == nodesThere
	}, testenv.Long, testenv.Poll)
	before := g.uids(t)
	require.NoError(t, g.Delete(t.Context(), native, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(g.Get(t.Context(), client.ObjectKeyFromObject(native), native))
	}, testenv.Long, testenv.Poll)

	ours := web()
	ours.Obj().Spec.Template = native.Spec.Template // with the apiserver's defaults
	began := clock.RealClock{}.Now()
	g.make(t, ours, nodesThere)
	require.Equal(t, before, g.uids(t), "no pod was re-created")
	var revisions appsv1.ControllerRevisionList
	require.NoError(t, g.List(t.Context(), &revisions, client.InNamespace(g.Namespace)))
	require.Len(t, revisions.Items, 1, "no revision was created")
	g.PodWrites(t, began, map[string]int{"patch pods": nodesThere})
	for _, p := range g.Pods(t) {
		require.Equal(t, kind(), p.OwnerReferences[0].Kind)
		require.Equal(t, "apps.kruise.io/v1beta1", p.OwnerReferences[0].APIVersion)
		require.NotEmpty(t, p.Labels[keys.ControllerRevisionHash])
	}
	g.change(t, image("app:2"))
	g.awaitRollout(t, nodesThere)
	require.NoError(t, g.List(t.Context(), &revisions, client.InNamespace(g.Namespace), client.HasLabels{keys.ControllerRevisionHash}))
	require.Len(t, revisions.Items, 2, "theirs and ours have the same label")
}

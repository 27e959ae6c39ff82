//go:build integration

package nodepodprobe

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/member/pod/podprobemarker"
	"github.com/flotilla-io/flotilla/member/pod/probedpod"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

const underTest = "nodepodprobe-under-test"

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// TestInCluster acts as the node daemon, which is tested on real nodes.
func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1alpha1.AddToScheme})
	s.Run(t, underTest, appsv1alpha1.GroupVersion.WithKind(kind), func(mgr ctrl.Manager) {
		require.NoError(t, setUp(t.Context(), mgr, options{Markers: true, Liveness: true, Clock: clock.RealClock{}}))
		require.NoError(t, probedpod.Setup(mgr, probedpod.Options{Options: control.Options{Clock: clock.RealClock{}}}))
		require.NoError(t, podprobemarker.Setup(mgr, control.Options{Clock: clock.RealClock{}}))
	})
	g := testenv.New(t, s, underTest, &appsv1alpha1.PodProbeMarker{})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: testenv.Name, Labels: map[string]string{"game": "yes"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Image: "app:1", Ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: 8081}}}},
		},
	}
	require.NoError(t, g.Create(t.Context(), pod))
	m := idleMarker(testenv.Name, func(m *appsv1alpha1.PodProbeMarker) {
		m.Namespace, m.Spec.Probes[0].ContainerName = g.Namespace, "app"
		m.Spec.Probes[0].Probe.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/idle", Port: intstr.FromString("admin")}}
	})
	began := clock.RealClock{}.Now()
	require.NoError(t, g.Create(t.Context(), m))
	g.Await(t, func(m *appsv1alpha1.PodProbeMarker) bool {
		return m.Status.MatchedPods == 1 && m.Status.ObservedGeneration == m.Generation
	})

	read := func() *corev1.Pod {
		live := &corev1.Pod{}
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(pod), live))
		return live
	}
	n := &appsv1alpha1.NodePodProbe{}
	node := func() bool {
		return g.Get(t.Context(), types.NamespacedName{Name: read().Spec.NodeName}, n) == nil
	}
	require.Eventually(t, func() bool { return node() && podprobe.Find(n, pod.UID) != nil }, testenv.Long, testenv.Poll, "the NodePodProbe has the probe")
	require.Len(t, n.OwnerReferences, 1)
	require.Equal(t, intstr.FromInt32(8081), podprobe.Find(n, pod.UID).Probes[0].Probe.HTTPGet.Port)

	finds := func(state appsv1alpha1.ProbeState, message string) {
		require.True(t, node())
		next := n.DeepCopy()
		var changed bool
		next.Status, changed = podprobe.Report(n, map[podprobe.Key]podprobe.Result{
			{Pod: pod.UID, Name: podprobe.Name(m.Name, "idle")}: {State: state, Message: message, At: clock.RealClock{}.Now()},
		})
		require.True(t, changed)
		require.NoError(t, g.Status().Patch(t.Context(), next, client.MergeFrom(n)))
	}
	has := func(status corev1.ConditionStatus, message, label, cost string) func() bool {
		return func() bool {
			live := read()
			c := podpatch.Find(live, idle)
			return c != nil && c.Status == status && c.Message == message && live.Labels["idle"] == label && live.Annotations[corev1.PodDeletionCost] == cost
		}
	}
	finds(appsv1alpha1.ProbeSucceeded, "nobody plays")
	require.Eventually(t, has(corev1.ConditionTrue, "nobody plays", "yes", "-10"), testenv.Long, testenv.Poll)
	finds(appsv1alpha1.ProbeFailed, "")
	require.Eventually(t, has(corev1.ConditionFalse, "", "no", ""), testenv.Long, testenv.Poll)
	g.PodWrites(t, began, map[string]int{"patch pods": 2, "patch pods/status": 2}) // Metadata and status are written separately, and each once.

	require.NoError(t, g.Delete(t.Context(), m))
	require.Eventually(t, func() bool { return node() && podprobe.Find(n, pod.UID) == nil }, testenv.Long, testenv.Poll, "the probe ends")
	require.True(t, has(corev1.ConditionFalse, "", "no", "")(), "the condition stays")
	g.Rests(t)
}

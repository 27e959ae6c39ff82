//go:build integration

package containerrecreaterequest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

const underTest = "containerrecreaterequest-under-test"

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// TestInCluster acts as the node daemon, which is tested on real nodes.
func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	s.Run(t, underTest, gvk(), func(mgr ctrl.Manager) {
		require.NoError(t, setUp(t.Context(), mgr, options{Clock: clock.RealClock{}}))
		w := &Webhook{Live: mgr.GetAPIReader()}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.ContainerRecreateRequest]{
			Object: &appsv1beta1.ContainerRecreateRequest{}, Defaulter: w, Validator: w,
		}))
	})
	g := testenv.New(t, s, underTest, &appsv1beta1.ContainerRecreateRequest{})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: testenv.Name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Image: "app:1"}}, ReadinessGates: []corev1.PodReadinessGate{{ConditionType: keys.KruisePodReady}},
		},
	}
	require.NoError(t, g.Create(t.Context(), pod))
	read := func() *corev1.Pod {
		live := &corev1.Pod{}
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(pod), live))
		return live
	}
	require.Eventually(t, func() bool {
		live := read()
		return len(live.Status.ContainerStatuses) > 0 && live.Status.ContainerStatuses[0].ContainerID != ""
	}, testenv.Long, testenv.Poll, "the pod runs")
	r := &appsv1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: testenv.Name},
		Spec: appsv1beta1.ContainerRecreateRequestSpec{
			PodName: testenv.Name, Containers: []appsv1beta1.ContainerRecreateRequestContainer{{Name: "app"}},
			Strategy: &appsv1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: new(int64(1))},
		},
	}
	nobody := r.DeepCopy()
	nobody.Spec.PodName = "nobody"
	require.ErrorContains(t, g.Create(t.Context(), nobody), `spec.podName: Invalid value: "nobody": there is no such pod`)
	require.NoError(t, g.Create(t.Context(), r))
	require.Equal(t, read().Spec.NodeName, r.Labels[keys.RecreateNode])
	require.Equal(t, string(read().UID), r.Labels[keys.RecreatePodUID])
	require.NotEmpty(t, r.Annotations[keys.RecreateRequester])
	require.Equal(t, read().Status.ContainerStatuses[0].ContainerID, r.Spec.Containers[0].StatusContext.ContainerID)
	changed := r.DeepCopy()
	changed.Spec.Strategy.OrderedRecreate = true
	require.ErrorContains(t, g.Update(t.Context(), changed), "spec: Forbidden: it can't be changed: create another ContainerRecreateRequest")

	phase := func(p appsv1beta1.ContainerRecreateRequestPhase) {
		live := g.Object(t)
		next := live.DeepCopy()
		next.Status.Phase = p
		if p == appsv1beta1.RecreateCompleted {
			next.Status.CompletionTime = new(metav1.Now())
		}
		require.NoError(t, g.Status().Patch(t.Context(), next, client.MergeFrom(live)))
	}
	phase(appsv1beta1.RecreateRecreating)
	live := g.Await(t, func(r *appsv1beta1.ContainerRecreateRequest) bool {
		return report.IsConditionTrue(r.Status.Conditions, appsv1beta1.RecreatePreGrace)
	})
	require.Equal(t, []string{keys.RecreateUnready}, live.Finalizers)
	require.True(t, lifecycle.Blocks(read(), recreate.Agent, recreate.Key(live)))
	require.False(t, podpatch.Ready(read()))

	phase(appsv1beta1.RecreateCompleted)
	live = g.Await(t, func(r *appsv1beta1.ContainerRecreateRequest) bool {
		return !slices.Contains(r.Finalizers, keys.RecreateUnready)
	})
	require.NotContains(t, live.Labels, keys.RecreateActive)
	require.Equal(t, corev1.ConditionTrue, podpatch.Find(read(), keys.KruisePodReady).Status)
}

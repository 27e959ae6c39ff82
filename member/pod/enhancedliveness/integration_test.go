//go:build integration

package enhancedliveness

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestMain runs the package's tests with a lab.
func TestMain(m *testing.M) { testenv.Main(m) }

// TestInCluster acts as the controllers of the CloneSet and of NodePodProbes, the kubelet and the node daemon. In other tests, controllers
// write NodePodProbes, so this one has its own cluster.
func TestInCluster(t *testing.T) {
	t.Parallel()
	schemes := runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme}
	api := testenv.Start(t, testenv.Config{Scheme: schemes.AddToScheme, Own: &lab.Config{ControlPlaneOnly: true}})
	mgr, err := ctrl.NewManager(api.REST(), ctrl.Options{
		Scheme: api.Scheme(), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
	})
	require.NoError(t, err)
	events := &testkit.Events{}
	require.NoError(t, ownership.IndexByOwner(t.Context(), mgr.GetFieldIndexer(), &corev1.Pod{}))
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, Daemons: liveDaemons{}, Events: events, kind: cloneSets()}
	require.NoError(t, r.builder(mgr, 0).Complete(r))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})

	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	set := &appsv1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       appsv1beta1.CloneSetSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	set.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.CloneSetRollingUpdateStrategy{MaxUnavailable: new(intstr.FromInt32(1))}
	require.NoError(t, api.Create(t.Context(), set))
	n := &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	require.NoError(t, api.Create(t.Context(), n))
	pods := map[string]*corev1.Pod{}
	// runs makes the kubelet start the container of a pod.
	runs := func(pod *corev1.Pod, id string) {
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", Image: "app:1", ContainerID: id, Ready: true, Started: new(true),
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
			}},
		}
		require.NoError(t, api.Status().Update(t.Context(), pod))
	}
	for _, name := range []string{"web-a", "web-b"} {
		pods[name] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, Labels: labels, Annotations: map[string]string{keys.ContainerProbeContext: probes},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: set.Name, UID: set.UID, Controller: new(true),
				}},
			},
			Spec: template.Spec,
		}
		require.NoError(t, api.Create(t.Context(), pods[name]))
		runs(pods[name], "containerd://"+name+"-0")
	}
	fails := func(name string) {
		pod := pods[name]
		n.Status.PodProbeStatuses = append(n.Status.PodProbeStatuses, appsv1alpha1.PodProbeStatus{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ProbeStates: []appsv1alpha1.ContainerProbeState{{
				Name: podprobe.LivenessName("app", app(pod).ContainerID), State: appsv1alpha1.ProbeFailed,
				LastProbeTime: metav1.Now(), LastTransitionTime: metav1.Now(), Message: "no",
			}},
		})
		require.NoError(t, api.Status().Update(t.Context(), n))
	}
	all := func() []appsv1beta1.ContainerRecreateRequest {
		var list appsv1beta1.ContainerRecreateRequestList
		require.NoError(t, api.List(t.Context(), &list))
		return list.Items
	}
	fails("web-a")
	require.Eventually(t, func() bool { return len(all()) == 1 }, testenv.Long, testenv.Poll, "the restart is requested")
	first := all()[0]
	require.Equal(t, requestName(pods["web-a"], "app", "containerd://web-a-0"), first.Name)
	require.Equal(t, "containerd://web-a-0", first.Annotations[keys.RecreateContainerID])
	require.Equal(t, pods["web-a"].UID, first.OwnerReferences[0].UID)

	fails("web-b")
	require.Eventually(t, func() bool { return slices.Contains(events.Reasons(), reasonDelayed) }, testenv.Long, testenv.Poll, "the other pod waits")
	require.Len(t, all(), 1)

	runs(pods["web-a"], "containerd://web-a-1")
	first.Status.Phase, first.Status.CompletionTime = appsv1beta1.RecreateCompleted, new(metav1.Now())
	require.NoError(t, api.Status().Update(t.Context(), &first))
	require.Eventually(t, func() bool { return len(all()) == 2 }, testenv.Long, testenv.Poll, "the other container is restarted next")
	require.True(t, slices.ContainsFunc(all(), func(r appsv1beta1.ContainerRecreateRequest) bool { return r.Spec.PodName == "web-b" }))
}

//go:build integration

package sidecarset

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// listening is an openingAll with a channel.
type listening struct{ openingAll }

func (listening) Changes() <-chan event.GenericEvent { return make(chan event.GenericEvent) }

// TestTheControllerInCluster runs the controller in its own cluster, because a SidecarSet covers all namespaces. The test acts as the
// kubelet and the webhook.
func TestTheControllerInCluster(t *testing.T) {
	t.Parallel()
	add := func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), appsv1beta1.AddToScheme(s))
	}
	c := testenv.Start(t, testenv.Config{Scheme: add, Own: &lab.Config{ControlPlaneOnly: true}})
	for _, name := range []string{"shop", system} {
		require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"}})))
	s := admitted(t, `{spec: {customVersion: v1}}`)
	s.UID = ""
	require.NoError(t, c.Create(t.Context(), s))

	mgr, err := ctrl.NewManager(c.REST(), ctrl.Options{
		Scheme: c.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: config.Controller{UsePriorityQueue: new(false)}, // As in package option.
	})
	require.NoError(t, err)
	require.NoError(t, Setup(mgr, Options{
		Options: control.Options{Clock: clock.RealClock{}}, Namespace: system, Opening: listening{},
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})

	run := func(pod *corev1.Pod) {
		t.Helper()
		pod.Status = setRunning(pod.DeepCopy()).Status
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		require.NoError(t, c.Status().Update(t.Context(), pod))
	}
	for _, name := range []string{"web-0", "web-1"} {
		pod := runningPod(t, name, s)
		require.NoError(t, c.Create(t.Context(), pod))
		run(pod)
	}
	require.NoError(t, c.Create(t.Context(), runningPod(t, "web-2")))
	await := func(what string, reached func(appsv1beta1.SidecarSetStatus) bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			return c.Get(t.Context(), key, s) == nil && s.Status.ObservedGeneration == s.Generation && reached(s.Status)
		}, testtimeout.Scale(time.Minute), 50*time.Millisecond, what)
	}
	counts := func(matched, updated, both int32) func(appsv1beta1.SidecarSetStatus) bool {
		return func(st appsv1beta1.SidecarSetStatus) bool {
			return st.MatchedPods == matched && st.UpdatedPods == updated && st.UpdatedReadyPods == both
		}
	}
	await("pods are counted", counts(2, 2, 2))
	require.Equal(t, reasonNotInjected, report.GetCondition(s.Status.Conditions, appsv1beta1.SidecarSetInjected).Reason)
	require.Contains(t, report.GetCondition(s.Status.Conditions, appsv1beta1.SidecarSetInjected).Message, "shop/web-2")
	latest := &appsv1.ControllerRevision{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: system, Name: s.Status.LatestRevision}, latest))
	require.Equal(t, "v1", latest.Labels[keys.SidecarSetCustomVersion])

	change := func(edit func(*appsv1beta1.SidecarSetSpec)) {
		t.Helper()
		require.NoError(t, c.Get(t.Context(), key, s))
		edit(&s.Spec)
		rehash(t, s)
		require.NoError(t, c.Update(t.Context(), s))
	}
	change(func(s *appsv1beta1.SidecarSetSpec) { s.Containers[0].Image = "log:2" })
	for n := range int32(2) { // One at a time.
		await("a pod is updated", func(st appsv1beta1.SidecarSetStatus) bool { return st.UpdatedPods == n+1 })
		var all corev1.PodList
		require.NoError(t, c.List(t.Context(), &all, client.InNamespace("shop")))
		for i := range all.Items {
			pod := &all.Items[i]
			if log := containerOf(pod, "log"); log != nil && log.Image == "log:2" {
				require.Contains(t, pod.Annotations, keys.SidecarSetInPlaceState)
				run(pod)
			}
		}
	}
	await("both are ready again", counts(2, 2, 2))

	change(func(s *appsv1beta1.SidecarSetSpec) { s.Containers[0].Command, s.CustomVersion = []string{"run"}, "v2" })
	await("no pod is updated", counts(2, 0, 0))
	pod := &corev1.Pod{}
	require.Eventually(t, func() bool {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-0"}, pod); err != nil {
			return false
		}
		condition := podpatch.Find(pod, keys.SidecarSetUpgradable)
		return condition != nil && condition.Status == corev1.ConditionFalse && condition.Reason == reasonImmutable
	}, testtimeout.Scale(time.Minute), 50*time.Millisecond)
	require.Equal(t, "log:2", containerOf(pod, "log").Image)
	var history appsv1.ControllerRevisionList
	require.NoError(t, c.List(t.Context(), &history, client.InNamespace(system), client.MatchingLabels{keys.SidecarSetName: "log"}))
	require.Len(t, history.Items, 3)

	require.NoError(t, c.Get(t.Context(), key, s))
	require.Never(t, func() bool {
		live := &appsv1beta1.SidecarSet{}
		return c.Get(t.Context(), key, live) != nil || live.ResourceVersion != s.ResourceVersion
	}, 2*time.Second, 200*time.Millisecond, "nothing is written once all pods are updated")
}

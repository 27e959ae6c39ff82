package enhancedliveness

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
)

// refusingGuard is a guard that refuses as long as why is set.
type refusingGuard struct{ why string }

// Check implements podwebhook.Judge.
func (r *refusingGuard) Check(_ context.Context, q podwebhook.Request) (*podwebhook.Refusal, error) {
	if r.why == "" || q.Operation != podwebhook.Update {
		return nil, nil
	}
	return &podwebhook.Refusal{Message: r.why}, nil
}

// Forecast implements podwebhook.Judge.
func (*refusingGuard) Forecast(context.Context, []podwebhook.Request) ([]*podwebhook.Refusal, error) {
	return nil, nil
}

// fixture is the CloneSet instance of the controller with a fake client.
type fixture struct {
	*Reconciler
	guard  *refusingGuard
	events *testkit.Events
}

func newFixture(t *testing.T, pods ...*corev1.Pod) fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	set := testkit.CloneSet("web").Replicas(int32(len(pods))).Rolling("0", "1", "0").Obj()
	set.UID = "uid-web"
	n := &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	objects := []client.Object{set, n}
	for _, pod := range pods {
		pod.Spec.NodeName, pod.Spec.TerminationGracePeriodSeconds = "node-1", new(int64(7))
		n.Status.PodProbeStatuses = append(n.Status.PodProbeStatuses, appsv1alpha1.PodProbeStatus{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ProbeStates: []appsv1alpha1.ContainerProbeState{{
				Name: podprobe.LivenessName("app", app(pod).ContainerID), State: appsv1alpha1.ProbeFailed, Message: "no answer",
				LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute)),
			}},
		})
		objects = append(objects, pod)
	}
	owner := func(o client.Object) []string { return []string{string(metav1.GetControllerOf(o).UID)} }
	c := clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&corev1.Pod{}, "flotilla.ownerUID", owner).Build()
	f := fixture{guard: &refusingGuard{}, events: &testkit.Events{}}
	f.Reconciler = &Reconciler{
		Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(noon), Events: f.events, Daemons: liveDaemons{}, kind: cloneSets(),
		Guards: podwebhook.Guards{{Guard: podwebhook.Guard{Gates: podwebhook.Gates{podwebhook.Update: ""}}, Judge: f.guard}},
	}
	return f
}

func (f fixture) reconcile(t *testing.T) (after time.Duration, made []appsv1beta1.ContainerRecreateRequest) {
	t.Helper()
	r, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: testkit.Namespace, Name: "web"}})
	require.NoError(t, err)
	var list appsv1beta1.ContainerRecreateRequestList
	require.NoError(t, f.Client.List(t.Context(), &list))
	return r.RequeueAfter, list.Items
}

func TestARestartIsRequestedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, servingPod("a"), servingPod("b"))
	after, made := f.reconcile(t)
	require.Equal(t, retryBudget, after)
	require.Len(t, made, 1)
	r := made[0]
	require.Equal(t, requestName(servingPod("a"), "app", "containerd://a"), r.Name)
	require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "uid-a"}}, r.OwnerReferences)
	require.Equal(t, map[string]string{keys.RecreateLiveness: "app", keys.RecreatePodUID: "uid-a"}, r.Labels)
	require.Equal(t, map[string]string{
		keys.RecreateReason: "its liveness probe has failed: no answer", keys.RecreateContainerID: "containerd://a",
	}, r.Annotations)
	require.Equal(t, appsv1beta1.ContainerRecreateRequestSpec{
		PodName: "a", Containers: []appsv1beta1.ContainerRecreateRequestContainer{{Name: "app"}},
		Strategy:              &appsv1beta1.ContainerRecreateRequestStrategy{},
		ActiveDeadlineSeconds: new(int64(307)), TTLSecondsAfterFinished: new(int32(3600)),
	}, r.Spec)
	_, made = f.reconcile(t)
	require.Len(t, made, 1)
	require.Equal(t, []string{reasonUnhealthy, reasonDelayed}, f.events.Reasons(), "each failure is reported once")
}

func TestAGuardHoldsARestartBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, servingPod("a"))
	f.guard.why = "PodUnavailableBudget web: no more pods may become unavailable"
	for range 2 {
		after, made := f.reconcile(t)
		require.Equal(t, retryBudget, after)
		require.Empty(t, made)
	}
	require.Equal(t, []string{reasonDelayed}, f.events.Reasons())
	require.Contains(t, f.events.All()[0].Note, "the liveness probe of container app has failed: no answer. PodUnavailableBudget web: no more")
	f.guard.why = ""
	_, made := f.reconcile(t)
	require.Len(t, made, 1)
}

func TestAPodWhoseProbesAreNotReadableIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t, servingPod("a", func(pod *corev1.Pod) { pod.Annotations[keys.ContainerProbeContext] = "[" }))
	for range 2 {
		_, made := f.reconcile(t)
		require.Empty(t, made)
	}
	require.Equal(t, []string{reasonUnreadable}, f.events.Reasons())
}

func TestAWorkloadWhosePodsDoNotAskIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, servingPod("a", func(pod *corev1.Pod) { delete(pod.Annotations, keys.ContainerProbeContext) }))
	after, made := f.reconcile(t)
	require.Zero(t, after)
	require.Empty(t, made)
	require.Empty(t, f.events.All())
}

func TestWhatOfAPodMatters(t *testing.T) {
	t.Parallel()
	pod := servingPod("a")
	require.False(t, podChanged(pod, servingPod("a", func(pod *corev1.Pod) { pod.Annotations["mine"] = "yes" })))
	for name, change := range map[string]func(*corev1.Pod){
		"its readiness": unready,
		"its probes":    func(pod *corev1.Pod) { pod.Annotations[keys.ContainerProbeContext] = "[]" },
		"its lifecycle": func(pod *corev1.Pod) { pod.Labels[keys.LifecycleState] = "PreparingUpdate" },
		"its container": func(pod *corev1.Pod) { app(pod).ContainerID = "another" },
		"its end":       func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(noon)) },
	} {
		require.True(t, podChanged(pod, servingPod("a", change)), name)
	}
	require.Len(t, requestsForPod(pod, cloneSets()), 1)
	require.Empty(t, requestsForPod(pod, daemonSets()))
}

package containerrecreaterequest

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

func newRequest() *appsv1beta1.ContainerRecreateRequest {
	return &appsv1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "again", Labels: map[string]string{keys.RecreateNode: "another"}},
		Spec: appsv1beta1.ContainerRecreateRequestSpec{
			PodName: "web", Containers: []appsv1beta1.ContainerRecreateRequestContainer{{Name: "app"}},
		},
	}
}

func scheduled() *corev1.Pod {
	pod := target()
	pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "admin", ContainerPort: 8080}}
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/drain", Port: intstr.FromString("admin")},
	}}
	pod.Status.ContainerStatuses[0].RestartCount = 2
	return pod
}

func TestARequestIsFilledInFromItsPod(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"type": "virtual-kubelet"}}}
	w := &Webhook{Live: clientfake.NewClientBuilder().WithObjects(scheduled(), node).Build()}
	ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: testkit.Namespace, UserInfo: authenticationv1.UserInfo{Username: "alice"},
	}})
	r := newRequest()
	require.NoError(t, w.Default(ctx, r))
	require.Equal(t, map[string]string{
		keys.RecreateNode: "node-1", keys.RecreatePodUID: "uid-web", keys.RecreateActive: "true", "type": "virtual-kubelet",
	}, r.Labels, "whatever the user wrote")
	require.Equal(t, map[string]string{keys.RecreateRequester: "alice"}, r.Annotations)
	require.Equal(t, &appsv1beta1.ContainerRecreateRequestStrategy{
		FailurePolicy: appsv1beta1.RecreateFail, TerminationGracePeriodSeconds: new(int64(30)),
	}, r.Spec.Strategy)
	require.Equal(t, []appsv1beta1.ContainerRecreateRequestContainer{{
		Name: "app", PreStop: &appsv1beta1.ProbeHandler{HTTPGet: scheduled().Spec.Containers[0].Lifecycle.PreStop.HTTPGet},
		Ports:         []appsv1beta1.RecreatePort{{Name: "admin", ContainerPort: 8080}},
		StatusContext: &appsv1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://app-0", RestartCount: 2},
	}}, r.Spec.Containers)
	warnings, err := w.ValidateCreate(ctx, r)
	require.NoError(t, err)
	require.Empty(t, warnings)

	// Applying the same manifest again changes nothing.
	next := newRequest()
	next.Labels, next.Annotations = r.Labels, r.Annotations
	require.NoError(t, w.Default(webhooktest.Requested(t, r), next))
	require.Equal(t, r.Spec, next.Spec)
	_, err = w.ValidateUpdate(ctx, r, next)
	require.NoError(t, err)

	next.Spec.Containers[0].Name = "side"
	next.Labels = map[string]string{keys.RecreatePodUID: "uid-web"}
	next.Annotations = nil
	_, err = w.ValidateUpdate(ctx, r, next)
	for _, want := range []string{
		"spec: Forbidden: it can't be changed: create another ContainerRecreateRequest",
		`metadata.labels[crr.apps.kruise.io/node-name]: Invalid value: ""`, `metadata.annotations[fleet.kruise.io/requested-by]: Invalid value: ""`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestARequestForAContainerThatWasStartedAnewIsRefused(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	w := &Webhook{Live: clientfake.NewClientBuilder().WithObjects(scheduled(), node).Build()}
	ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: testkit.Namespace}})
	r := newRequest()
	r.Annotations = map[string]string{keys.RecreateContainerID: "containerd://app-0"}
	require.NoError(t, w.Default(ctx, r))
	r = newRequest()
	r.Annotations = map[string]string{keys.RecreateContainerID: "containerd://before"}
	err := w.Default(ctx, r)
	require.True(t, apierrors.IsInvalid(err))
	require.ErrorContains(t, err, "spec.containers[0].name: Invalid value: \"app\": annotation fleet.kruise.io/container-id names container ID containerd://before, "+
		"but the container is containerd://app-0 now, because it was restarted")
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	type spec = appsv1beta1.ContainerRecreateRequestSpec
	strategy := func(strategy appsv1beta1.ContainerRecreateRequestStrategy) func(*spec) {
		return func(s *spec) { s.Strategy = &strategy }
	}
	for _, tc := range []struct {
		name   string
		change func(*spec)
		pod    func(*corev1.Pod)
		want   string
	}{
		{name: "no pod", change: func(s *spec) { s.PodName = "" }, want: "spec.podName: Required value: name the pod"},
		{name: "no container", change: func(s *spec) { s.Containers = nil }, want: "spec.containers: Required value: name the containers"},
		{name: "a duplicate container", change: func(s *spec) { s.Containers = append(s.Containers, s.Containers[0]) }, want: `spec.containers[1].name: Duplicate value: "app"`},
		{
			name: "a field that is filled in", want: "spec.containers[0].statusContext: Forbidden: it is filled in from the pod: remove it",
			change: func(s *spec) { s.Containers[0].StatusContext = &appsv1beta1.ContainerRecreateRequestContainerContext{} },
		},
		{
			name: "a deadline that is too soon", change: func(s *spec) { s.ActiveDeadlineSeconds = new(int64(2)) },
			want: "spec.activeDeadlineSeconds: Invalid value: 2: no container can be restarted that soon: set 3 or more, or leave it unset",
		},
		{name: "a negative TTL", change: func(s *spec) { s.TTLSecondsAfterFinished = new(int32(-1)) }, want: "spec.ttlSecondsAfterFinished: Invalid value: -1: must not be negative"},
		{
			name: "an unknown policy", change: strategy(appsv1beta1.ContainerRecreateRequestStrategy{FailurePolicy: "Retry"}),
			want: `spec.strategy.failurePolicy: Unsupported value: "Retry": supported values: "Fail", "Ignore"`,
		},
		{
			name: "a negative time to start", change: strategy(appsv1beta1.ContainerRecreateRequestStrategy{MinStartedSeconds: -1}),
			want: "spec.strategy.minStartedSeconds: Invalid value: -1",
		},
		{
			name: "a negative grace period", change: strategy(appsv1beta1.ContainerRecreateRequestStrategy{TerminationGracePeriodSeconds: new(int64(-1))}),
			want: "spec.strategy.terminationGracePeriodSeconds: Invalid value: -1",
		},
		{
			name: "a negative unready period", change: strategy(appsv1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: new(int64(-1))}),
			want: "spec.strategy.unreadyGracePeriodSeconds: Invalid value: -1",
		},
		{name: "a pod that doesn't exist", change: func(s *spec) { s.PodName = "no" }, want: `spec.podName: Invalid value: "no": there is no such pod`},
		{name: "a pod that has ended", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, want: "the pod has ended, its phase is Succeeded: name a running pod"},
		{name: "a pod that is not scheduled", pod: func(p *corev1.Pod) { p.Spec.NodeName = "" }, want: "the pod is not scheduled"},
		{name: "a pod that is being deleted", want: "the pod is being deleted", pod: func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = new(metav1.NewTime(noon)), []string{"example.com/hold"}
		}},
		{name: "a node that is gone", pod: func(p *corev1.Pod) { p.Spec.NodeName = "node-2" }, want: "its node node-2 no longer exists: delete the pod"},
		{
			name: "a container that the pod doesn't have", change: func(s *spec) { s.Containers[0].Name = "side" },
			want: `spec.containers[0].name: Invalid value: "side": pod web has no such container in spec.containers: name one of them`,
		},
		{
			name: "a container that has not been started", pod: func(p *corev1.Pod) { p.Status.ContainerStatuses = nil },
			want: "the container of pod web has not been started yet: wait until it has",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod, r := scheduled(), newRequest()
			if tc.pod != nil {
				tc.pod(pod)
			}
			if tc.change != nil {
				tc.change(&r.Spec)
			}
			w := &Webhook{Live: clientfake.NewClientBuilder().WithObjects(pod, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}).Build()}
			require.ErrorContains(t, w.Default(webhooktest.Requested[appsv1beta1.ContainerRecreateRequest](t, nil), r), tc.want)
		})
	}
}

func TestAContainerThatMayNotStartAgainIsAWarning(t *testing.T) {
	t.Parallel()
	pod := scheduled()
	pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	w := &Webhook{Live: clientfake.NewClientBuilder().WithObjects(pod).Build()}
	warnings, err := w.ValidateCreate(webhooktest.Requested[appsv1beta1.ContainerRecreateRequest](t, nil), newRequest())
	require.NoError(t, err)
	require.Equal(t, admission.Warnings{
		"spec.containers[0].name: container app has restart policy OnFailure: it will be stopped, but may not be started again",
	}, warnings)
}

func TestAPodThatStaysReadyWhileItDrainsIsAWarning(t *testing.T) {
	t.Parallel()
	for name, gates := range map[string][]corev1.PodReadinessGate{"without the gate": nil, "with it": {{ConditionType: keys.KruisePodReady}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, r := scheduled(), newRequest()
			pod.Spec.ReadinessGates = gates
			r.Spec.Strategy = &appsv1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: new(int64(10))}
			w := &Webhook{Live: clientfake.NewClientBuilder().WithObjects(pod).Build()}
			warnings, err := w.ValidateCreate(webhooktest.Requested[appsv1beta1.ContainerRecreateRequest](t, nil), r)
			require.NoError(t, err)
			if gates != nil {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], "spec.strategy.unreadyGracePeriodSeconds: the pod has no readiness gate")
		})
	}
}

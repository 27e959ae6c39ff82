package ephemeraljob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit"
)

var noon = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)

// debug returns a job with one container for the pods with app=web, all at once.
func debug(changes ...func(*appsv1alpha1.EphemeralJob)) *appsv1alpha1.EphemeralJob {
	job := &appsv1alpha1.EphemeralJob{
		ObjectMeta: metav1.ObjectMeta{Name: "debug", Namespace: testkit.Namespace, UID: "uid-debug", ResourceVersion: "1", Generation: 1},
		Spec: appsv1alpha1.EphemeralJobSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Parallelism: new(int32(100)),
			Template: appsv1alpha1.EphemeralContainerTemplateSpec{EphemeralContainers: []corev1.EphemeralContainer{container("dbg")}},
		},
	}
	for _, change := range changes {
		change(job)
	}
	return job
}

func spec(change func(*appsv1alpha1.EphemeralJobSpec)) func(*appsv1alpha1.EphemeralJob) {
	return func(job *appsv1alpha1.EphemeralJob) { change(&job.Spec) }
}

func replicas(n int32) func(*appsv1alpha1.EphemeralJob) {
	return spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.Replicas = &n })
}

func parallel(n int32) func(*appsv1alpha1.EphemeralJob) {
	return spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.Parallelism = &n })
}

func container(name string) corev1.EphemeralContainer {
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "tools:1"}}
}

// added returns a container as added by the job with that UID.
func added(name string, job types.UID) corev1.EphemeralContainer {
	c := container(name)
	c.Env = []corev1.EnvVar{{Name: keys.EphemeralJobID, Value: string(job)}}
	return c
}

// web returns a running pod that the job selects.
func web(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := testkit.Pod(name).Running().Obj()
	pod.CreationTimestamp = metav1.NewTime(noon)
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// with gives a pod a container of the job, in the given state.
func with(st corev1.ContainerState) func(*corev1.Pod) { return withNamed("dbg", st) }

func withNamed(name string, st corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, added(name, "uid-debug"))
		p.Status.EphemeralContainerStatuses = append(p.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: name, State: st})
	}
}

// quiet gives the pod a container that the kubelet has not reported yet.
func quiet(p *corev1.Pod) {
	p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, added("dbg", "uid-debug"))
}

var runs = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

func exit(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
}

func waits(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such file"}}
}

func phase(value corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = value }
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }

func TestStateOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		state state
		open  bool
		why   string
	}{
		{name: "nothing is reported yet", pod: web("a", quiet), state: waiting, open: true},
		{name: "pulling the image is retried", pod: web("a", with(waits("ImagePullBackOff"))), state: waiting, open: true},
		{name: "it runs", pod: web("a", with(runs)), state: running, open: true},
		{name: "it has succeeded", pod: web("a", with(exit(0))), state: succeeded},
		{name: "it has failed", pod: web("a", with(exit(3))), state: failed, why: "dbg ended with exit code 3"},
		{name: "the kubelet can't run it", pod: web("a", with(waits("RunContainerError"))), state: failed, why: "dbg could not be run: no such file"},
		{name: "the pod ends first", pod: web("a", with(runs), phase(corev1.PodFailed)), state: failed, why: "dbg had not ended when the pod did"},
		{name: "the pod ends after the container", pod: web("a", with(exit(0)), phase(corev1.PodSucceeded)), state: succeeded},
		{name: "one of two runs", pod: web("a", with(exit(0)), withNamed("two", runs)), state: running, open: true},
		{name: "one of two has not begun", pod: web("a", with(exit(0)), withNamed("two", waits("ContainerCreating"))), state: waiting, open: true},
		{name: "one of two has failed, and the other runs", pod: web("a", with(exit(1)), withNamed("two", runs)), state: failed, open: true, why: "dbg ended with exit code 1"},
		{name: "containers of other jobs don't matter", state: succeeded, pod: web("a", with(exit(0)), func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, container("shell"), added("other", "uid-other"))
		})},
		{name: "a pod that is being deleted is read like any other", pod: web("a", with(runs), terminating), state: running, open: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			current, open, why := stateOf(tt.pod, "uid-debug")
			require.Equal(t, tt.state, current)
			require.Equal(t, tt.open, open)
			require.Equal(t, tt.why, why)
		})
	}
}

func TestWhichEventsOfPodsMatter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		want   bool
	}{
		{name: "the pod is ready", change: func(p *corev1.Pod) { p.Status.Conditions = nil }},
		{name: "it has a node", change: func(p *corev1.Pod) { p.Spec.NodeName = "another" }, want: true},
		{name: "it ends", change: phase(corev1.PodFailed), want: true},
		{name: "it is deleted", change: terminating, want: true},
		{name: "its labels change", change: func(p *corev1.Pod) { p.Labels = nil }, want: true},
		{name: "it gets a container", change: quiet, want: true},
		{name: "it gets a container of another client", change: func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{container("shell")}
		}, want: true},
		{name: "it is another pod", change: func(p *corev1.Pod) { p.UID = "another" }, want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			current := web("a")
			tt.change(current)
			require.Equal(t, tt.want, podChanged(web("a"), current))
		})
	}
	require.True(t, podChanged(&corev1.Node{}, &corev1.Node{}))
	require.True(t, podChanged(web("a", quiet), web("a", quiet)), "a reconcile may wait for this version")
}

func TestAPodWakesTheJobsThatSelectItAndThoseInIt(t *testing.T) {
	t.Parallel()
	s := scheme.Scheme
	require.NoError(t, appsv1alpha1.AddToScheme(s))
	named := func(name string, changes ...func(*appsv1alpha1.EphemeralJob)) *appsv1alpha1.EphemeralJob {
		job := debug(changes...)
		job.Name, job.UID = name, types.UID("uid-"+name)
		return job
	}
	ended := func(job *appsv1alpha1.EphemeralJob) { job.Status.Phase = appsv1alpha1.EphemeralJobFailed }
	other := spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.Selector.MatchLabels["app"] = "db" })
	r := reconciler(clientfake.NewClientBuilder().WithScheme(s).WithObjects(
		named("selects"), named("ended", ended), named("other", other), named("debug", other, ended),
	).Build(), nil, nil, nil)
	var names []string
	for _, req := range r.forPod(t.Context(), web("a", quiet)) {
		names = append(names, req.Name)
	}
	require.ElementsMatch(t, []string{"selects", "debug"}, names)
	require.Empty(t, r.forPod(t.Context(), &corev1.Node{}))
}

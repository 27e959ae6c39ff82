package other

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// kruiseDaemon returns a pod of OpenKruise's DaemonSet, as its chart creates it.
func kruiseDaemon(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: name, Labels: map[string]string{"control-plane": "daemon"}},
		Spec: corev1.PodSpec{
			HostNetwork: true, ServiceAccountName: "kruise-daemon",
			Containers: []corev1.Container{{
				Name: "daemon", Image: "openkruise/kruise-manager:v1.8.0", Command: []string{"/kruise-daemon"},
				Args:         []string{"--logtostderr=true", "--v=5", "--addr=:10221", "--feature-gates=", "--socket-file="},
				VolumeMounts: []corev1.VolumeMount{{Name: "runtime-socket", MountPath: "/hostvarrun", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{
				Name: "runtime-socket", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/run"}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "daemon", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
	for _, f := range changes {
		f(pod)
	}
	return pod
}

func TestRestarts(t *testing.T) {
	t.Parallel()
	gates := func(arg string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, arg) }
	}
	const found = "kruise-system/kruise-daemon-x"
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{name: "the daemon of OpenKruise's chart", want: found},
		{name: "a daemon by any name", change: func(p *corev1.Pod) { p.Name, p.Labels = "ack-x", nil }, want: "kruise-system/ack-x"},
		{name: "a daemon that is being deleted and still runs", change: func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{"example.com/hold"}
		}, want: found},
		{name: "not a daemon that does not run yet", change: func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }},
		{name: "not a daemon that has crashed", change: func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }},
		{name: "not another program of its image", change: func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"/manager"} }},
		{name: "not the image's default program", change: func(p *corev1.Pod) { p.Spec.Containers[0].Command = nil }},
		{name: "not a pod that mounts no directory of the node", change: func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}},
		{name: "not a pod that mounts the directory elsewhere", change: func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].MountPath = "/logs" }},
		{name: "not a daemon that watches no pods", change: gates("--feature-gates=PodProbeMarkerGate=true,DaemonWatchingPod=false")},
		{name: "not a daemon that ignores env", change: gates("--feature-gates=InPlaceUpdateEnvFromMetadata=False")},
		{name: "other gates don't matter", change: gates("-feature-gates=ImagePullJobGate=false"), want: found},
		{name: "an enabled gate is the default", change: gates("--feature-gates=DaemonWatchingPod=true"), want: found},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := kruiseDaemon("kruise-daemon-x")
			if tc.change != nil {
				tc.change(pod)
			}
			unrelated := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
			}
			got, err := Restarts(t.Context(), fake.NewClientBuilder().WithObjects(unrelated, pod).Build())
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			require.True(t, tc.want == "" || Is(pod))
		})
	}
}

// No gate keeps it from pulling images.
func TestRuns(t *testing.T) {
	t.Parallel()
	pod := kruiseDaemon("kruise-daemon-x", func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"--feature-gates=DaemonWatchingPod=false"} })
	got, err := Runs(t.Context(), fake.NewClientBuilder().WithObjects(pod).Build())
	require.NoError(t, err)
	require.Equal(t, "kruise-system/kruise-daemon-x", got)

	stopped := kruiseDaemon("kruise-daemon-x", func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })
	got, err = Runs(t.Context(), fake.NewClientBuilder().WithObjects(stopped).Build())
	require.NoError(t, err)
	require.Empty(t, got)
	require.True(t, Is(stopped))
	require.False(t, Is(&corev1.Pod{}))
}

// An upgrade may start the new pod before the old one has ended. The reported name must not change between checks.
func TestOfTwoTheFirstIsNamed(t *testing.T) {
	t.Parallel()
	both := []client.Object{kruiseDaemon("kruise-daemon-b"), kruiseDaemon("kruise-daemon-a")}
	got, err := Restarts(t.Context(), fake.NewClientBuilder().WithObjects(both...).Build())
	require.NoError(t, err)
	require.Equal(t, "kruise-system/kruise-daemon-a", got)
}

package podprobe

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

func controlled(version, kind, context string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Annotations:     map[string]string{keys.ContainerProbeContext: context},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "web", UID: "1", Controller: new(true)}},
	}}
}

func TestLiveness(t *testing.T) {
	t.Parallel()
	const context = `[{"name":"app","livenessProbe":{"exec":{"command":["/ok"]},"periodSeconds":5}},{"name":"app","livenessProbe":{}}]`
	for _, kind := range []string{"CloneSet", "StatefulSet", "DaemonSet"} {
		for _, version := range []string{"apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"} {
			got, err := Liveness(controlled(version, kind, context))
			require.NoError(t, err)
			require.Len(t, got, 1, "the first probe of a container counts")
			require.Equal(t, "app", got[0].Name)
			p := got[0].LivenessProbe
			require.Equal(t, []int32{0, 1, 5, 1, 3}, []int32{
				p.InitialDelaySeconds, p.TimeoutSeconds, p.PeriodSeconds, p.SuccessThreshold, p.FailureThreshold,
			}, "as by Kubernetes")
		}
	}
	for name, pod := range map[string]*corev1.Pod{
		"of another kind": controlled("apps/v1", "StatefulSet", context), "of no kind": {ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{keys.ContainerProbeContext: context},
		}},
		"without the annotation": controlled("apps.kruise.io/v1beta1", "CloneSet", ""),
		"with an empty list":     controlled("apps.kruise.io/v1beta1", "CloneSet", "[]"),
		"with null":              controlled("apps.kruise.io/v1beta1", "CloneSet", "null"),
	} {
		got, err := Liveness(pod)
		require.NoError(t, err, name)
		require.Empty(t, got, name)
	}
	for _, text := range []string{"{", `{"name":"app"}`, `[{"name":1}]`, `["app"]`, `[{"name":"app","livenessProbe":{"periodSeconds":"x"}}]`} {
		got, err := Liveness(controlled("apps.kruise.io/v1beta1", "CloneSet", text))
		require.ErrorContains(t, err, "annotation apps.kruise.io/container-probe-context is not readable", text)
		require.Empty(t, got)
	}
}

func TestAskingForLivenessTakesAnAnnotationAndAWorkload(t *testing.T) {
	t.Parallel()
	bare := controlled("apps.kruise.io/v1beta1", "CloneSet", "[]")
	bare.Annotations = nil
	orphan := controlled("apps.kruise.io/v1beta1", "CloneSet", "[]")
	orphan.OwnerReferences = nil
	owned := controlled("apps.kruise.io/v1beta1", "CloneSet", "[]")
	owned.OwnerReferences[0].Controller = nil
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"neither":                             {&corev1.Pod{}, false},
		"an annotation alone":                 {orphan, false},
		"an annotation and another kind":      {controlled("apps/v1", "StatefulSet", "[]"), false},
		"an owner that is not the controller": {owned, false},
		"a workload alone":                    {bare, false},
		"a workload and an empty one":         {controlled("apps.kruise.io/v1beta1", "CloneSet", ""), false},
		"both":                                {controlled("apps.kruise.io/v1beta1", "CloneSet", "[]"), true},
		"both, though it is not readable":     {controlled("apps.kruise.io/v1alpha1", "DaemonSet", "{"), true},
	} {
		require.Equal(t, tc.want, AsksForLiveness(tc.pod), name)
	}
}

func FuzzLiveness(f *testing.F) {
	for _, text := range []string{"", "[]", "{", `[{"name":"app","livenessProbe":{"exec":{}}}]`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Liveness(controlled("apps.kruise.io/v1beta1", "CloneSet", text))
		for i := range got {
			require.NoError(t, err)
			require.Positive(t, got[i].LivenessProbe.FailureThreshold)
		}
	})
}

func TestNamesOfLivenessProbes(t *testing.T) {
	t.Parallel()
	name := LivenessName("app", "containerd://1f2e")
	require.Equal(t, "EnhancedLivenessProbe#app/1f2e", name)
	require.NotEqual(t, name, LivenessName("app", "containerd://1f2f"))
	require.Empty(t, Marker(name), "it doesn't belong to a PodProbeMarker")
}

func TestStarted(t *testing.T) {
	t.Parallel()
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, tc := range map[string]struct {
		status corev1.ContainerStatus
		want   string
	}{
		"it runs and has started up":         {corev1.ContainerStatus{Name: "app", ContainerID: "c://1", State: running, Started: new(true)}, "c://1"},
		"its startup probe is still running": {corev1.ContainerStatus{Name: "app", ContainerID: "c://1", State: running, Started: new(false)}, ""},
		"the kubelet doesn't report it":      {corev1.ContainerStatus{Name: "app", ContainerID: "c://1", State: running}, ""},
		"it is not running":                  {corev1.ContainerStatus{Name: "app", ContainerID: "c://1", Started: new(true)}, ""},
		"the status of another container":    {corev1.ContainerStatus{Name: "log", ContainerID: "c://1", State: running, Started: new(true)}, ""},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{tc.status}}}
		require.Equal(t, tc.want, Started(pod, "app"), name)
	}
}

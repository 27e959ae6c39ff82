package enhancedliveness

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/testkit"
)

func exec(command ...string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}, PeriodSeconds: 5, TimeoutSeconds: 1,
		SuccessThreshold: 1, FailureThreshold: 2,
	}
}

// podWithLiveness returns a pod of a CloneSet with liveness probes for its containers, which are called a, b and so on.
func podWithLiveness(probes ...*corev1.Probe) *corev1.Pod {
	pod := testkit.Pod("web").OwnedBy("uid").Annotation(keys.EnhancedLiveness, "true").Obj()
	pod.Spec.Containers = nil
	for i, p := range probes {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: string(rune('a' + i)), LivenessProbe: p, ReadinessProbe: exec("/ready"),
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
		})
	}
	return pod
}

func TestStep(t *testing.T) {
	t.Parallel()
	h := func(h corev1.ProbeHandler) *corev1.Probe { return &corev1.Probe{ProbeHandler: h} }
	get := func(host string, port intstr.IntOrString) *corev1.Probe {
		return h(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: host, Port: port}})
	}
	tcp := func(host string, port intstr.IntOrString) *corev1.Probe {
		return h(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: host, Port: port}})
	}
	number, name := intstr.FromInt32(80), intstr.FromString
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		// moved holds the containers whose probe is moved.
		moved []string
		why   string
	}{
		{name: "a command", pod: podWithLiveness(exec("/ok")), moved: []string{"a"}, why: "the node daemon runs the liveness probes of a"},
		{name: "some containers have no probe", pod: podWithLiveness(nil, exec("/ok"), nil, exec("/ok")), moved: []string{"b", "d"}},
		{name: "requests, connections and health checks", pod: podWithLiveness(get("", number), get("", name("http")), tcp("", number), tcp("", name("http")),
			h(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80}})), moved: []string{"a", "b", "c", "d", "e"}},
		{name: "probes that the daemon can't run stay with the kubelet", pod: podWithLiveness(
			get("10.0.0.1", number), get("", name("no")), tcp("10.0.0.1", number), tcp("", name("no")), h(corev1.ProbeHandler{}), exec(), exec("/ok"),
		), moved: []string{"g"}},
		{name: "no probe", pod: podWithLiveness(nil), why: "it has no liveness probe that a node daemon can run"},
		{
			name: "a pod without the annotation", pod: func() *corev1.Pod {
				pod := podWithLiveness(exec("/ok"))
				pod.Annotations[keys.EnhancedLiveness] = "yes"
				return pod
			}(), why: `its annotation apps.kruise.io/using-enhanced-liveness is not "true"`,
		},
		{
			name: "a pod of another workload", pod: func() *corev1.Pod {
				pod := podWithLiveness(exec("/ok"))
				pod.OwnerReferences[0].APIVersion = "apps/v1"
				return pod
			}(), why: "no CloneSet, StatefulSet or DaemonSet of apps.kruise.io controls it",
		},
		{
			name: "a pod without a workload", pod: func() *corev1.Pod {
				pod := podWithLiveness(exec("/ok"))
				pod.OwnerReferences = nil
				return pod
			}(), why: "no CloneSet",
		},
	} {
		for _, given := range []bool{false, true} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				pod := tc.pod.DeepCopy()
				if given { // What a user sets there never counts.
					pod.Annotations[keys.ContainerProbeContext] = `[{"name":"a","livenessProbe":{"exec":{"command":["/evil"]}}}]`
				}
				facts, err := step().Observe(t.Context(), nil, pod)
				require.NoError(t, err)
				require.Contains(t, facts.Change(pod), tc.why)
				var want []podprobe.LivenessProbe
				for i, c := range tc.pod.Spec.Containers {
					current := pod.Spec.Containers[i]
					require.Equal(t, c.ReadinessProbe, current.ReadinessProbe)
					if slices.Contains(tc.moved, c.Name) {
						require.Nil(t, current.LivenessProbe)
						want = append(want, podprobe.LivenessProbe{Name: c.Name, LivenessProbe: *c.LivenessProbe})
						continue
					}
					require.Equal(t, c.LivenessProbe, current.LivenessProbe)
				}
				if want == nil {
					require.NotContains(t, pod.Annotations, keys.ContainerProbeContext)
					return
				}
				got, err := podprobe.Liveness(pod)
				require.NoError(t, err)
				require.Len(t, got, len(want))
				for i := range want {
					require.Equal(t, want[i].Name, got[i].Name)
					require.Equal(t, want[i].LivenessProbe.ProbeHandler, got[i].LivenessProbe.ProbeHandler)
				}
			})
		}
	}
}

func TestTheAnnotationIsAsInOpenKruise(t *testing.T) {
	t.Parallel()
	pod := podWithLiveness(exec("/ok"))
	facts{}.Change(pod)
	require.JSONEq(t, `[{"name":"a","livenessProbe":{"exec":{"command":["/ok"]},"timeoutSeconds":1,"periodSeconds":5,"successThreshold":1,"failureThreshold":2}}]`,
		pod.Annotations[keys.ContainerProbeContext])
}

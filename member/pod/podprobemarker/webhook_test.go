package podprobemarker

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit"
)

func webhook(have ...client.Object) *Webhook {
	s := runtime.NewScheme()
	_ = appsv1alpha1.AddToScheme(s)
	return &Webhook{Client: clientfake.NewClientBuilder().WithScheme(s).WithObjects(have...).Build()}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	type containerProbe = appsv1alpha1.PodContainerProbe
	probe := func(change func(*containerProbe)) func(*appsv1alpha1.PodProbeMarker) {
		return func(m *appsv1alpha1.PodProbeMarker) { change(&m.Spec.Probes[0]) }
	}
	get := func(change func(*corev1.HTTPGetAction)) func(*appsv1alpha1.PodProbeMarker) {
		return probe(func(p *containerProbe) {
			h := &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}
			change(h)
			p.Probe.ProbeHandler = corev1.ProbeHandler{HTTPGet: h}
		})
	}
	handler := func(h corev1.ProbeHandler) func(*appsv1alpha1.PodProbeMarker) {
		return probe(func(p *containerProbe) { p.Probe.ProbeHandler = h })
	}
	policies := func(all ...appsv1alpha1.ProbeMarkerPolicy) func(*appsv1alpha1.PodProbeMarker) {
		return probe(func(p *containerProbe) { p.MarkerPolicy = all })
	}
	yes := map[string]string{"idle": "yes"}
	const name = "spec.probes[0]."
	for _, tc := range []struct {
		name   string
		change func(*appsv1alpha1.PodProbeMarker)
		want   string
	}{
		{"a minimal PodProbeMarker is accepted", func(*appsv1alpha1.PodProbeMarker) {}, ""},
		{"the scheme defaults to HTTP", get(func(*corev1.HTTPGetAction) {}), ""},
		{"a port may have a name", get(func(h *corev1.HTTPGetAction) { h.Port = intstr.FromString("admin") }), ""},
		{"gRPC is accepted", handler(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80}}), ""},
		{"TCP is accepted", handler(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}), ""},
		{"labels without a condition are accepted", probe(func(p *containerProbe) {
			p.PodConditionType, p.MarkerPolicy = "", []appsv1alpha1.ProbeMarkerPolicy{{State: appsv1alpha1.ProbeFailed, Labels: yes}}
		}), ""},
		{"a name may equal a condition type of Kubernetes", probe(func(p *containerProbe) { p.Name = "Ready" }), ""},
		{"a selector may not be empty", func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Selector = &metav1.LabelSelector{} }, "spec.selector: Required value: it would select every pod"},
		{"a selector may not be missing", func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Selector = nil }, "spec.selector: Required value"},
		{"a selector may not be invalid", func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Selector.MatchLabels["a b"] = "c" }, "spec.selector.matchLabels"},
		{"a probe is required", func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Probes = nil }, "spec.probes: Required value: specify at least one probe"},
		{"a name is required", probe(func(p *containerProbe) { p.Name = "" }), name + "name: Required value"},
		{"a name must not contain the separator", probe(func(p *containerProbe) { p.Name = "a#b" }), name + `name: Invalid value: "a#b": must not contain '#'`},
		{"a name must be unique", func(m *appsv1alpha1.PodProbeMarker) {
			m.Spec.Probes = append(m.Spec.Probes, m.Spec.Probes[0])
			m.Spec.Probes[1].PodConditionType = "example.com/other"
		}, `spec.probes[1].name: Duplicate value: "idle"`},
		{"a container is required", probe(func(p *containerProbe) { p.ContainerName = "" }), name + "containerName: Required value"},
		{"a probe without a use for its result is refused", probe(func(p *containerProbe) { p.PodConditionType = "" }), name + "podConditionType: Required value: the result would not be written anywhere"},
		{"a condition of Kubernetes is refused", probe(func(p *containerProbe) { p.PodConditionType = "Ready" }), name + `podConditionType: Invalid value: "Ready": Kubernetes or`},
		{"a condition of workloads is refused", probe(func(p *containerProbe) { p.PodConditionType = "InPlaceUpdateReady" }), name + "podConditionType: Invalid value"},
		{"all condition types of workloads are refused", probe(func(p *containerProbe) { p.PodConditionType = keys.KruisePodReady }), name + "podConditionType: Invalid value"},
		{"condition types of SidecarSets are refused", probe(func(p *containerProbe) { p.PodConditionType = keys.SidecarSetUpgradable }), name + `podConditionType: Invalid value: "SidecarSetUpgradable": Kubernetes or`},
		{"a condition type must be a qualified name", probe(func(p *containerProbe) { p.PodConditionType = "a b" }), name + `podConditionType: Invalid value: "a b"`},
		{"a condition type must be unique", func(m *appsv1alpha1.PodProbeMarker) {
			m.Spec.Probes = append(m.Spec.Probes, m.Spec.Probes[0])
			m.Spec.Probes[1].Name = "other"
		}, `spec.probes[1].podConditionType: Duplicate value: "example.com/idle"`},
		{"a policy needs a valid state", policies(appsv1alpha1.ProbeMarkerPolicy{State: "Unknown", Labels: yes}), name + `markerPolicy[0].state: Unsupported value: "Unknown"`},
		{"a state may have only one policy", policies(
			appsv1alpha1.ProbeMarkerPolicy{State: "Failed", Labels: yes}, appsv1alpha1.ProbeMarkerPolicy{State: "Failed", Labels: yes},
		), name + `markerPolicy[1].state: Duplicate value: "Failed"`},
		{"a policy must set something", policies(appsv1alpha1.ProbeMarkerPolicy{State: "Failed"}), name + "markerPolicy[0].labels: Required value"},
		{"labels must be valid", policies(appsv1alpha1.ProbeMarkerPolicy{State: "Failed", Labels: map[string]string{"a": "b c"}}), name + "markerPolicy[0].labels: Invalid value"},
		{"annotation keys must be valid", policies(appsv1alpha1.ProbeMarkerPolicy{State: "Failed", Annotations: map[string]string{"a b": ""}}), name + `markerPolicy[0].annotations: Invalid value: "a b": name part must consist of alphanumeric characters`},
		{"annotation keys in upper case must be valid", policies(appsv1alpha1.ProbeMarkerPolicy{State: "Failed", Annotations: map[string]string{"Example.com/A": ""}}), ""},
		{"annotations must not be too large", policies(appsv1alpha1.ProbeMarkerPolicy{State: "Failed", Annotations: map[string]string{"a": strings.Repeat("a", 256<<10)}}), name + "markerPolicy[0].annotations: Too long: may not be more than 262144 bytes"},
		{"a probe needs a handler", handler(corev1.ProbeHandler{}), name + "probe: Invalid value: 0: specify one of exec, httpGet, tcpSocket and grpc"},
		{"a probe may not have two handlers", handler(corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"a"}}, GRPC: &corev1.GRPCAction{Port: 80},
		}), name + "probe: Invalid value: 2"},
		{"a command must not be empty", handler(corev1.ProbeHandler{Exec: &corev1.ExecAction{}}), name + "probe.exec.command: Required value"},
		{"a request needs a path", get(func(h *corev1.HTTPGetAction) { h.Path = "" }), name + "probe.httpGet.path: Required value"},
		{"a request may not have a host", get(func(h *corev1.HTTPGetAction) { h.Host = "example.com" }), name + `probe.httpGet.host: Invalid value: "example.com": the probe goes to the pod's own`},
		{"a request must be HTTP or HTTPS", get(func(h *corev1.HTTPGetAction) { h.Scheme = "FTP" }), name + `probe.httpGet.scheme: Unsupported value: "FTP"`},
		{"request headers must be valid", get(func(h *corev1.HTTPGetAction) { h.HTTPHeaders = []corev1.HTTPHeader{{Name: "a b"}} }), name + "probe.httpGet.httpHeaders[0].name: Invalid value"},
		{"a request needs a valid port", get(func(h *corev1.HTTPGetAction) { h.Port = intstr.FromInt32(0) }), name + "probe.httpGet.port: Invalid value: 0"},
		{"a port name must be valid", get(func(h *corev1.HTTPGetAction) { h.Port = intstr.FromString("A B") }), name + "probe.httpGet.port: Invalid value"},
		{"a connection may not have a host", handler(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "h", Port: intstr.FromInt32(1)}}), name + "probe.tcpSocket.host: Invalid value"},
		{"gRPC needs a valid port", handler(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}), name + "probe.grpc.port: Invalid value: 0"},
		{"a period must not be negative", probe(func(p *containerProbe) { p.Probe.PeriodSeconds = -1 }), name + "probe.periodSeconds: Invalid value: -1: must not be negative: set 1 or more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			warnings, err := webhook().ValidateCreate(t.Context(), marker(tc.change))
			require.Empty(t, warnings)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAttack25MarkersWriteNoKeyThatControllersActOn(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		keys.SpecifiedDelete, keys.CloneSetInstanceID, keys.NoProtect, keys.LifecycleState, keys.RelatedPub, keys.MatchedWorkloadSpread,
		keys.InPlaceUpdateState, keys.InPlaceUpdateStateOld, keys.SidecarSetHash, keys.ContainerProbeContext, keys.ControllerRevisionHash,
		keys.PodTemplateHash, keys.UnavailablePodPrefix + "a", keys.RestartContainers,
	} {
		for _, state := range []appsv1alpha1.ProbeState{appsv1alpha1.ProbeSucceeded, appsv1alpha1.ProbeFailed} {
			for field, policy := range map[string]appsv1alpha1.ProbeMarkerPolicy{
				"labels":      {State: state, Labels: map[string]string{key: "true"}},
				"annotations": {State: state, Annotations: map[string]string{key: "true"}},
			} {
				m := marker(func(m *appsv1alpha1.PodProbeMarker) {
					m.Spec.Probes[0].MarkerPolicy = []appsv1alpha1.ProbeMarkerPolicy{policy}
				})
				want := `spec.probes[0].markerPolicy[0].` + field + `: Invalid value: "` + key + `": controllers act on this key`
				_, err := webhook().ValidateCreate(t.Context(), m)
				require.ErrorContains(t, err, want)
				_, err = webhook().ValidateUpdate(t.Context(), marker(), m)
				require.ErrorContains(t, err, want, "a fault added later is refused")
				next := m.DeepCopy()
				next.Spec.Probes[0].Probe.PeriodSeconds = 5
				warnings, err := webhook().ValidateUpdate(t.Context(), m, next)
				require.NoError(t, err, "a fault of the stored object is only a warning")
				require.Len(t, warnings, 1)
			}
		}
	}
	_, err := webhook().ValidateCreate(t.Context(), marker(func(m *appsv1alpha1.PodProbeMarker) {
		m.Spec.Probes[0].MarkerPolicy = []appsv1alpha1.ProbeMarkerPolicy{{State: appsv1alpha1.ProbeFailed, Annotations: map[string]string{keys.PodDeletionCost: "-10"}}}
	}))
	require.NoError(t, err)
}

func TestAttack24ProbesAreBounded(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*appsv1alpha1.PodProbeMarker){
		"spec.probes: Too many: 21: must have at most 20 items": func(m *appsv1alpha1.PodProbeMarker) {
			for i := range 20 {
				p := *m.Spec.Probes[0].DeepCopy()
				p.Name, p.PodConditionType = strconv.Itoa(i), "example.com/"+strconv.Itoa(i)
				m.Spec.Probes = append(m.Spec.Probes, p)
			}
		},
		"spec.probes[0].probe: Invalid value: \"716822 bytes\": a probe may take at most 8192 bytes": func(m *appsv1alpha1.PodProbeMarker) {
			m.Spec.Probes[0].Probe.Exec.Command = []string{strings.Repeat("x", 700<<10)}
		},
		"spec.probes[0].name: Too long": func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Probes[0].Name = strings.Repeat("x", 254) },
		"spec.probes[0].probe.timeoutSeconds: Invalid value: 61: an attempt may take at most 60 seconds": func(m *appsv1alpha1.PodProbeMarker) {
			m.Spec.Probes[0].Probe.TimeoutSeconds = 61
		},
	} {
		m := marker(change)
		_, err := webhook().ValidateCreate(t.Context(), m)
		require.ErrorContains(t, err, want)
		next := m.DeepCopy()
		next.Spec.Probes[0].Probe.PeriodSeconds = 5
		warnings, err := webhook().ValidateUpdate(t.Context(), m, next)
		require.NoError(t, err, "a fault of the stored object is only a warning")
		require.NotEmpty(t, warnings)
	}
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	old := marker(func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Probes[0].PodConditionType = "Ready" })
	next := old.DeepCopy()
	next.Spec.Probes[0].Probe.PeriodSeconds = 5
	warnings, err := webhook().ValidateUpdate(t.Context(), old, next)
	require.NoError(t, err, "a fault of the stored object is only a warning")
	require.Len(t, warnings, 1)
	next.Spec.Probes[0].ContainerName = ""
	_, err = webhook().ValidateUpdate(t.Context(), old, next)
	require.ErrorContains(t, err, "containerName: Required value")
	off := &Webhook{Off: true}
	_, err = off.ValidateUpdate(t.Context(), old, next)
	require.ErrorContains(t, err, "set PodProbeMarkerGate=true")
	next.DeletionTimestamp = &metav1.Time{}
	_, err = off.ValidateUpdate(t.Context(), old, next)
	require.NoError(t, err, "a finalizer may be removed")
	_, err = off.ValidateCreate(t.Context(), old)
	require.ErrorContains(t, err, "spec: Forbidden: no controller runs for it")
	_, err = off.ValidateDelete(t.Context(), old)
	require.NoError(t, err)
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	other := marker(func(m *appsv1alpha1.PodProbeMarker) { m.Name = "other" })
	apart := marker(func(m *appsv1alpha1.PodProbeMarker) { m.Name, m.Spec.Selector.MatchLabels["game"] = "apart", "no" })
	m := marker(func(m *appsv1alpha1.PodProbeMarker) {
		m.Spec.Probes[0].Probe.TerminationGracePeriodSeconds = new(int64(1))
	})
	warnings, err := webhook(m, other, apart).ValidateCreate(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, []string{
		"spec.probes[0].probe.terminationGracePeriodSeconds: it has no effect, because no container is stopped: remove it",
		"spec.probes[0].podConditionType: PodProbeMarker other also has condition example.com/idle: a pod that both select has the result of the older one",
	}, []string(warnings))
}

func TestPodsGetTheirProbesInAnAnnotation(t *testing.T) {
	t.Parallel()
	pod := testkit.Pod("a").Label("game", "yes").Obj()
	named := func(name, probe, condition string) *appsv1alpha1.PodProbeMarker {
		return marker(func(m *appsv1alpha1.PodProbeMarker) {
			m.Name, m.Spec.Probes[0].Name, m.Spec.Probes[0].PodConditionType = name, probe, condition
			m.Spec.Probes[0].ContainerName = pod.Spec.Containers[0].Name
			m.Spec.Probes[0].MarkerPolicy = []appsv1alpha1.ProbeMarkerPolicy{{State: appsv1alpha1.ProbeFailed, Labels: map[string]string{"a": "b"}}}
		})
	}
	elsewhere := named("e", "e", "example.com/e")
	elsewhere.Spec.Probes[0].ContainerName = "none"
	s := step()
	facts, err := s.Observe(t.Context(), webhook(
		named("a", "idle", "example.com/a"), named("b", "idle", "example.com/b"), named("c", "other", "example.com/a"),
		named("d", "labels", ""), elsewhere, named("f", "more", "example.com/f"),
	).Client, pod)
	require.NoError(t, err)
	require.Equal(t, "the agent of a virtual node probes it for a, f", facts.Change(pod))
	require.Equal(t, "a,f", pod.Annotations[keys.PodProbeMarkers])
	var probes []map[string]any
	require.NoError(t, json.Unmarshal([]byte(pod.Annotations[keys.PodProbes]), &probes))
	require.Equal(t, []map[string]any{
		{"name": "idle", "containerName": "app", "podConditionType": "example.com/a", "probe": map[string]any{"exec": map[string]any{"command": []any{"/idle.sh"}}}},
		{"name": "more", "containerName": "app", "podConditionType": "example.com/f", "probe": map[string]any{"exec": map[string]any{"command": []any{"/idle.sh"}}}},
	}, probes)

	other := testkit.Pod("b").Obj()
	require.Equal(t, "no PodProbeMarker has a probe with a condition for it", facts.Change(other))
	require.NotContains(t, other.Annotations, keys.PodProbes)
}

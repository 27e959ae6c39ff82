package probe

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
)

const (
	unknown = appsv1alpha1.ProbeUnknown
	success = appsv1alpha1.ProbeSucceeded
	failure = appsv1alpha1.ProbeFailed
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func after(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// command returns a probe that runs a command.
func command(text ...string) corev1.Probe {
	return corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: text}}}
}

// nodePodProbe returns the NodePodProbe of node-1, which probes container app of pod web.
func nodePodProbe(probes ...corev1.Probe) *appsv1alpha1.NodePodProbe {
	e := appsv1alpha1.PodProbe{Namespace: "shop", Name: "web", UID: "u1", IP: "10.0.0.1"}
	for i, p := range probes {
		e.Probes = append(e.Probes, appsv1alpha1.ContainerProbe{Name: "m#" + string(rune('a'+i)), ContainerName: "app", Probe: p})
	}
	return &appsv1alpha1.NodePodProbe{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: appsv1alpha1.NodePodProbeSpec{PodProbes: []appsv1alpha1.PodProbe{e}},
	}
}

// stored sets what the status says about the first probe.
func stored(n *appsv1alpha1.NodePodProbe, state appsv1alpha1.ProbeState, message string, at time.Time) *appsv1alpha1.NodePodProbe {
	n.Status.PodProbeStatuses = []appsv1alpha1.PodProbeStatus{{
		Namespace: "shop", Name: "web", UID: "u1", ProbeStates: []appsv1alpha1.ContainerProbeState{{
			Name: "m#a", State: state, Message: message, LastProbeTime: metav1.NewTime(at), LastTransitionTime: metav1.NewTime(at),
		}},
	}}
	return n
}

// web returns a pod whose container app has been running since noon.
func web() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"},
		Spec: corev1.PodSpec{
			NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}},
			InitContainers: []corev1.Container{{Name: "init"}, {Name: "side", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", ContainerID: "containerd://app-1",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}},
			}},
		},
	}
}

// at returns a worker for the first probe.
func at(n *appsv1alpha1.NodePodProbe, pod *corev1.Pod, r podprobe.Result) map[key]progress {
	k := key{Pod: "u1", Name: "m#a"}
	j, _ := jobOf(pod, &n.Spec.PodProbes[0].Probes[0], k)
	j.id, j.started = pod.Status.ContainerStatuses[0].ContainerID, pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time
	return map[key]progress{k: {*j, r}}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	found := func(s appsv1alpha1.ProbeState, m string, at time.Time) podprobe.Result {
		return podprobe.Result{State: s, Message: m, At: at}
	}
	ends := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ContainerID: "containerd://app-1", FinishedAt: metav1.NewTime(after(20)),
		}}
	}
	again := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].ContainerID = "containerd://app-2"
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(after(21))}}
	}
	type state struct {
		state   appsv1alpha1.ProbeState
		message string
		since   float64
	}
	for _, tc := range []struct {
		name   string
		status func(*appsv1alpha1.NodePodProbe) // what it says
		worker *podprobe.Result                 // of the container that has run since noon; nil means none
		pod    func(*corev1.Pod)                // what has changed since
		spec   func(*appsv1alpha1.NodePodProbe)
		gone   bool // the pod is not in the cache

		want    *state
		changed bool
		begins  *podprobe.Result
		ends    bool
		recheck time.Duration
	}{
		{
			name: "a running container is probed", want: &state{unknown, "", 30}, changed: true, begins: new(found(unknown, "", after(30))),
		},
		{
			name:   "a worker's result is reported",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, unknown, "", after(1)) }, worker: new(found(success, "ok", after(29))),
			want: &state{success, "ok", 29}, changed: true,
		},
		{
			name:   "a result is reported once",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(29))),
			want: &state{success, "ok", 3},
		},
		{
			name:   "another message of the same state is reported",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "1", after(3)) }, worker: new(found(success, "2", after(29))),
			want: &state{success, "2", 3}, changed: true,
		},
		{
			name:   "another message soon after the last report waits",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "1", after(24)) }, worker: new(found(success, "2", after(29))),
			want: &state{success, "1", 24}, recheck: 4 * time.Second,
		},
		{
			name:   "a status from the future delays nothing",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "1", after(3600)) }, worker: new(found(success, "2", after(29))),
			want: &state{success, "2", 3600}, changed: true,
		},
		{
			name:   "a restarted daemon continues from the status",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, failure, "no", after(3)) },
			want:   &state{failure, "no", 3}, begins: new(found(failure, "no", after(3))),
		},
		{
			name:   "a restarted daemon starts over if the container was restarted meanwhile",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, pod: again,
			want: &state{unknown, "", 30}, changed: true, begins: new(found(unknown, "", after(30))),
		},
		{
			name:   "a restarted container starts over",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(25)) }, worker: new(found(success, "ok", after(25))), pod: again,
			want: &state{unknown, "", 30}, changed: true, begins: new(found(unknown, "", after(30))),
		},
		{
			name:   "a container that does not run has failed and is not probed",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(3))), pod: ends,
			want: &state{failure, "container app isn't running", 20}, changed: true, ends: true,
		},
		{
			name:   "a container that does not run is reported once",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, failure, "container app isn't running", after(20)) }, pod: ends,
			want: &state{failure, "container app isn't running", 20},
		},
		{
			name:   "the failure of a container that did not run is not the next one's result",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, failure, "container app isn't running", after(20)) }, pod: again,
			want: &state{unknown, "", 30}, changed: true, begins: new(found(unknown, "", after(30))),
		},
		{
			name: "a container that was not started yet has no result",
			pod: func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
			},
		},
		{name: "a pod without a status has no result", pod: func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }},
		{
			name:   "results of a pod that the cache lacks are kept",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(3))), gone: true,
			want: &state{success, "ok", 3}, ends: true,
		},
		{
			name:   "a probe that is no longer in the spec ends and loses its result",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(3))),
			spec: func(n *appsv1alpha1.NodePodProbe) { n.Spec.PodProbes[0].Probes = nil }, changed: true, ends: true,
		},
		{
			name:   "a changed spec starts over and keeps the container's result",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(3))),
			spec: func(n *appsv1alpha1.NodePodProbe) {
				n.Spec.PodProbes[0].Probes[0].Probe.Exec.Command = []string{"other"}
			},
			want: &state{success, "ok", 3}, begins: new(found(success, "ok", after(3))),
		},
		{
			name:   "an invalid probe is reported with the reason",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(3))),
			spec: func(n *appsv1alpha1.NodePodProbe) { n.Spec.PodProbes[0].Probes[0].Probe.Exec = nil },
			want: &state{unknown, noHandler, 30}, changed: true, ends: true,
		},
		{
			name:   "no longer, once it can be run",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, unknown, noHandler, after(3)) },
			want:   &state{unknown, "", 3}, changed: true, begins: new(found(unknown, "", after(30))),
		},
		{
			name: "a pod gets its address later",
			pod:  func(p *corev1.Pod) { p.Status.PodIP = "" },
			spec: func(n *appsv1alpha1.NodePodProbe) {
				n.Spec.PodProbes[0].Probes[0].Probe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n, pod := nodePodProbe(command("check")), web()
			workers := map[key]progress{}
			if tc.worker != nil {
				workers = at(n, pod, *tc.worker)
			}
			if tc.status != nil {
				tc.status(n)
			}
			if tc.pod != nil {
				tc.pod(pod)
			}
			if tc.spec != nil {
				tc.spec(n)
			}
			pods := map[types.UID]*corev1.Pod{"u1": pod}
			if tc.gone {
				pods = nil
			}
			p := plan(n, pods, workers, after(30))
			require.Equal(t, tc.changed, p.changed)
			require.Equal(t, tc.recheck, p.recheck)
			var got *state
			if current := podprobe.State(podprobe.Results(&appsv1alpha1.NodePodProbe{Status: p.status}, "u1"), "m#a"); current != nil {
				got = &state{current.State, current.Message, current.LastTransitionTime.Sub(noon).Seconds()}
			}
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.ends, len(p.end) == 1)
			if tc.begins == nil {
				require.Empty(t, p.begin)
				return
			}
			require.Len(t, p.begin, 1)
			require.Equal(t, *tc.begins, p.begin[0].Result)
			require.Equal(t, pod.Status.ContainerStatuses[0].ContainerID, p.begin[0].id)
		})
	}
}

func TestTwoProbesOfAContainerHaveAResultEach(t *testing.T) {
	t.Parallel()
	n, pod := nodePodProbe(command("one"), command("two")), web()
	pods := map[types.UID]*corev1.Pod{"u1": pod}
	p := plan(n, pods, nil, after(30))
	require.Len(t, p.begin, 2)
	workers := map[key]progress{}
	for i, s := range []appsv1alpha1.ProbeState{success, failure} {
		w := p.begin[i]
		w.State, w.Message = s, string(s)
		workers[w.Key] = w
	}
	n.Status = p.status
	p = plan(n, pods, workers, after(31))
	require.True(t, p.changed)
	require.Len(t, p.news, 2)
	states := p.status.PodProbeStatuses[0].ProbeStates
	require.Equal(t, success, states[0].State)
	require.Equal(t, failure, states[1].State)
}

// A name that is used twice, which no manager writes, is probed once.
func TestAProbeIsRunOnce(t *testing.T) {
	t.Parallel()
	n := nodePodProbe(command("one"))
	n.Spec.PodProbes[0].Probes = append(n.Spec.PodProbes[0].Probes, n.Spec.PodProbes[0].Probes[0])
	require.Len(t, plan(n, map[types.UID]*corev1.Pod{"u1": web()}, nil, after(30)).begin, 1)
}

func TestJobOf(t *testing.T) {
	t.Parallel()
	tcp := func(port intstr.IntOrString, host string) corev1.ProbeHandler {
		return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port, Host: host}}
	}
	get := func(h corev1.HTTPGetAction) corev1.ProbeHandler { return corev1.ProbeHandler{HTTPGet: &h} }
	number := intstr.FromInt32(80)
	for _, tc := range []struct {
		name      string
		handler   corev1.ProbeHandler
		container string
		ip        string
		address   string
		invalid   string
	}{
		{name: "a command needs no address", handler: command("check").ProbeHandler, ip: "-"},
		{name: "a number", handler: tcp(number, ""), address: "10.0.0.1:80"},
		{name: "the name of a port of the container", handler: tcp(intstr.FromString("http"), ""), address: "10.0.0.1:8080"},
		{name: "a number as text", handler: get(corev1.HTTPGetAction{Port: intstr.FromString("81")}), address: "10.0.0.1:81"},
		{name: "IPv6", handler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 90}}, ip: "fd00::1", address: "[fd00::1]:90"},
		{name: "an init container that keeps running", handler: tcp(number, ""), container: "side", address: "10.0.0.1:80"},
		{name: "not an init container that ends", handler: tcp(number, ""), container: "init", invalid: "the pod has no long-running container init"},
		{name: "not a container of another pod", handler: tcp(number, ""), container: "db", invalid: "the pod has no long-running container db"},
		{name: "not an unknown port name", handler: tcp(intstr.FromString("admin"), ""), invalid: `tcpSocket.port is "admin": must be a number from 1 to 65535 or the name of a port of container app`},
		{name: "not an invalid port number", handler: get(corev1.HTTPGetAction{Port: intstr.FromInt32(70000)}), invalid: `httpGet.port is "70000"`},
		{name: "not a negative port number", handler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: -1}}, invalid: `grpc.port is "-1"`},
		{name: "not another host", handler: tcp(number, "10.0.0.2"), invalid: `tcpSocket.host is "10.0.0.2": leave it empty`},
		{name: "not another host of a request", handler: get(corev1.HTTPGetAction{Port: number, Host: "db"}), invalid: `httpGet.host is "db": leave it empty`},
		{name: "not another scheme", handler: get(corev1.HTTPGetAction{Port: number, Scheme: "FTP"}), invalid: `httpGet.scheme is "FTP": must be HTTP or HTTPS`},
		{name: "not the node itself", handler: tcp(number, ""), ip: "127.0.0.1", invalid: `the pod's IP address "127.0.0.1"`},
		{name: "not the node itself by another notation", handler: tcp(number, ""), ip: "::ffff:0.0.0.0", invalid: `the pod's IP address "::ffff:0.0.0.0"`},
		{name: "not the metadata service", handler: tcp(number, ""), ip: "169.254.169.254", invalid: `the pod's IP address "169.254.169.254"`},
		{name: "not an invalid address", handler: tcp(number, ""), ip: "db", invalid: `the pod's IP address "db"`},
		{name: "not an empty command", handler: command().ProbeHandler, invalid: "exec.command is empty"},
		{name: "not a probe without a handler", invalid: noHandler},
		{name: "not two handlers", handler: corev1.ProbeHandler{Exec: command("x").Exec, GRPC: &corev1.GRPCAction{Port: 90}}, invalid: "more than one of exec"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := web()
			switch tc.ip {
			case "":
			case "-":
				pod.Status.PodIP = ""
			default:
				pod.Status.PodIP = tc.ip
			}
			c := &appsv1alpha1.ContainerProbe{Name: "m#a", ContainerName: "app", Probe: corev1.Probe{ProbeHandler: tc.handler}}
			if tc.container != "" {
				c.ContainerName = tc.container
			}
			j, invalid := jobOf(pod, c, key{})
			if tc.invalid != "" {
				require.Contains(t, invalid, tc.invalid)
				return
			}
			require.Empty(t, invalid)
			require.Equal(t, tc.address, j.address)
		})
	}
}

// FuzzPlan: whatever a NodePodProbe contains, each worker gets something that can be done.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"podProbes":[{"uid":"u1","namespace":"shop","name":"web","IP":"x","probes":[{"name":"m#a","containerName":"app","probe":{"exec":{"command":["x"]}}}]}]}}`,
		`{"spec":{"podProbes":[{"uid":"u1","probes":[{"name":"","containerName":"side","probe":{"grpc":{"port":2147483647}}}]},{"uid":"u1"}]}}`,
		`{"spec":{"podProbes":[{"uid":"u1","probes":[{"containerName":"app","probe":{"httpGet":{"port":"http","scheme":"x"},"periodSeconds":-5}}]}]},` +
			`"status":{"podProbeStatuses":[{"uid":"u1","probeStates":[{"name":"","state":"x","lastProbeTime":"9999-01-01T00:00:00Z"}]}]}}`,
	} {
		f.Add([]byte(seed), "10.0.0.1")
	}
	f.Fuzz(func(t *testing.T, text []byte, ip string) {
		n, pod := &appsv1alpha1.NodePodProbe{}, web()
		if json.Unmarshal(text, n) != nil {
			return
		}
		pod.Status.PodIP = ip
		pods := map[types.UID]*corev1.Pod{"u1": pod}
		p := plan(n, pods, nil, after(30))
		workers := map[key]progress{}
		for _, w := range p.begin {
			require.NotContains(t, workers, w.Key)
			require.Equal(t, types.UID("u1"), w.Pod)
			require.Equal(t, w.probe.Exec == nil, w.address != "")
			require.GreaterOrEqual(t, period(&w.probe), time.Second)
			workers[w.Key] = w
		}
		n.Status = p.status
		p = plan(n, pods, workers, after(60))
		require.Empty(t, p.begin, "finished workers continue")
		require.Empty(t, p.end)
	})
}

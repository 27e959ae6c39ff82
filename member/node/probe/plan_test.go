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
	"github.com/flotilla-io/flotilla/pkg/podprobe"
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
	of := key{Pod: "u1", Name: "m#a"}
	j, _ := jobOf(pod, &n.Spec.PodProbes[0].Probes[0], of)
	j.id, j.started = pod.Status.ContainerStatuses[0].ContainerID, pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time
	return map[key]progress{of: {*j, r}}
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
			name: "a container that runs is probed", want: &state{unknown, "", 30}, changed: true, begins: new(found(unknown, "", after(30))),
		},
		{
			name:   "what a worker has found is reported",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, unknown, "", after(1)) }, worker: new(found(success, "ok", after(29))),
			want: &state{success, "ok", 29}, changed: true,
		},
		{
			name:   "and once",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(29))),
			want: &state{success, "ok", 3},
		},
		{
			name:   "another message of the same state is reported",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "1", after(3)) }, worker: new(found(success, "2", after(29))),
			want: &state{success, "2", 3}, changed: true,
		},
		{
			name:   "but not soon after the one before",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "1", after(24)) }, worker: new(found(success, "2", after(29))),
			want: &state{success, "1", 24}, recheck: 4 * time.Second,
		},
		{
			name:   "a status from the future delays nothing",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "1", after(3600)) }, worker: new(found(success, "2", after(29))),
			want: &state{success, "2", 3600}, changed: true,
		},
		{
			name:   "a daemon that was restarted goes on from the status",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, failure, "no", after(3)) },
			want:   &state{failure, "no", 3}, begins: new(found(failure, "no", after(3))),
		},
		{
			name:   "unless the container was restarted meanwhile",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, pod: again,
			want: &state{unknown, "", 30}, changed: true, begins: new(found(unknown, "", after(30))),
		},
		{
			name:   "a restarted container begins anew",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(25)) }, worker: new(found(success, "ok", after(25))), pod: again,
			want: &state{unknown, "", 30}, changed: true, begins: new(found(unknown, "", after(30))),
		},
		{
			name:   "one that does not run has failed, and is not probed",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(3))), pod: ends,
			want: &state{failure, "container app does not run", 20}, changed: true, ends: true,
		},
		{
			name:   "which is said once",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, failure, "container app does not run", after(20)) }, pod: ends,
			want: &state{failure, "container app does not run", 20},
		},
		{
			name:   "and is nothing that was found of the next one",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, failure, "container app does not run", after(20)) }, pod: again,
			want: &state{unknown, "", 30}, changed: true, begins: new(found(unknown, "", after(30))),
		},
		{
			name: "one that was not started yet has no result",
			pod: func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
			},
		},
		{name: "nor one of a pod without a status", pod: func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }},
		{
			name:   "of a pod that the cache does not have nothing is lost",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(3))), gone: true,
			want: &state{success, "ok", 3}, ends: true,
		},
		{
			name:   "a probe that is not in the spec any more ends, and so does its result",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(3))),
			spec: func(n *appsv1alpha1.NodePodProbe) { n.Spec.PodProbes[0].Probes = nil }, changed: true, ends: true,
		},
		{
			name:   "another spec begins anew, and keeps the result of the container",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(3))),
			spec: func(n *appsv1alpha1.NodePodProbe) {
				n.Spec.PodProbes[0].Probes[0].Probe.Exec.Command = []string{"other"}
			},
			want: &state{success, "ok", 3}, begins: new(found(success, "ok", after(3))),
		},
		{
			name:   "what can't be run says why",
			status: func(n *appsv1alpha1.NodePodProbe) { stored(n, success, "ok", after(3)) }, worker: new(found(success, "ok", after(3))),
			spec: func(n *appsv1alpha1.NodePodProbe) { n.Spec.PodProbes[0].Probes[0].Probe.Exec = nil },
			want: &state{unknown, noHandler, 30}, changed: true, ends: true,
		},
		{
			name:   "and not any more when it can",
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
			if is := podprobe.State(podprobe.Results(&appsv1alpha1.NodePodProbe{Status: p.status}, "u1"), "m#a"); is != nil {
				got = &state{is.State, is.Message, is.LastTransitionTime.Sub(noon).Seconds()}
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
		{name: "no init container that ends", handler: tcp(number, ""), container: "init", invalid: "the pod has no container init that keeps running"},
		{name: "no container of another pod", handler: tcp(number, ""), container: "db", invalid: "the pod has no container db that keeps running"},
		{name: "no unknown name", handler: tcp(intstr.FromString("admin"), ""), invalid: `tcpSocket.port is "admin": give a number from 1 to 65535, or the name of a port of container app`},
		{name: "no number that is no port", handler: get(corev1.HTTPGetAction{Port: intstr.FromInt32(70000)}), invalid: `httpGet.port is "70000"`},
		{name: "nor a negative one", handler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: -1}}, invalid: `grpc.port is "-1"`},
		{name: "no other host", handler: tcp(number, "10.0.0.2"), invalid: `tcpSocket.host is "10.0.0.2": leave it empty`},
		{name: "also of a request", handler: get(corev1.HTTPGetAction{Port: number, Host: "db"}), invalid: `httpGet.host is "db": leave it empty`},
		{name: "no other scheme", handler: get(corev1.HTTPGetAction{Port: number, Scheme: "FTP"}), invalid: `httpGet.scheme is "FTP": give HTTP or HTTPS`},
		{name: "not the node itself", handler: tcp(number, ""), ip: "127.0.0.1", invalid: `the pod's IP address is "127.0.0.1"`},
		{name: "nor its metadata", handler: tcp(number, ""), ip: "169.254.169.254", invalid: `the pod's IP address is "169.254.169.254"`},
		{name: "nor what is no address", handler: tcp(number, ""), ip: "db", invalid: `the pod's IP address is "db"`},
		{name: "no empty command", handler: command().ProbeHandler, invalid: "exec.command is empty"},
		{name: "not nothing", invalid: noHandler},
		{name: "not two", handler: corev1.ProbeHandler{Exec: command("x").Exec, GRPC: &corev1.GRPCAction{Port: 90}}, invalid: "more than one of exec"},
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
		require.Empty(t, p.begin, "what is done goes on")
		require.Empty(t, p.end)
	})
}

package probe

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/member/node/reach"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// messageInterval is the minimum time between two writes of a probe's message while its state stays the same. A command may print something
// different each time.
const messageInterval = 10 * time.Second

// noHandler is the message for a probe that does nothing.
const noHandler = "the probe has no handler: set exec, httpGet, tcpSocket or grpc"

// key identifies one probe of a pod.
type key = podprobe.Key

// job is what a worker does: it runs a probe against one container, as the container runs now.
type job struct {
	podprobe.Key

	namespace, podName, container string
	// id is the ID of the container, and started is its start time.
	id      string
	started time.Time
	// address is what a probe connects to, as host:port; empty for a command.
	address string
	probe   corev1.Probe
}

// same reports whether a worker can continue with another job.
func (j *job) same(as *job) bool {
	return j.Key == as.Key && j.container == as.container && j.id == as.id && j.started.Equal(as.started) && j.address == as.address &&
		apiequality.Semantic.DeepEqual(j.probe, as.probe)
}

// progress is a worker: its job, and what it has found or what was known before. At is when the result became so.
type progress struct {
	job
	podprobe.Result
}

// news is a new state of a probe.
type news struct {
	pod  *corev1.Pod
	name string
	podprobe.Result
}

// planned is what a reconcile will do.
type planned struct {
	// begin are the workers to start, replacing those with the same key, with what is already known. end are the workers to stop.
	begin []progress
	end   []key
	// status is the new status. changed means that it differs from the current one enough to be written. news are the probes whose state changes
	// with it.
	status  appsv1alpha1.NodePodProbeStatus
	changed bool
	news    []news
	// recheck is when the passing of time alone changes the plan; 0 means never.
	recheck time.Duration
}

// plan returns the next step. It is a pure function of a NodePodProbe, the node's pods by UID, the workers, and the time.
func plan(n *appsv1alpha1.NodePodProbe, pods map[types.UID]*corev1.Pod, workers map[key]progress, now time.Time) planned {
	var p planned
	wanted := map[key]bool{}
	results := map[key]podprobe.Result{}
	for i := range n.Spec.PodProbes {
		e := &n.Spec.PodProbes[i]
		pod, previous := pods[e.UID], podprobe.Results(n, e.UID)
		if pod == nil {
			continue // The cache may be behind.
		}
		for j := range e.Probes {
			k := key{Pod: e.UID, Name: e.Probes[j].Name}
			if wanted[k] {
				continue
			}
			before := podprobe.State(previous, k.Name)
			after, runs := p.probe(pod, &e.Probes[j], k, before, workers, now)
			wanted[k] = runs
			if after == nil || p.tooEarly(before, after, now) {
				continue
			}
			results[k] = *after
			if before == nil || before.State != after.State {
				p.news = append(p.news, news{pod, k.Name, *after})
			}
		}
	}
	for k := range workers {
		if !wanted[k] {
			p.end = append(p.end, k)
		}
	}
	p.status, p.changed = podprobe.Report(n, results)
	return p
}

// probe returns what is known about a probe of a pod (nil means that the status is current), and whether there is a worker for it.
func (p *planned) probe(
	pod *corev1.Pod, c *appsv1alpha1.ContainerProbe, k key, before *appsv1alpha1.ContainerProbeState, workers map[key]progress, now time.Time,
) (current *podprobe.Result, runs bool) {
	st := inplace.Status(pod, c.ContainerName)
	j, invalid := jobOf(pod, c, k)
	switch {
	case invalid != "":
		return unless(before, appsv1alpha1.ProbeUnknown, invalid, now), false
	case st == nil || st.ContainerID == "":
		return nil, false // The container was not started yet.
	case st.State.Running == nil:
		// Not the current time, at which the next container may already run.
		return unless(before, appsv1alpha1.ProbeFailed, fmt.Sprintf("container %s isn't running", c.ContainerName), ended(st, now)), false
	case j == nil:
		return nil, false // The pod has no address yet.
	}
	j.id, j.started = st.ContainerID, st.State.Running.StartedAt.Time
	w, known := workers[k]
	switch {
	case known && w.same(j):
		return &w.Result, true
	case known && w.id == j.id && w.container == j.container:
		// Results for the container stay until the new worker has one.
		p.begin = append(p.begin, progress{*j, w.Result})
		return &w.Result, true
	case !known && before != nil && before.State != appsv1alpha1.ProbeUnknown && before.LastProbeTime.After(j.started):
		p.begin = append(p.begin, progress{*j, podprobe.Result{State: before.State, Message: before.Message, At: before.LastProbeTime.Time}})
		return nil, true
	}
	current = &podprobe.Result{State: appsv1alpha1.ProbeUnknown, At: now}
	p.begin = append(p.begin, progress{*j, *current})
	return current, true
}

// tooEarly reports whether it is too early to write a result, because only its message is new and another message was written a moment ago.
func (p *planned) tooEarly(before *appsv1alpha1.ContainerProbeState, result *podprobe.Result, now time.Time) bool {
	if before == nil || before.State != result.State || before.Message == podprobe.Message(result.Message) {
		return false
	}
	left := before.LastProbeTime.Add(messageInterval).Sub(now)
	first := result.State == appsv1alpha1.ProbeUnknown && before.Message == ""
	if first || left <= 0 || left > messageInterval {
		return false
	}
	p.recheck = timing.Sooner(p.recheck, left)
	return true
}

// unless returns a result that no worker has found; nil if the status already has it.
func unless(before *appsv1alpha1.ContainerProbeState, state appsv1alpha1.ProbeState, message string, at time.Time) *podprobe.Result {
	if before != nil && before.State == state && before.Message == podprobe.Message(message) {
		return nil
	}
	return &podprobe.Result{State: state, Message: message, At: at}
}

// ended returns when a container that is not running has ended, as far as the kubelet has reported it.
func ended(st *corev1.ContainerStatus, now time.Time) time.Time {
	for _, s := range []*corev1.ContainerStateTerminated{st.State.Terminated, st.LastTerminationState.Terminated} {
		if s != nil && s.ContainerID == st.ContainerID && !s.FinishedAt.IsZero() {
			return s.FinishedAt.Time
		}
	}
	return now
}

// jobOf returns the job for a worker, without the container's ID; nil if the pod has no address yet. invalid is why the probe can't run at
// all.
func jobOf(pod *corev1.Pod, c *appsv1alpha1.ContainerProbe, k key) (j *job, invalid string) {
	container := inplace.Container(&pod.Spec, c.ContainerName)
	if container == nil {
		return nil, "the pod has no long-running container " + c.ContainerName
	}
	j = &job{Key: k, namespace: pod.Namespace, podName: pod.Name, container: c.ContainerName}
	c.Probe.DeepCopyInto(&j.probe)
	var port intstr.IntOrString
	var field, host string
	handlers := 0
	h := &j.probe.ProbeHandler
	if h.Exec != nil {
		handlers++
		if len(h.Exec.Command) == 0 {
			return nil, "exec.command is empty: set the command and its arguments"
		}
	}
	if h.HTTPGet != nil {
		handlers++
		field, port, host = "httpGet", h.HTTPGet.Port, h.HTTPGet.Host
		switch h.HTTPGet.Scheme {
		case "", corev1.URISchemeHTTP, corev1.URISchemeHTTPS:
		default:
			return nil, fmt.Sprintf("httpGet.scheme is %q: must be HTTP or HTTPS", h.HTTPGet.Scheme)
		}
	}
	if h.TCPSocket != nil {
		handlers++
		field, port, host = "tcpSocket", h.TCPSocket.Port, h.TCPSocket.Host
	}
	if h.GRPC != nil {
		handlers++
		field, port = "grpc", intstr.FromInt32(h.GRPC.Port)
	}
	switch {
	case handlers == 0:
		return nil, noHandler
	case handlers > 1:
		return nil, "the probe has more than one of exec, httpGet, tcpSocket and grpc: set only one"
	case h.Exec != nil:
		return j, ""
	case host != "":
		return nil, fmt.Sprintf("%s.host is %q: leave it empty, because only the pod can be probed", field, host)
	}
	number, ok := portOf(container, port)
	if !ok {
		return nil, fmt.Sprintf("%s.port is %q: must be a number from 1 to 65535 or the name of a port of container %s",
			field, port.String(), c.ContainerName)
	}
	if pod.Status.PodIP == "" {
		return nil, ""
	}
	// The status of a pod must not direct us to something that only the daemon or its node can reach.
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !reach.Allowed(ip) {
		return nil, fmt.Sprintf("the pod's IP address %q can't be probed", pod.Status.PodIP)
	}
	j.address = netip.AddrPortFrom(ip, number).String()
	return j, ""
}

// portOf returns the number of a container's port.
func portOf(c *corev1.Container, port intstr.IntOrString) (uint16, bool) {
	text := port.String()
	for i := range c.Ports {
		if port.Type == intstr.String && c.Ports[i].Name == port.StrVal {
			text = strconv.Itoa(int(c.Ports[i].ContainerPort))
		}
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0
}

// Numbers of a probe. Values below 1 count as 1. Source: OpenKruise.
func period(p *corev1.Probe) time.Duration { return seconds(p.PeriodSeconds) }

func timeout(p *corev1.Probe) time.Duration {
	return min(seconds(p.TimeoutSeconds), podprobe.MaxTimeout)
}
func delay(p *corev1.Probe) time.Duration { return seconds(p.InitialDelaySeconds) }

func seconds(n int32) time.Duration { return time.Duration(max(1, n)) * time.Second }

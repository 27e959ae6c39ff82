package env

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/node/stop"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

const (
	// settle is the time that the kubelet gets to see the new metadata before a container is restarted for it.
	settle = time.Second
	// pauseMin and pauseMax limit the time between two stops of one container. It doubles each time.
	pauseMin, pauseMax = 3 * time.Second, 10 * time.Minute
)

// reason is why a container is restarted or has to wait.
type reason string

const (
	// reasonEnv means that the container reads metadata by env that has changed since it was started.
	reasonEnv reason = "EnvChanged"
	// reasonAsked means that the update restarts the container regardless of what it reads.
	reasonAsked reason = "RestartRequested"
	// reasonSettle means that the kubelet may not have seen the metadata yet.
	reasonSettle reason = "Settling"
	// reasonPause means that the container was stopped shortly before; the pause doubles.
	reasonPause reason = "BackOff"
	// reasonKubelet means that the kubelet is about to start or restart the container.
	reasonKubelet reason = "Kubelet"
	// reasonPolicy means that the container's restart policy is not Always, so nothing would start it again.
	reasonPolicy reason = "RestartPolicy"
	// reasonOrder means that containers of a higher launch priority are not ready yet.
	reasonOrder reason = "LaunchPriority"
	// reasonOther means that another node daemon restarts containers here.
	reasonOther reason = "OtherDaemon"
)

// planned is what a reconcile will do for one pod.
type planned struct {
	// report is the new value of the pod's annotation; empty if it is up to date or there is nothing to report.
	report string
	// restart are the containers to stop.
	restart []restart
	// holds are the containers that wait, with the reason.
	holds []hold
	// recheck is when the passing of time alone can change the plan; 0 means never.
	recheck time.Duration
}

// restart is a container to stop, so that the kubelet starts it again.
type restart struct {
	stop.Container

	reason reason
}

type hold struct {
	name   string
	reason reason
	why    string
}

// plan returns the next steps for a pod.
func plan(o observed, now time.Time) planned {
	p := planned{report: report(o)}
	for _, batch := range inplace.RestartRequests(o.pod) {
		done := true
		for _, ask := range batch {
			if !p.planContainer(o, ask, now) {
				done = false
			}
		}
		if !done {
			break // Containers of a lower launch priority wait until these are ready.
		}
	}
	if o.other != "" {
		p.standBack(o.other)
	}
	return p
}

// standBack leaves the planned work to another node daemon, and rechecks whether that daemon is still there. The other daemon doesn't handle
// restarts that are independent of what a container reads.
func (p *planned) standBack(other string) {
	if p.report == "" && len(p.restart) == 0 {
		return
	}
	var own []restart
	for _, s := range p.restart {
		if s.reason == reasonAsked {
			own = append(own, s)
			continue
		}
		p.holds = append(p.holds, hold{s.Name, reasonOther, fmt.Sprintf("%s, but its restart is left to node daemon %s", s.Why, other)})
	}
	p.report, p.restart, p.recheck = "", own, stop.RecheckInterval
}

// planContainer plans for one container whose restart is requested, and reports whether the container has its new values and
// is ready.
func (p *planned) planContainer(o observed, ask inplace.RestartRequest, now time.Time) (done bool) {
	c := ask.Container
	wait := func(r reason, format string, args ...any) {
		p.holds = append(p.holds, hold{c.Name, r, fmt.Sprintf("container %s "+format, append([]any{c.Name}, args...)...)})
	}
	st := inplace.Status(o.pod, c.Name)
	if st == nil || st.ContainerID == "" || st.State.Running == nil {
		wait(reasonKubelet, "is not running")
		return false
	}
	started, known := o.containerOf(c.Name, st.ContainerID)
	if !known {
		wait(reasonKubelet, "isn't the one in the pod's status")
		return false
	}
	cause, why := reasonEnv, ""
	if ask.Always && ask.Before == st.ContainerID {
		cause, why = reasonAsked, fmt.Sprintf("container %s was started before its restart was requested", c.Name)
	} else if changed := staleEnv(o.pod, ask, st, started); changed != "" {
		why = fmt.Sprintf("container %s was started before %s changed", c.Name, changed)
	} else {
		if !st.Ready {
			wait(reasonOrder, "was restarted and isn't ready")
		}
		return st.Ready
	}
	if policy := inplace.RestartPolicy(c, o.pod); policy != corev1.RestartPolicyAlways {
		wait(reasonPolicy, "has restart policy %s and would not be started again", policy)
		return false
	}
	if ask.Image && started.Hash != 0 && !inplace.FromSpec(started.Hash, c) {
		wait(reasonKubelet, "is about to be restarted by the kubelet, because its image changed")
		return false
	}
	reason, until := reasonSettle, o.asked.Add(settle)
	if t, tried := o.tries[c.Name]; tried {
		reason, until = reasonPause, t.last.Add(pause(t.count))
	}
	if left := until.Sub(now); left > 0 {
		wait(reason, "will be stopped in %s", left.Round(time.Second))
		if p.recheck == 0 || left < p.recheck {
			p.recheck = left
		}
		return false
	}
	p.restart = append(p.restart, restart{stop.Of(o.pod, c, st.ContainerID, why), cause})
	return false
}

// staleEnv names what a container reads by env and still has with an old value; empty if there is none.
func staleEnv(pod *corev1.Pod, ask inplace.RestartRequest, st *corev1.ContainerStatus, started cri.Container) string {
	env := inplace.MetadataEnv(ask.Container, pod)
	switch {
	case started.Env != nil:
		return differingEnv(env, started.Env)
	case len(env) > 0 && ask.Before == st.ContainerID:
		// The runtime does not report env. A container from before the update has the old values.
		return "metadata that it reads by env"
	}
	return ""
}

// differingEnv names the variables whose values differ, without the values, which may be secret; empty if none differs.
func differingEnv(want []corev1.EnvVar, has map[string]string) string {
	var names []string
	for i := range want {
		if has[want[i].Name] != want[i].Value {
			names = append(names, "env "+want[i].Name)
		}
	}
	return strings.Join(slices.Compact(names), ", ")
}

// pause returns the wait after that many stops.
func pause(count int) time.Duration {
	d := pauseMin
	for range count - 1 {
		d = min(2*d, pauseMax)
	}
	return d
}

// report returns the new value of the pod's annotation; empty if it is up to date or contains nothing that an update waits for. A container
// that reads metadata is left out if its runtime does not report env; its restart counts instead.
func report(o observed) string {
	if !hasReport(o.pod) {
		return ""
	}
	var all []inplace.StartedContainer
	for _, c := range inplace.Containers(o.pod) {
		st := inplace.Status(o.pod, c.Name)
		if st == nil {
			continue
		}
		started, known := o.containerOf(c.Name, st.ContainerID)
		env := inplace.MetadataEnv(c, o.pod)
		if !known || len(env) > 0 && started.Env == nil {
			continue
		}
		for i := range env {
			env[i].Value = started.Env[env[i].Name]
		}
		all = append(all, inplace.StartedContainer{
			Name: c.Name, ContainerID: st.ContainerID, RestartCount: st.RestartCount,
			Hashes: inplace.StartedHashes{PlainHash: started.Hash, ExtractedEnvFromMetadataHash: inplace.EnvHash(env)},
		})
	}
	if len(all) == 0 {
		return ""
	}
	text, err := inplace.MarshalStarted(all)
	if err != nil || text == o.pod.Annotations[keys.RuntimeContainersMeta] {
		return ""
	}
	return text
}

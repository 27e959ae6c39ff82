package env

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/inplace"
)

const (
	// settle is how long the kubelet gets to see the metadata that a container is restarted for.
	settle = time.Second
	// pauseMin and pauseMax bound the time between two stops of one container. It doubles.
	pauseMin, pauseMax = 3 * time.Second, 10 * time.Minute
	// defaultGrace is the termination grace period of a pod that names none, as in kube 1.36.
	defaultGrace = 30 * time.Second
)

// reason is why a container is restarted or has to wait.
type reason string

const (
	// reasonEnv: the container reads metadata by env that has changed since it was started.
	reasonEnv reason = "EnvChanged"
	// reasonSettle: the kubelet may not have seen the metadata yet.
	reasonSettle reason = "Settling"
	// reasonPause: it was stopped a short while ago.
	reasonPause reason = "BackOff"
	// reasonKubelet: the kubelet is about to start it, or to start it anew.
	reasonKubelet reason = "Kubelet"
	// reasonPolicy: its restart policy is not Always, so nobody would start it again.
	reasonPolicy reason = "RestartPolicy"
	// reasonOrder: containers of a higher launch priority are not ready yet.
	reasonOrder reason = "LaunchPriority"
)

// work is what is to be done for one pod now.
type work struct {
	// report is what the pod's annotation is to say of its containers; empty if it says so already, or there is nothing to say.
	report string
	// restart are the containers to be stopped.
	restart []restart
	// holds are the containers that have to wait.
	holds []hold
	// recheck is when time alone could change the plan; 0 for never.
	recheck time.Duration
}

// restart is a container to be stopped, so that the kubelet starts it anew.
type restart struct {
	name string
	// id is as the pod's status has it.
	id     string
	reason reason
	why    string
	// hook is run before; nil for none. grace is the time for both.
	hook  *corev1.LifecycleHandler
	grace time.Duration
}

type hold struct {
	name   string
	reason reason
	why    string
}

// plan says what is to be done for a pod now.
func plan(o observed, now time.Time) work {
	w := work{report: report(o)}
	for _, batch := range inplace.EnvAsks(o.pod) {
		done := true
		for _, ask := range batch {
			if !w.judge(o, ask, now) {
				done = false
			}
		}
		if !done {
			break // Those of a lower launch priority wait until these are ready.
		}
	}
	return w
}

// judge adds what is to be done about one container that is asked for, and tells whether it has what it should have and is
// ready.
func (w *work) judge(o observed, ask inplace.EnvAsk, now time.Time) (done bool) {
	c := ask.Container
	wait := func(r reason, format string, args ...any) {
		w.holds = append(w.holds, hold{c.Name, r, fmt.Sprintf("container %s "+format, append([]any{c.Name}, args...)...)})
	}
	st := inplace.Status(o.pod, c.Name)
	if st == nil || st.ContainerID == "" || st.State.Running == nil {
		wait(reasonKubelet, "is not running")
		return false
	}
	started, known := o.of(c.Name, st.ContainerID)
	if !known {
		wait(reasonKubelet, "is another one than the kubelet has told of")
		return false
	}
	var changed string
	if started.Env == nil {
		// The runtime does not say. A container that was there before the update was asked for has the former values.
		if ask.Before != st.ContainerID {
			return st.Ready
		}
		changed = "metadata that it reads by env"
	} else if changed = differs(inplace.MetadataEnv(c, o.pod), started.Env); changed == "" {
		if !st.Ready {
			wait(reasonOrder, "has been restarted and is not ready")
		}
		return st.Ready
	}
	if policy := inplace.RestartPolicy(c, o.pod); policy != corev1.RestartPolicyAlways {
		wait(reasonPolicy, "has restart policy %s: nobody would start it again", policy)
		return false
	}
	if ask.Image && started.Hash != 0 && !inplace.FromSpec(started.Hash, c) {
		wait(reasonKubelet, "is about to be started anew by the kubelet, because its image changed")
		return false
	}
	reason, until := reasonSettle, o.asked.Add(settle)
	if t, tried := o.tries[c.Name]; tried {
		reason, until = reasonPause, t.last.Add(pause(t.count))
	}
	if left := until.Sub(now); left > 0 {
		wait(reason, "is stopped in %s", left.Round(time.Second))
		if w.recheck == 0 || left < w.recheck {
			w.recheck = left
		}
		return false
	}
	w.restart = append(w.restart, restart{
		name: c.Name, id: st.ContainerID, reason: reasonEnv,
		why:  fmt.Sprintf("container %s was started before %s changed", c.Name, changed),
		hook: preStop(c), grace: grace(o.pod),
	})
	return false
}

// differs names the variables that have another value than they should, without values, which may be secret; empty if none
// has.
func differs(want []corev1.EnvVar, has map[string]string) string {
	var names []string
	for i := range want {
		if has[want[i].Name] != want[i].Value {
			names = append(names, "env "+want[i].Name)
		}
	}
	return strings.Join(slices.Compact(names), ", ")
}

// pause is the time to wait after so many stops.
func pause(count int) time.Duration {
	d := pauseMin
	for range count - 1 {
		d = min(2*d, pauseMax)
	}
	return d
}

func preStop(c *corev1.Container) *corev1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PreStop
}

func grace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return defaultGrace
}

// report is what the pod's annotation is to say, if it does not say so yet. A container whose runtime does not tell its env
// is left out if it reads metadata: then its restart counts, and not our word.
func report(o observed) string {
	var all []inplace.Started
	for _, c := range inplace.Runners(o.pod) {
		st := inplace.Status(o.pod, c.Name)
		if st == nil {
			continue
		}
		started, known := o.of(c.Name, st.ContainerID)
		env := inplace.MetadataEnv(c, o.pod)
		if !known || len(env) > 0 && started.Env == nil {
			continue
		}
		for i := range env {
			env[i].Value = started.Env[env[i].Name]
		}
		all = append(all, inplace.Started{
			Name: c.Name, ContainerID: st.ContainerID, RestartCount: st.RestartCount,
			Hashes: inplace.StartedHashes{PlainHash: started.Hash, ExtractedEnvFromMetadataHash: inplace.EnvHash(env)},
		})
	}
	if len(all) == 0 {
		return ""
	}
	text, err := inplace.Report(all)
	if err != nil || text == o.pod.Annotations[keys.RuntimeContainersMeta] {
		return ""
	}
	return text
}

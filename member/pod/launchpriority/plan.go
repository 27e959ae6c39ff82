package launchpriority

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// patience is how long containers may keep others waiting before an event reports it.
const patience = 5 * time.Minute

// observed is what a reconcile has read about one pod. The pod is shared with the cache and must not be modified.
type observed struct {
	pod *corev1.Pod
	// since is when the pod's containers began to wait for the present priority. reported means that an event has reported it.
	since    time.Time
	reported bool
}

// planned is the next step for one pod.
type planned struct {
	// keys holds all keys that the ConfigMap should have, if it has to be written. The last one is new.
	keys []string
	// configMap is the ConfigMap's name.
	configMap string
	// reached is the lowest priority whose containers may then start. done means that all containers may.
	reached string
	done    bool
	// waits names the containers that others wait for, or "" if none. Two plans with the same value wait for the same containers.
	waits string
	// stalled is the message of the event, and recheck is when it is due. Both are empty if nothing waits, or if it was reported.
	stalled string
	recheck time.Duration
}

// waiting reports whether containers of a pod may still be held back.
func waiting(pod *corev1.Pod) bool {
	return podpatch.Active(pod) && pod.Annotations[keys.ContainerLaunchPriorityCompleted] != "true" &&
		slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { _, held := barrierOf(&c); return held })
}

// plan is a pure function of the pod and the time.
func plan(o *observed, now time.Time) planned {
	groups := groupsOf(o.pod)
	reached, begun := reachedOf(o.pod)
	var p planned
	for i, g := range groups {
		let := g.priority == first || begun && g.priority >= reached
		if !let { // All groups before it have passed.
			p.configMap, p.reached, p.done = g.configMap, strconv.Itoa(g.priority), i == len(groups)-1
			for _, before := range groups[:i+1] {
				if before.priority != first {
					p.keys = append(p.keys, keyPrefix+strconv.Itoa(before.priority))
				}
			}
			return p
		}
		if unready := g.unready(o.pod); len(unready) > 0 {
			if held := heldAfter(groups[i+1:]); len(held) > 0 && o.pod.Spec.NodeName != "" {
				p.wait(o, unready, held, now)
			}
			return p
		}
	}
	return p
}

// wait records that containers wait for others.
func (p *planned) wait(o *observed, unready, held []string, now time.Time) {
	p.waits = strings.Join(unready, ",")
	switch left := patience - now.Sub(o.since); {
	case o.reported:
	case left > 0:
		p.recheck = left
	default:
		p.stalled = fmt.Sprintf("%s not ready for %s: because of launch priorities, %s %s for that",
			count(unready, "container %s is", "containers %s are"), patience, strings.Join(held, " and "), count(held, "waits", "wait"))
	}
}

// count returns the text one for a single name, and more for several, with the names if the text has a place for them.
func count(names []string, one, more string) string {
	text := more
	if len(names) == 1 {
		text = one
	}
	return strings.ReplaceAll(text, "%s", strings.Join(names, " and "))
}

// group is the containers of one priority. Containers of priority first wait for nothing.
type group struct {
	priority   int
	configMap  string
	containers []string
}

// first is the priority of containers without a barrier. No priority can be higher.
const first = int(^uint(0) >> 1)

// groupsOf returns a pod's groups in start order. A key that isn't ours holds its container back whatever this controller does, so no group
// waits for that container.
func groupsOf(pod *corev1.Pod) []group {
	by := map[int]*group{}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		priority := first
		ref, held := barrierOf(c)
		if held {
			n, err := strconv.Atoi(strings.TrimPrefix(ref.Key, keyPrefix))
			if err != nil || ref.Key != keyPrefix+strconv.Itoa(n) {
				continue
			}
			priority = n
		}
		if by[priority] == nil {
			by[priority] = &group{priority: priority, configMap: ref.Name}
		}
		by[priority].containers = append(by[priority].containers, c.Name)
	}
	out := make([]group, 0, len(by))
	for _, p := range descending(slices.Collect(maps.Keys(by))) {
		out = append(out, *by[p])
	}
	return out
}

// unready returns the containers of the group that others wait for. They are not ready, and they are not completed in a pod that doesn't
// restart them.
func (g group) unready(pod *corev1.Pod) []string {
	passed, ends := map[string]bool{}, pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		passed[s.Name] = s.Ready || ends && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
	return slices.DeleteFunc(slices.Clone(g.containers), func(name string) bool { return passed[name] })
}

// heldAfter returns the containers of the groups.
func heldAfter(groups []group) []string {
	var out []string
	for _, g := range groups {
		out = append(out, g.containers...)
	}
	return out
}

// reachedOf returns the lowest priority whose containers may start, or false if there is none yet.
func reachedOf(pod *corev1.Pod) (int, bool) {
	n, err := strconv.Atoi(pod.Annotations[keys.ContainerLaunchPriorityReached])
	return n, err == nil
}

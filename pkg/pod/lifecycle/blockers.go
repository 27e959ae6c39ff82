package lifecycle

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// blocker is one entry in the message of keys.KruisePodReady: the agent that keeps the pod not ready, and its key.
type blocker struct {
	Agent string `json:"userAgent"`
	Key   string `json:"key"`
}

// agent and the two keys identify the blockers of hooks.
const (
	agent     = "Lifecycle"
	keyUpdate = "preUpdateHook"
	keyDelete = "preDeleteHook"
)

// blockers parses the list. An invalid message counts as empty.
func blockers(pod *corev1.Pod) []blocker {
	c := podpatch.Find(pod, keys.KruisePodReady)
	if c == nil || c.Message == "" {
		return nil
	}
	var list []blocker
	if err := json.Unmarshal([]byte(c.Message), &list); err != nil {
		return nil
	}
	return list
}

// block makes the pod not ready with one of our keys. A pod without the gate stays unchanged.
func block(b *podpatch.Body, pod *corev1.Pod, key string, now time.Time) {
	Block(b, pod, agent, key, now)
}

// unblock removes our keys, and makes a new pod ready if it has no other blocker.
func unblock(b *podpatch.Body, pod *corev1.Pod, now time.Time) {
	list := blockers(pod)
	left := slices.DeleteFunc(slices.Clone(list), func(x blocker) bool { return x.Agent == agent })
	if len(left) < len(list) || NeverReady(pod) {
		writeBlockers(b, pod, left, now)
	}
}

// Blocks reports whether an agent keeps the pod not ready with a key.
func Blocks(pod *corev1.Pod, agent, key string) bool {
	return slices.Contains(blockers(pod), blocker{agent, key})
}

// Blocked returns the keys with which an agent keeps the pod not ready.
func Blocked(pod *corev1.Pod, agent string) []string {
	var out []string
	for _, b := range blockers(pod) {
		if b.Agent == agent {
			out = append(out, b.Key)
		}
	}
	return out
}

// Block makes the pod not ready with a key of an agent. A pod without the gate stays unchanged.
func Block(b *podpatch.Body, pod *corev1.Pod, agent, key string, now time.Time) {
	if !podpatch.Gated(pod, keys.KruisePodReady) {
		return
	}
	list := blockers(pod)
	if ours := (blocker{agent, key}); !slices.Contains(list, ours) {
		list = append(list, ours)
	}
	writeBlockers(b, pod, list, now)
	b.Unready(pod, now)
}

// Unblock removes a key of an agent; the pod becomes ready again if nothing else blocks it.
func Unblock(b *podpatch.Body, pod *corev1.Pod, agent, key string, now time.Time) {
	if list := blockers(pod); slices.Contains(list, blocker{agent, key}) {
		writeBlockers(b, pod, slices.DeleteFunc(list, func(x blocker) bool { return x == blocker{agent, key} }), now)
	}
}

// writeBlockers writes the list, sorted. Other controllers write it too, so the write applies only to the observed version of the pod.
func writeBlockers(b *podpatch.Body, pod *corev1.Pod, list []blocker, now time.Time) {
	if podpatch.Find(pod, keys.KruisePodReady) != nil {
		b.Observed(pod)
	}
	if len(list) == 0 {
		b.Set(pod, keys.KruisePodReady, corev1.ConditionTrue, "", "", now)
		return
	}
	slices.SortFunc(list, func(x, y blocker) int { return cmp.Or(cmp.Compare(x.Agent, y.Agent), cmp.Compare(x.Key, y.Key)) })
	message, _ := json.Marshal(list) // strings always marshal
	b.Set(pod, keys.KruisePodReady, corev1.ConditionFalse, "", string(message), now)
}

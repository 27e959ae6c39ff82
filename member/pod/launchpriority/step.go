package launchpriority

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Feature is the name of the step.
const Feature = "ContainerLaunchPriority"

// Asks is a CEL expression for pods that request the step. The chart's policy uses it too.
const Asks = "'" + keys.ContainerLaunchPriority + "' in object.metadata.?annotations.orValue({}) || " +
	"object.spec.containers.exists(c, c.?env.orValue([]).exists(e, e.name == '" + keys.EnvContainerPriority + "'))"

const (
	// ordered is the annotation value that requests the order of the container list.
	ordered = "Ordered"
	// keyPrefix precedes the priority in a key of the ConfigMap.
	keyPrefix = "p_"
	// barrierSuffix ends the name of a ConfigMap, as in OpenKruise.
	barrierSuffix = "-barrier"
	// longestPrefix is how much of a pod's name is used in the name of its ConfigMap, so that the result is a valid name.
	longestPrefix = 200
)

// step returns the step of the pod webhook.
func step() podwebhook.Step {
	return podwebhook.Step{
		Feature: Feature, Order: podwebhook.OrderLaunchPriority, Asks: Asks,
		Observe: func(_ context.Context, _ client.Reader, pod *corev1.Pod) (podwebhook.Facts, error) {
			return facts{suffix: utilrand.String(5)}, validatePriorities(pod)
		},
	}
}

// validatePriorities rejects a pod with an invalid launch priority.
func validatePriorities(pod *corev1.Pod) error {
	if pod.Annotations[keys.ContainerLaunchPriority] == ordered {
		return nil // The env variables are ignored.
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if value, ok := priorityEnv(c); ok {
			if _, err := strconv.Atoi(value); err != nil {
				return podwebhook.RefusedError(fmt.Sprintf(
					"spec.containers[%d].env[%s]: container %s: %q is not an integer: set a launch priority such as 10 or -1, or remove it",
					i, keys.EnvContainerPriority, c.Name, value))
			}
		}
	}
	return nil
}

// facts holds the suffix of the ConfigMap's name. It is random: the ConfigMap of an earlier pod with the same name has all keys, and must
// never be mistaken for the new pod's.
type facts struct{ suffix string }

// Change implements podwebhook.Facts.
func (f facts) Change(pod *corev1.Pod) string {
	containers := pod.Spec.Containers
	if slices.ContainsFunc(containers, func(c corev1.Container) bool { _, held := barrierOf(&c); return held }) {
		return "its containers already have barriers"
	}
	if len(containers) < 2 {
		return "it has only one container"
	}
	priorities := prioritiesOf(pod)
	first := slices.Max(priorities)
	if first == slices.Min(priorities) {
		return "its containers have the same launch priority"
	}
	name := control.NamePrefix(cmp.Or(strings.TrimSuffix(pod.GenerateName, "-"), pod.Name), longestPrefix) + "-" + f.suffix + barrierSuffix
	for i, p := range priorities {
		if p == first {
			continue
		}
		containers[i].Env = append(slices.Clone(containers[i].Env), corev1.EnvVar{
			Name: keys.EnvContainerBarrier,
			ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: keyPrefix + strconv.Itoa(p),
			}},
		})
	}
	return "its containers start in the order " + describe(pod, priorities)
}

// prioritiesOf returns the launch priorities of the containers, in the order of the list. An invalid one counts as 0.
func prioritiesOf(pod *corev1.Pod) []int {
	out := make([]int, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		if pod.Annotations[keys.ContainerLaunchPriority] == ordered {
			out[i] = -i
			continue
		}
		value, _ := priorityEnv(&pod.Spec.Containers[i])
		out[i], _ = strconv.Atoi(value)
	}
	return out
}

// describe names the containers in start order: "proxy; app and log".
func describe(pod *corev1.Pod, priorities []int) string {
	by := map[int][]string{}
	for i, p := range priorities {
		by[p] = append(by[p], pod.Spec.Containers[i].Name)
	}
	groups := make([]string, 0, len(by))
	for _, p := range descending(priorities) {
		groups = append(groups, strings.Join(by[p], " and "))
	}
	return strings.Join(groups, "; ")
}

// descending returns the distinct numbers, largest first.
func descending(values []int) []int {
	out := slices.Sorted(slices.Values(values))
	slices.Reverse(out)
	return slices.Compact(out)
}

func priorityEnv(c *corev1.Container) (string, bool) {
	for _, e := range c.Env {
		if e.Name == keys.EnvContainerPriority {
			return e.Value, true
		}
	}
	return "", false
}

// barrierOf returns the key that a container waits for, and whether it waits for one.
func barrierOf(c *corev1.Container) (ref corev1.ConfigMapKeySelector, held bool) {
	for _, e := range c.Env {
		if e.Name == keys.EnvContainerBarrier && e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
			return *e.ValueFrom.ConfigMapKeyRef, true
		}
	}
	return ref, false
}

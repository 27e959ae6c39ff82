package enhancedliveness

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podprobe"
	"github.com/flotilla-io/flotilla/pkg/podstep"
)

// Asks is true of pods that ask for the step, and of those that say what only the step may say. The policy of the chart names it too.
const Asks = "object.metadata.?annotations.orValue({}).exists(k, k in ['" + keys.EnhancedLiveness + "', '" + keys.ContainerProbeContext + "'])"

// step returns the step of the pod webhook. It comes after those that add containers.
func step() podstep.Step {
	return podstep.Step{
		Feature: Feature, Order: podstep.OrderEnhancedLiveness, Gate: feature.EnhancedLiveness, Asks: Asks,
		Observe: func(context.Context, client.Reader, *corev1.Pod) (podstep.Facts, error) { return facts{}, nil },
	}
}

// facts are none: all is in the pod.
type facts struct{}

// Change implements podstep.Facts. What the annotation says already is not looked at: it is for the step alone to write.
func (facts) Change(pod *corev1.Pod) string {
	_, given := pod.Annotations[keys.ContainerProbeContext]
	delete(pod.Annotations, keys.ContainerProbeContext)
	why := ""
	switch {
	case pod.Annotations[keys.EnhancedLiveness] != "true":
		why = fmt.Sprintf("its annotation %s is not \"true\"", keys.EnhancedLiveness)
	case !ownership.OfPodWorkload(pod):
		why = "no CloneSet, StatefulSet or DaemonSet of apps.kruise.io controls it: the kubelet runs its liveness probes"
	}
	if why != "" {
		if given {
			return fmt.Sprintf("%s; annotation %s, which only the webhook writes, is removed", why, keys.ContainerProbeContext)
		}
		return why
	}
	var moved []podprobe.LivenessProbe
	var names []string
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.LivenessProbe == nil || !runnable(c) {
			continue
		}
		moved, names = append(moved, podprobe.LivenessProbe{Name: c.Name, LivenessProbe: *c.LivenessProbe}), append(names, c.Name)
	}
	if len(moved) == 0 {
		return "it has no liveness probe that a node daemon can run"
	}
	text, err := json.Marshal(moved)
	if err != nil { // No field can fail.
		return fmt.Sprintf("its liveness probes can't be written: %v", err)
	}
	pod.Annotations[keys.ContainerProbeContext] = string(text)
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.LivenessProbe != nil && runnable(c) {
			c.LivenessProbe = nil
		}
	}
	return "the node daemon runs the liveness probes of " + strings.Join(names, ", ")
}

// runnable reports whether a node daemon can run the liveness probe of a container. Another one stays with the kubelet: what would never
// have a result must not be taken from it.
func runnable(c *corev1.Container) bool {
	h := &c.LivenessProbe.ProbeHandler
	port := func(p intstr.IntOrString) bool {
		if p.Type == intstr.Int {
			return p.IntVal > 0
		}
		for i := range c.Ports {
			if c.Ports[i].Name == p.StrVal {
				return true
			}
		}
		return false
	}
	switch {
	case h.Exec != nil:
		return len(h.Exec.Command) > 0
	case h.HTTPGet != nil:
		return h.HTTPGet.Host == "" && port(h.HTTPGet.Port)
	case h.TCPSocket != nil:
		return h.TCPSocket.Host == "" && port(h.TCPSocket.Port)
	case h.GRPC != nil:
		return h.GRPC.Port > 0
	}
	return false
}

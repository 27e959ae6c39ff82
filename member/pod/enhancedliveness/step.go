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
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Asks is a CEL expression for pods that request the step, and for pods with the annotation that only the step may write. The chart's policy
// uses it too.
const Asks = "object.metadata.?annotations.orValue({}).exists(k, k in ['" + keys.EnhancedLiveness + "', '" + keys.ContainerProbeContext + "'])"

// step returns the step of the pod webhook. It runs after the steps that add containers.
func step() podwebhook.Step {
	return podwebhook.Step{
		Feature: Feature, Order: podwebhook.OrderEnhancedLiveness, Gate: feature.EnhancedLiveness, Asks: Asks,
		Observe: func(context.Context, client.Reader, *corev1.Pod) (podwebhook.Facts, error) { return facts{}, nil },
	}
}

// facts is empty: everything is in the pod.
type facts struct{}

// Change implements podwebhook.Facts. It ignores an existing annotation, which only this step may write.
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
	if err != nil { // Marshaling can't fail.
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

// runnable reports whether a node daemon can run a container's liveness probe. If not, the kubelet keeps it: a probe must not be moved to
// where it never gets a result.
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

package sidecarterminator

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/pkg/pod/jobsidecar"
)

// planned is the next write to a pod. The zero value means no write.
type planned struct {
	// phase is the phase to report for the finished pod.
	phase corev1.PodPhase
	// images maps container names to their new images.
	images map[string]string
	// why is a human-readable sentence.
	why string
}

// plan is a pure function of a pod whose main containers are done, and of whether its node is virtual.
func plan(p jobsidecar.Pod, virtual bool) planned {
	if virtual {
		return planReplacement(p)
	}
	var left []string
	for _, s := range p.Sidecars {
		switch {
		case !s.Stopped || p.Ended(s.Status):
		case s.Ignored:
			left = append(left, s.Container.Name)
		default:
			return planned{} // Its exit code counts.
		}
	}
	if len(left) == 0 {
		return planned{}
	}
	return planned{phase: p.Phase, why: fmt.Sprintf("all other containers have ended: the pod is %s, and sidecar %s is stopped",
		p.Phase, strings.Join(left, ", "))}
}

// planReplacement replaces the images of the sidecars on a virtual node.
func planReplacement(p jobsidecar.Pod) planned {
	out, names := planned{images: map[string]string{}}, []string(nil)
	for _, s := range p.Sidecars {
		if s.Image != "" && s.Container.Image != s.Image && !p.Ended(s.Status) {
			out.images[s.Container.Name] = s.Image
			names = append(names, s.Container.Name)
		}
	}
	if len(names) == 0 {
		return planned{}
	}
	out.why = fmt.Sprintf("all other containers have ended: sidecar %s gets an image that exits", strings.Join(names, ", "))
	return out
}

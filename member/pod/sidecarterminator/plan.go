package sidecarterminator

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/pkg/jobsidecar"
)

// planned is the next write to a pod; the zero value is none.
type planned struct {
	// phase is what the pod is said to have ended with.
	phase corev1.PodPhase
	// images are those that containers get, by name.
	images map[string]string
	// why is a sentence for people.
	why string
}

// plan is a pure function of a pod whose other containers are done, and of whether its node is virtual.
func plan(p jobsidecar.Pod, virtual bool) planned {
	if virtual {
		return replaced(p)
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

// replaced gives the sidecars on a virtual node their last image.
func replaced(p jobsidecar.Pod) planned {
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
	out.why = fmt.Sprintf("all other containers have ended: sidecar %s gets the image that ends", strings.Join(names, ", "))
	return out
}

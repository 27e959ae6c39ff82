package podprobe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/ownership"
)

// livenessMarker stands for a PodProbeMarker in the names of liveness probes. No PodProbeMarker can have this name.
const livenessMarker = "EnhancedLivenessProbe"

// LivenessProbe is the liveness probe of a container, as annotation keys.ContainerProbeContext has it.
type LivenessProbe struct {
	// Name is the name of the container.
	Name string `json:"name"`
	// LivenessProbe is the probe.
	LivenessProbe corev1.Probe `json:"livenessProbe"`
}

// AsksForLiveness reports whether a pod has liveness probes for the node daemon: an annotation with them, and a workload of
// ownership.PodWorkloads, which are the kinds of OpenKruise.
func AsksForLiveness(pod *corev1.Pod) bool {
	return pod.Annotations[keys.ContainerProbeContext] != "" && ownership.OfPodWorkload(pod)
}

// Liveness returns the liveness probes of a pod that the node daemon runs, one for a container, with the defaults of Kubernetes; none if
// it does not ask for that. An error means that the annotation is not readable.
func Liveness(pod *corev1.Pod) ([]LivenessProbe, error) {
	if !AsksForLiveness(pod) {
		return nil, nil
	}
	var all []LivenessProbe
	if err := json.Unmarshal([]byte(pod.Annotations[keys.ContainerProbeContext]), &all); err != nil {
		return nil, fmt.Errorf("annotation %s is not readable, so no liveness probe of it is run: %w: "+
			`give a list of {"name","livenessProbe"}, or re-create the pod`, keys.ContainerProbeContext, err)
	}
	var out []LivenessProbe
	for _, p := range all {
		if slices.ContainsFunc(out, func(o LivenessProbe) bool { return o.Name == p.Name }) {
			continue
		}
		for number, value := range map[*int32]int32{
			&p.LivenessProbe.TimeoutSeconds: 1, &p.LivenessProbe.PeriodSeconds: 10,
			&p.LivenessProbe.SuccessThreshold: 1, &p.LivenessProbe.FailureThreshold: 3,
		} {
			if *number < 1 {
				*number = value
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// LivenessName is the name that the liveness probe of a container has in a NodePodProbe. It names the container as it runs now, so that
// what was found of one that ran before, or before it had started up, is never taken for it.
func LivenessName(container, id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		id = bare
	}
	return Name(livenessMarker, container+"/"+id)
}

// Started returns the ID of a container that runs and has started up: its startup probe, if it has one, has succeeded. A liveness probe
// counts only of such a container. The ID is empty of others.
func Started(pod *corev1.Pod, container string) string {
	st := inplace.Status(pod, container)
	if st == nil || st.State.Running == nil || st.Started == nil || !*st.Started {
		return ""
	}
	return st.ContainerID
}

package podprobe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// livenessMarker takes the place of a PodProbeMarker in the names of liveness probes. No PodProbeMarker can have this name.
const livenessMarker = "EnhancedLivenessProbe"

// LivenessProbe is the liveness probe of a container as stored in annotation keys.ContainerProbeContext.
type LivenessProbe struct {
	// Name is the container's name.
	Name string `json:"name"`
	// LivenessProbe is the probe to run.
	LivenessProbe corev1.Probe `json:"livenessProbe"`
}

// AsksForLiveness reports whether a pod has liveness probes for the node daemon to run: it has the annotation that lists them, and its workload
// is one of ownership.PodWorkloads, which are the kinds of OpenKruise.
func AsksForLiveness(pod *corev1.Pod) bool {
	return pod.Annotations[keys.ContainerProbeContext] != "" && ownership.OfPodWorkload(pod)
}

// Liveness returns the liveness probes of a pod that the node daemon runs, one per container, with the defaults of Kubernetes; empty if the pod
// doesn't request that. An error means that the annotation can't be parsed.
func Liveness(pod *corev1.Pod) ([]LivenessProbe, error) {
	if !AsksForLiveness(pod) {
		return nil, nil
	}
	var all []LivenessProbe
	if err := json.Unmarshal([]byte(pod.Annotations[keys.ContainerProbeContext]), &all); err != nil {
		return nil, fmt.Errorf("annotation %s is not readable, so none of its liveness probes is run: %w: "+
			`set a list of {"name","livenessProbe"}, or re-create the pod`, keys.ContainerProbeContext, err)
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

// LivenessName is the name of a container's liveness probe in a NodePodProbe. It identifies the running instance of the container, so that
// results from an earlier instance, or from before it had started up, are never attributed to it.
func LivenessName(container, id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		id = bare
	}
	return Name(livenessMarker, container+"/"+id)
}

// Started returns the ID of a container that is running and has started up: its startup probe, if it has one, has succeeded. Liveness probes
// only count for such a container. The ID is empty for all others.
func Started(pod *corev1.Pod, container string) string {
	st := inplace.Status(pod, container)
	if st == nil || st.State.Running == nil || st.Started == nil || !*st.Started {
		return ""
	}
	return st.ContainerID
}

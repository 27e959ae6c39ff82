package probedpod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// planned is what has to be written to a pod.
type planned struct {
	// conditions holds the conditions to write.
	conditions []podpatch.Condition
	// labels and annotations are to be set. A nil value removes the key.
	labels, annotations map[string]*string
}

// result is the result of one probe.
type result struct {
	probe *appsv1alpha1.PodContainerProbe
	appsv1alpha1.ContainerProbeState
}

// plan is a pure function of what was observed. now is used for results without a time.
func plan(o observed, now time.Time) planned {
	all := resultsOf(o)
	p := planned{labels: map[string]*string{}, annotations: map[string]*string{}}
	written := map[string]bool{}
	for i := range all {
		if t := all[i].probe.PodConditionType; t != "" && !written[t] && !o.serverless {
			written[t] = true
			p.addCondition(o.pod, corev1.PodConditionType(t), &all[i].ContainerProbeState, now)
		}
	}
	// What one result sets, no other result changes or removes.
	for _, holds := range []bool{true, false} {
		for i := range all {
			for j := range all[i].probe.MarkerPolicy {
				policy := &all[i].probe.MarkerPolicy[j]
				if (policy.State == all[i].State) == holds {
					addChanges(p.labels, policy.Labels, holds)
					addChanges(p.annotations, policy.Annotations, holds)
				}
			}
		}
	}
	dropUnchanged(p.labels, o.pod.Labels)
	dropUnchanged(p.annotations, o.pod.Annotations)
	return p
}

// resultsOf returns the available probe results, with those of the oldest PodProbeMarker first.
func resultsOf(o observed) []result {
	var out []result
	for _, m := range o.markers {
		for i := range m.Spec.Probes {
			probe := &m.Spec.Probes[i]
			if o.serverless {
				if c := podpatch.Find(o.pod, corev1.PodConditionType(probe.PodConditionType)); c != nil && probe.PodConditionType != "" {
					out = append(out, result{probe, appsv1alpha1.ContainerProbeState{State: stateOf(c.Status)}})
				}
				continue
			}
			if s := podprobe.State(o.results, podprobe.Name(m.Name, probe.Name)); s != nil && s.State != "" {
				out = append(out, result{probe, *s})
			}
		}
	}
	return out
}

// stateOf converts the status of a condition written by an agent.
func stateOf(s corev1.ConditionStatus) appsv1alpha1.ProbeState {
	switch s {
	case corev1.ConditionTrue:
		return appsv1alpha1.ProbeSucceeded
	case corev1.ConditionFalse:
		return appsv1alpha1.ProbeFailed
	case corev1.ConditionUnknown:
	}
	return appsv1alpha1.ProbeUnknown
}

// addCondition adds the condition for a result, unless the pod already has it. A different probe time alone doesn't cause a write.
func (p *planned) addCondition(pod *corev1.Pod, t corev1.PodConditionType, s *appsv1alpha1.ContainerProbeState, now time.Time) {
	status := corev1.ConditionFalse
	if s.State == appsv1alpha1.ProbeSucceeded {
		status = corev1.ConditionTrue
	}
	before := podpatch.Find(pod, t)
	if before != nil && before.Status == status && before.Message == s.Message {
		return
	}
	c := podpatch.Condition{Type: t, Status: status}
	if s.Message != "" {
		c.Message = &s.Message
	}
	if !s.LastProbeTime.IsZero() {
		c.LastProbeTime = &s.LastProbeTime
	}
	switch {
	case before != nil && before.Status == status:
		c.LastTransitionTime = before.LastTransitionTime
	case !s.LastTransitionTime.IsZero():
		c.LastTransitionTime = s.LastTransitionTime
	default:
		c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	}
	p.conditions = append(p.conditions, c)
}

// addChanges adds what a policy sets or removes to changes, except for keys that are already there.
func addChanges(changes map[string]*string, metadata map[string]string, set bool) {
	for key, value := range metadata {
		switch _, taken := changes[key]; {
		case taken:
		case set:
			changes[key] = &value
		default:
			changes[key] = nil
		}
	}
}

// dropUnchanged removes changes that have no effect.
func dropUnchanged(changes map[string]*string, have map[string]string) {
	for key, value := range changes {
		if current, has := have[key]; value == nil && !has || value != nil && has && current == *value {
			delete(changes, key)
		}
	}
}

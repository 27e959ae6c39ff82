package podprobemarker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// step returns the step of the pod webhook.
func step() podwebhook.Step {
	return podwebhook.Step{
		Feature: kind, Order: podwebhook.OrderPodProbeMarker, Gate: feature.PodProbeMarkerOnServerless,
		Object: &appsv1alpha1.PodProbeMarker{}, List: &appsv1alpha1.PodProbeMarkerList{},
		Observe: func(ctx context.Context, cache client.Reader, pod *corev1.Pod) (podwebhook.Facts, error) {
			all, err := podprobe.ListMarkers(ctx, cache, pod.Namespace)
			if err != nil {
				return nil, err
			}
			return facts(all), nil
		},
	}
}

// facts holds the PodProbeMarkers of the pod's namespace. The pod's labels may come from an earlier step.
type facts podprobe.Markers

// serverlessProbe is an element of the annotation. Marker policies are left out: the agent only writes conditions.
type serverlessProbe struct {
	Name             string       `json:"name"`
	ContainerName    string       `json:"containerName"`
	Probe            corev1.Probe `json:"probe"`
	PodConditionType string       `json:"podConditionType,omitempty"`
}

// Change implements podwebhook.Facts.
func (f facts) Change(pod *corev1.Pod) string {
	var probes []serverlessProbe
	var names []string
	type probe struct{ container, name string }
	taken, conditions := map[probe]bool{}, map[string]bool{}
	for _, m := range podprobe.Markers(f).Of(pod) {
		had := len(probes)
		for i := range m.Spec.Probes {
			p := &m.Spec.Probes[i]
			key := probe{p.ContainerName, p.Name}
			if p.PodConditionType == "" || inplace.Container(&pod.Spec, p.ContainerName) == nil || taken[key] || conditions[p.PodConditionType] {
				continue
			}
			taken[key], conditions[p.PodConditionType] = true, true
			probes = append(probes, serverlessProbe{p.Name, p.ContainerName, p.Probe, p.PodConditionType})
		}
		if len(probes) > had {
			names = append(names, m.Name)
		}
	}
	if len(probes) == 0 {
		return "no PodProbeMarker has a probe with a condition for it"
	}
	text, err := json.Marshal(probes)
	if err != nil { // Marshaling can't fail.
		return fmt.Sprintf("its probes can't be written: %v", err)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[keys.PodProbes], pod.Annotations[keys.PodProbeMarkers] = string(text), strings.Join(names, ",")
	return "the agent of a virtual node probes it for " + strings.Join(names, ", ")
}

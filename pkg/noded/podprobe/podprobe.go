// Package podprobe contains the parts of PodProbeMarker probes and liveness probes that the manager and the node daemon share: how an entry of a
// NodePodProbe is named and found, and how results are reported. Everything is pure except ListMarkers.
//
// Only the manager writes the spec of a NodePodProbe, and only the daemon on its node writes the status. So each writes its part as a whole
// without giving a resourceVersion, and no write of one conflicts with the other.
package podprobe

import (
	"strings"
	"time"
	"unicode/utf8"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
)

const (
	// ReportInterval is how long to wait before an unchanged result is reported again.
	ReportInterval = 10 * time.Minute
	// MaxMessage is the maximum length of a message in bytes.
	MaxMessage = 1024
	// MaxProbe is the maximum size of a probe in bytes, in protobuf encoding.
	MaxProbe = 8 << 10
	// MaxProbes is the maximum number of probes in a PodProbeMarker.
	MaxProbes = 20
	// MaxTimeout is the maximum duration of one attempt of a probe.
	MaxTimeout = time.Minute

	separator = "#"
)

// Name returns the name of a PodProbeMarker's probe in a NodePodProbe. It is unique within a pod.
func Name(marker, probe string) string { return marker + separator + probe }

// Marker returns the PodProbeMarker from the name of a probe in a NodePodProbe; empty if the name isn't of that form or belongs to a liveness
// probe.
func Marker(name string) string {
	marker, _, ok := strings.Cut(name, separator)
	if !ok || marker == livenessMarker {
		return ""
	}
	return marker
}

// Find returns the probes for a pod, or nil. The result points into the NodePodProbe.
func Find(n *appsv1alpha1.NodePodProbe, pod types.UID) *appsv1alpha1.PodProbe {
	for i := range n.Spec.PodProbes {
		if n.Spec.PodProbes[i].UID == pod {
			return &n.Spec.PodProbes[i]
		}
	}
	return nil
}

// Results returns the results of a pod's probes, or nil. The result points into the NodePodProbe.
func Results(n *appsv1alpha1.NodePodProbe, pod types.UID) *appsv1alpha1.PodProbeStatus {
	for i := range n.Status.PodProbeStatuses {
		if n.Status.PodProbeStatuses[i].UID == pod {
			return &n.Status.PodProbeStatuses[i]
		}
	}
	return nil
}

// State returns the result of one probe of a pod, or nil. of may be nil.
func State(pod *appsv1alpha1.PodProbeStatus, name string) *appsv1alpha1.ContainerProbeState {
	if pod == nil {
		return nil
	}
	for i := range pod.ProbeStates {
		if pod.ProbeStates[i].Name == name {
			return &pod.ProbeStates[i]
		}
	}
	return nil
}

// Changed returns the pods whose results have changed. was may be nil.
func Changed(oldObject, newObject client.Object) []types.NamespacedName {
	before, _ := oldObject.(*appsv1alpha1.NodePodProbe)
	after, ok := newObject.(*appsv1alpha1.NodePodProbe)
	if !ok {
		return nil
	}
	var out []types.NamespacedName
	for i := range after.Status.PodProbeStatuses {
		pod := &after.Status.PodProbeStatuses[i]
		if before == nil || !apiequality.Semantic.DeepEqual(Results(before, pod.UID), pod) {
			out = append(out, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	return out
}

// Key identifies a probe on a node.
type Key struct {
	// Pod is the UID of the pod.
	Pod types.UID
	// Name is the name of the probe in the NodePodProbe.
	Name string
}

// Result is the result of a probe.
type Result struct {
	State   appsv1alpha1.ProbeState
	Message string
	// At is the time of the result.
	At time.Time
}

// Report returns the status of a NodePodProbe including results, and whether it has to be written. A probe without a new result keeps the one in
// the status. Results for probes that are no longer in the spec are dropped. An unchanged result is only written again after ReportInterval.
func Report(n *appsv1alpha1.NodePodProbe, results map[Key]Result) (appsv1alpha1.NodePodProbeStatus, bool) {
	var s appsv1alpha1.NodePodProbeStatus
	for i := range n.Spec.PodProbes {
		pod := &n.Spec.PodProbes[i]
		old := Results(n, pod.UID)
		current := appsv1alpha1.PodProbeStatus{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}
		for j := range pod.Probes {
			name := pod.Probes[j].Name
			before := State(old, name)
			r, found := results[Key{Pod: pod.UID, Name: name}]
			switch {
			case found:
				current.ProbeStates = append(current.ProbeStates, merge(before, name, r))
			case before != nil:
				current.ProbeStates = append(current.ProbeStates, *before)
			}
		}
		if len(current.ProbeStates) > 0 {
			s.PodProbeStatuses = append(s.PodProbeStatuses, current)
		}
	}
	return s, !apiequality.Semantic.DeepEqual(s, n.Status)
}

// merge returns the state of a probe after a result. before may be nil.
func merge(before *appsv1alpha1.ContainerProbeState, name string, r Result) appsv1alpha1.ContainerProbeState {
	at := metav1.NewTime(r.At).Rfc3339Copy()
	next := appsv1alpha1.ContainerProbeState{
		Name: name, State: r.State, Message: Message(r.Message), LastProbeTime: at, LastTransitionTime: at,
	}
	if before == nil || before.State != next.State {
		return next
	}
	if before.Message == next.Message && at.Sub(before.LastProbeTime.Time) < ReportInterval {
		return *before
	}
	next.LastTransitionTime = before.LastTransitionTime
	return next
}

// Message returns a message in the form stored in a status: valid UTF-8 of at most MaxMessage bytes.
func Message(m string) string {
	m = strings.ToValidUTF8(m, "\uFFFD")
	if len(m) <= MaxMessage {
		return m
	}
	end := MaxMessage
	for end > 0 && !utf8.RuneStart(m[end]) {
		end--
	}
	return m[:end]
}

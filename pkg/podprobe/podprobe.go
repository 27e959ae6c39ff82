// Package podprobe has what the manager and the node daemon share about probes of PodProbeMarkers and liveness probes: how an entry of a
// NodePodProbe is named and found, and how results are reported. All of it is pure but ListMarkers.
//
// The manager writes the spec of a NodePodProbe and nobody else does; the daemon of its node writes the status and nobody else does.
// So either writes its own part as a whole without naming the version that it has read, and no write of one is refused because of the
// other.
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
	// ReportInterval is after which time a result is reported again that has not changed.
	ReportInterval = 10 * time.Minute
	// MaxMessage is the length of a message in bytes, at most.
	MaxMessage = 1024
	// MaxProbe is how many bytes a probe may take, in the encoding of protobuf.
	MaxProbe = 8 << 10
	// MaxProbes is how many probes a PodProbeMarker may have.
	MaxProbes = 20
	// MaxTimeout is how long one attempt of a probe takes at most.
	MaxTimeout = time.Minute

	separator = "#"
)

// Name is the name that the probe of a PodProbeMarker has in a NodePodProbe. In a pod there is one probe of a name.
func Name(marker, probe string) string { return marker + separator + probe }

// Marker is the PodProbeMarker of a probe in a NodePodProbe; empty if its name is no such name, or that of a liveness probe.
func Marker(name string) string {
	marker, _, ok := strings.Cut(name, separator)
	if !ok || marker == livenessMarker {
		return ""
	}
	return marker
}

// Find returns what is probed in a pod, nil if nothing is. It is the NodePodProbe's own.
func Find(n *appsv1alpha1.NodePodProbe, pod types.UID) *appsv1alpha1.PodProbe {
	for i := range n.Spec.PodProbes {
		if n.Spec.PodProbes[i].UID == pod {
			return &n.Spec.PodProbes[i]
		}
	}
	return nil
}

// Results returns what the probes of a pod have found, nil if there is nothing. It is the NodePodProbe's own.
func Results(n *appsv1alpha1.NodePodProbe, pod types.UID) *appsv1alpha1.PodProbeStatus {
	for i := range n.Status.PodProbeStatuses {
		if n.Status.PodProbeStatuses[i].UID == pod {
			return &n.Status.PodProbeStatuses[i]
		}
	}
	return nil
}

// State returns what a probe of a pod has found, nil if nothing. of may be nil.
func State(of *appsv1alpha1.PodProbeStatus, name string) *appsv1alpha1.ContainerProbeState {
	if of == nil {
		return nil
	}
	for i := range of.ProbeStates {
		if of.ProbeStates[i].Name == name {
			return &of.ProbeStates[i]
		}
	}
	return nil
}

// Changed returns the pods that have other results now. was may be nil.
func Changed(was, is client.Object) []types.NamespacedName {
	before, _ := was.(*appsv1alpha1.NodePodProbe)
	after, ok := is.(*appsv1alpha1.NodePodProbe)
	if !ok {
		return nil
	}
	var out []types.NamespacedName
	for i := range after.Status.PodProbeStatuses {
		of := &after.Status.PodProbeStatuses[i]
		if before == nil || !apiequality.Semantic.DeepEqual(Results(before, of.UID), of) {
			out = append(out, types.NamespacedName{Namespace: of.Namespace, Name: of.Name})
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

// Result is what a probe has found.
type Result struct {
	State   appsv1alpha1.ProbeState
	Message string
	// At is when it was found.
	At time.Time
}

// Report returns the status of a NodePodProbe with results, and whether it has to be written. A probe without a result keeps the one
// that it has in the status. What the spec does not have any more is dropped. A result that has not changed is only written again after
// ReportInterval.
func Report(n *appsv1alpha1.NodePodProbe, results map[Key]Result) (appsv1alpha1.NodePodProbeStatus, bool) {
	var s appsv1alpha1.NodePodProbeStatus
	for i := range n.Spec.PodProbes {
		pod := &n.Spec.PodProbes[i]
		was := Results(n, pod.UID)
		is := appsv1alpha1.PodProbeStatus{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}
		for j := range pod.Probes {
			name := pod.Probes[j].Name
			before := State(was, name)
			r, found := results[Key{Pod: pod.UID, Name: name}]
			switch {
			case found:
				is.ProbeStates = append(is.ProbeStates, merge(before, name, r))
			case before != nil:
				is.ProbeStates = append(is.ProbeStates, *before)
			}
		}
		if len(is.ProbeStates) > 0 {
			s.PodProbeStatuses = append(s.PodProbeStatuses, is)
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

// Message is what a status says of a message: valid UTF-8 of at most MaxMessage bytes.
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

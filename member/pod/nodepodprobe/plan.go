package nodepodprobe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// planned is the next write. The zero value means no write.
type planned struct {
	// step and reason identify the write.
	step, reason string
	// podProbes is the new spec, for stepCreate and stepWrite.
	podProbes []appsv1alpha1.PodProbe
	// pods and markers are the objects that the cache lacks and whose probes the write drops.
	pods    []appsv1alpha1.PodProbe
	markers []types.NamespacedName
	// left holds a reason for each probe that is left out. excess holds those that would take too much space.
	left   []string
	excess []excess
}

// plan is a pure function of what was observed.
func plan(o observed) planned {
	var p planned
	switch {
	case o.probe != nil && o.probe.DeletionTimestamp != nil:
		return p // It is created again once it is gone.
	case o.node == nil:
		if o.probe != nil {
			p.step, p.reason = stepRemove, reasonNode
		}
		return p
	case !nodefit.Virtual(o.node) && o.node.DeletionTimestamp == nil:
		var all []candidate
		for _, pod := range o.pods {
			if !podprobe.Due(pod) || pod.Status.PodIP == "" {
				continue
			}
			all = append(all, p.probesOf(pod, o.markers[pod.Namespace])...)
			if o.liveness {
				all = append(all, p.livenessOf(pod)...)
			}
		}
		p.podProbes, p.excess = fitLimits(all)
	}
	sortProbes(p.podProbes)
	switch {
	case o.probe == nil:
		if len(p.podProbes) > 0 {
			p.step, p.reason = stepCreate, reasonProbes
		}
	case equivalent(p.podProbes, o.probe.Spec.PodProbes):
		p.podProbes = nil
	default:
		p.step, p.reason = stepWrite, reasonProbes
		p.recordMissing(o)
	}
	return p
}

// probesOf returns the probes that PodProbeMarkers define for a pod. It leaves out probes for which the pod has no container or port.
func (p *planned) probesOf(pod *corev1.Pod, markers podprobe.Markers) []candidate {
	var out []candidate
	for age, m := range markers.Of(pod) {
		for i := range m.Spec.Probes {
			defined := &m.Spec.Probes[i]
			c := inplace.Container(&pod.Spec, defined.ContainerName)
			if c == nil {
				p.left = append(p.left, reasonContainer)
				continue
			}
			if probe := p.resolvePorts(&defined.Probe, c); probe != nil {
				out = append(out, candidate{pod, m, age + 1, appsv1alpha1.ContainerProbe{
					Name: podprobe.Name(m.Name, defined.Name), ContainerName: defined.ContainerName, Probe: *probe,
				}})
			}
		}
	}
	return out
}

// livenessOf returns the liveness probes of the containers that have started up. When a container is replaced, its probe gets another name,
// and so starts over.
func (p *planned) livenessOf(pod *corev1.Pod) []candidate {
	all, err := podprobe.Liveness(pod)
	if err != nil {
		p.left = append(p.left, reasonUnreadable)
		return nil
	}
	var out []candidate
	for i := range all {
		c, id := recreate.Container(pod, all[i].Name), podprobe.Started(pod, all[i].Name)
		switch {
		case c == nil:
			p.left = append(p.left, reasonContainer)
		case id != "":
			if probe := p.resolvePorts(&all[i].LivenessProbe, c); probe != nil {
				out = append(out, candidate{pod: pod, probe: appsv1alpha1.ContainerProbe{
					Name: podprobe.LivenessName(c.Name, id), ContainerName: c.Name, Probe: *probe,
				}})
			}
		}
	}
	return out
}

// resolvePorts returns a copy of a probe with port names replaced by numbers, or nil if a port doesn't exist.
func (p *planned) resolvePorts(defined *corev1.Probe, c *corev1.Container) *corev1.Probe {
	probe := defined.DeepCopy()
	if probe.HTTPGet != nil && !resolvePort(&probe.HTTPGet.Port, c) || probe.TCPSocket != nil && !resolvePort(&probe.TCPSocket.Port, c) {
		p.left = append(p.left, reasonPort)
		return nil
	}
	return probe
}

// resolvePort replaces the name of a port with its number.
func resolvePort(port *intstr.IntOrString, c *corev1.Container) bool {
	if port.Type == intstr.Int {
		return true
	}
	for i := range c.Ports {
		if c.Ports[i].Name == port.StrVal {
			*port = intstr.FromInt32(c.Ports[i].ContainerPort)
			return true
		}
	}
	return false
}

// recordMissing records the objects that the cache lacks and whose probes are dropped.
func (p *planned) recordMissing(o observed) {
	here := map[types.UID]bool{}
	for _, pod := range o.pods {
		here[pod.UID] = true
	}
	there := map[types.NamespacedName]bool{}
	for namespace, markers := range o.markers {
		for i := range markers {
			there[types.NamespacedName{Namespace: namespace, Name: markers[i].Name}] = true
		}
	}
	for i := range o.probe.Spec.PodProbes {
		pod := &o.probe.Spec.PodProbes[i]
		if !here[pod.UID] {
			p.pods = append(p.pods, *pod)
			continue
		}
		for j := range pod.Probes {
			key := types.NamespacedName{Namespace: pod.Namespace, Name: podprobe.Marker(pod.Probes[j].Name)}
			if key.Name != "" && !there[key] {
				there[key] = true // Record each only once.
				p.markers = append(p.markers, key)
			}
		}
	}
}

// equivalent reports whether two lists are equivalent. ours is sorted. theirs may have been written by OpenKruise.
func equivalent(ours, theirs []appsv1alpha1.PodProbe) bool {
	if len(ours) != len(theirs) {
		return false
	}
	theirs = slices.Clone(theirs)
	for i := range theirs {
		theirs[i].Probes = slices.Clone(theirs[i].Probes)
	}
	sortProbes(theirs)
	return apiequality.Semantic.DeepEqual(ours, theirs)
}

// sortProbes sorts a list, and the probes in it.
func sortProbes(list []appsv1alpha1.PodProbe) {
	slices.SortFunc(list, func(a, b appsv1alpha1.PodProbe) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(string(a.UID), string(b.UID))
	})
	for i := range list {
		slices.SortFunc(list[i].Probes, func(a, b appsv1alpha1.ContainerProbe) int { return strings.Compare(a.Name, b.Name) })
	}
}

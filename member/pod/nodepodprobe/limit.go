package nodepodprobe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
)

// All pods of a node share its NodePodProbe. If it gets too large, the write is rejected, and no pod's changes get through.
const (
	// maxNode is how many bytes all probes of a node and their results may take. etcd accepts objects of up to 1.5 MiB.
	maxNode = 1200 << 10
	// maxPod is the same limit for one pod.
	maxPod = 64 << 10
	// podBytes and stateBytes are the maximum sizes of a pod's entry and of a probe result, not counting the names of probes.
	podBytes   = 1024
	stateBytes = podprobe.MaxMessage + 256
)

// candidate is a probe that a pod should have.
type candidate struct {
	pod *corev1.Pod
	// marker is the PodProbeMarker, or nil for a liveness probe. age is its rank by age in the namespace. Liveness probes come first.
	marker *appsv1alpha1.PodProbeMarker
	age    int
	probe  appsv1alpha1.ContainerProbe
}

// size returns the maximum size in bytes of a probe and its result.
func (c *candidate) size() int {
	text, err := json.Marshal(&c.probe)
	if err != nil { // Marshaling can't fail.
		return maxNode
	}
	return len(text) + len(c.probe.Name) + stateBytes
}

// requester returns the object that requests the probe.
func (c *candidate) requester() client.Object {
	if c.marker != nil {
		return c.marker
	}
	return c.pod
}

// excess is an object some of whose probes are left out, and how many.
type excess struct {
	object client.Object
	probes int
}

// fitLimits drops the probes that exceed the limit of their pod, or of their namespace on the node. The youngest PodProbeMarkers lose first.
// The node's limit is shared fairly: a namespace gets less than it asks for only if no namespace gets more.
func fitLimits(all []candidate) ([]appsv1alpha1.PodProbe, []excess) {
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.age, b.age), strings.Compare(a.pod.Namespace, b.pod.Namespace), strings.Compare(a.pod.Name, b.pod.Name),
			strings.Compare(string(a.pod.UID), string(b.pod.UID)), strings.Compare(a.probe.Name, b.probe.Name))
	})
	var left []excess
	leave := func(c *candidate) {
		i := slices.IndexFunc(left, func(e excess) bool { return e.object.GetUID() == c.requester().GetUID() })
		if i < 0 {
			i, left = len(left), append(left, excess{object: c.requester()})
		}
		left[i].probes++
	}
	ofPod, ofNamespace := map[types.UID]int{}, map[string]int{}
	sizes, fit := make([]int, 0, len(all)), make([]candidate, 0, len(all))
	for i := range all {
		c := &all[i]
		size := c.size()
		if ofPod[c.pod.UID] == 0 {
			size += podBytes
		}
		if c.probe.Probe.Size() > podprobe.MaxProbe || ofPod[c.pod.UID]+size > maxPod {
			leave(c)
			continue
		}
		ofPod[c.pod.UID] += size
		ofNamespace[c.pod.Namespace] += size
		sizes, fit = append(sizes, size), append(fit, *c)
	}
	most := fairShare(slices.Collect(maps.Values(ofNamespace)))
	clear(ofNamespace)
	var probes []appsv1alpha1.PodProbe
	at := map[types.UID]int{}
	for i := range fit {
		c := &fit[i]
		if ofNamespace[c.pod.Namespace]+sizes[i] > most {
			leave(c)
			continue
		}
		ofNamespace[c.pod.Namespace] += sizes[i]
		n, has := at[c.pod.UID]
		if !has {
			n, at[c.pod.UID] = len(probes), len(probes)
			probes = append(probes, appsv1alpha1.PodProbe{Name: c.pod.Name, Namespace: c.pod.Namespace, UID: c.pod.UID, IP: c.pod.Status.PodIP})
		}
		probes[n].Probes = append(probes[n].Probes, c.probe)
	}
	slices.SortFunc(left, func(a, b excess) int {
		return cmp.Or(strings.Compare(a.object.GetNamespace(), b.object.GetNamespace()), strings.Compare(a.object.GetName(), b.object.GetName()),
			strings.Compare(string(a.object.GetUID()), string(b.object.GetUID())))
	})
	return probes, left
}

// fairShare returns the maximum for each, given what all ask for, so that together they get at most maxNode.
func fairShare(wanted []int) int {
	slices.Sort(wanted)
	left := maxNode
	for i, n := range wanted {
		if each := left / (len(wanted) - i); n > each {
			return each
		}
		left -= n
	}
	return maxNode
}

// note says why probes are left out, and what to do about it.
func (e excess) note(node string) string {
	return fmt.Sprintf("%d of its probes are not run on node %s, because they are too large: a probe may take %d KiB, the probes of a pod with their "+
		"results %d KiB, and those of a namespace its share of the node's %d KiB. Put commands into a script in the image, or use fewer probes",
		e.probes, node, podprobe.MaxProbe>>10, maxPod>>10, maxNode>>10)
}

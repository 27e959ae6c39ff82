package sidecarset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// planned is the outcome of planning: what to do, and what was found.
type planned struct {
	// revision makes the current revision the newest. toRelabel is that revision if it needs another customVersion, otherwise nil.
	revision  revision.Step
	toRelabel *appsv1.ControllerRevision
	// surplus holds the revisions to delete.
	surplus []*appsv1.ControllerRevision
	// matched, updated, ready and updatedReady count the pods that have the sidecars.
	matched, updated, ready, updatedReady int32
	// uninjected groups the selected pods without sidecars by reason.
	uninjected []uninjectedPods
	// updates holds the writes to pods that have the sidecars.
	updates updates
}

// uninjectedPods groups the pods that lack the sidecars for one reason.
type uninjectedPods struct {
	why   string
	count int
	// first is the name of the first such pod.
	first string
}

// plan plans a reconcile.
func plan(o observed, now time.Time) planned {
	p := planned{revision: revision.Next(o.history, o.wanted)}
	o.latestRevision = p.revision.Revision
	if v := o.set.Spec.CustomVersion; p.revision.Change != revision.Create && v != "" && p.revision.Revision.Labels[keys.SidecarSetCustomVersion] != v {
		p.toRelabel = p.revision.Revision
	}
	p.surplus = revision.Surplus(o.history, o.inUse(p.revision.Revision), historyLimit(o.set))
	reasons := map[string]*uninjectedPods{}
	hash := o.hash()
	var matched []*corev1.Pod
	for _, pod := range o.pods {
		if why := o.whyNotInjected(pod); why != "" {
			if reasons[why] == nil {
				reasons[why] = &uninjectedPods{why: why, first: namespacedName(pod)}
			}
			reasons[why].count++
			continue
		}
		// Until the kubelet acts on an update, the pod is still ready with its previous containers.
		isReady, isUpdated := sidecarsReady(o.set, pod) && o.stateOf(pod).done, o.stateOf(pod).record.Hash == hash
		matched = append(matched, pod)
		p.matched++
		countIf(&p.updated, isUpdated)
		countIf(&p.ready, isReady)
		countIf(&p.updatedReady, isUpdated && isReady)
	}
	p.updates = o.planUpdates(matched, now)
	for _, a := range reasons {
		p.uninjected = append(p.uninjected, *a)
	}
	slices.SortFunc(p.uninjected, func(a, b uninjectedPods) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.first, b.first))
	})
	return p
}

func countIf(n *int32, condition bool) {
	if condition {
		*n++
	}
}

// hash returns the hash of the current sidecars.
func (o *observed) hash() string { return o.set.Annotations[keys.SidecarSetHash] }

// historyLimit returns how many unused revisions to keep besides the current one, which counts towards the limit.
func historyLimit(s *appsv1beta1.SidecarSet) int {
	return max(int(ptr.Deref(s.Spec.RevisionHistoryLimit, defaultHistoryLimit))-1, 0)
}

// inUse returns a function that reports whether a revision is in use: the current one, those that new pods get, and those that pods have.
func (o *observed) inUse(latest *appsv1.ControllerRevision) func(*appsv1.ControllerRevision) bool {
	names, hashes := map[string]bool{latest.Name: true}, map[string]bool{}
	if by := o.set.Spec.InjectionStrategy.Revision; by != nil {
		if r := findRevision(o.history, by); r != nil {
			names[r.Name] = true
		}
	}
	for _, pod := range o.pods {
		if state := o.stateOf(pod); state.hasRecord {
			names[state.record.ControllerRevision], hashes[state.record.Hash] = true, true // Pods older than the first revision name no revision.
		}
	}
	return func(r *appsv1.ControllerRevision) bool {
		return names[r.Name] || hashes[r.Annotations[keys.SidecarSetHash]]
	}
}

// whyNotInjected returns why a selected pod has no sidecars, as a clause about the pod. It is empty if the pod has them.
func (o *observed) whyNotInjected(pod *corev1.Pod) string {
	if slices.Contains(injectedIn(pod), o.set.Name) {
		if name := missingContainer(o.set, pod); name != "" {
			return fmt.Sprintf("container %s of the SidecarSet is missing", name)
		}
		return ""
	}
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return "it is a static pod"
	}
	if i := slices.IndexFunc(o.canaries, func(c *appsv1beta1.SidecarSet) bool { return slices.Contains(injectedIn(pod), c.Name) }); i >= 0 {
		return "canary " + o.canaries[i].Name + " replaces the SidecarSet"
	}
	if why := o.notSent[pod.Namespace]; why != "" {
		return why
	}
	if pod.CreationTimestamp.Before(&o.set.CreationTimestamp) {
		return "it is older than the SidecarSet, and pods get sidecars only when they are created"
	}
	for _, name := range resolveNames(injection{set: o.set, spec: &o.set.Spec}).containers {
		if c := containerOf(pod, name); c != nil {
			return "it has a container " + name + " of its own: rename one of them"
		}
	}
	if o.set.Spec.InjectionStrategy.Paused {
		return "injection is paused (spec.injectionStrategy.paused)"
	}
	return "it got none when it was created: kubectl kruise explain pod shows what it would get now"
}

// missingContainer returns the first container of a SidecarSet that a pod lacks, or "" if the pod has all of them.
func missingContainer(s *appsv1beta1.SidecarSet, pod *corev1.Pod) string {
	for _, name := range updatableNames(&s.Spec) {
		names := []string{name}
		if isHotSidecar(s, name) {
			if workingIn(pod)[name] == "" {
				return name
			}
			names = []string{firstContainer(name), secondContainer(name)}
		}
		for _, n := range names {
			if containerOf(pod, n) == nil {
				return n
			}
		}
	}
	return ""
}

// isHotSidecar reports whether a sidecar consists of two containers.
func isHotSidecar(s *appsv1beta1.SidecarSet, name string) bool {
	for _, list := range containerLists(&s.Spec) {
		if slices.ContainsFunc(list, func(c appsv1beta1.SidecarContainer) bool { return c.Name == name && isHot(&c) }) {
			return true
		}
	}
	return false
}

// containerOf returns the container or init container with that name, or nil.
func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	b := containerBuilder{pod: pod}
	return b.container(name)
}

// sidecarsReady reports whether a pod is ready and no sidecar is handing over between its two containers.
func sidecarsReady(s *appsv1beta1.SidecarSet, pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning || !podpatch.Ready(pod) {
		return false
	}
	for _, list := range containerLists(&s.Spec) {
		for i := range list {
			if !isHot(&list[i]) {
				continue
			}
			if replaced := peer(list[i].Name, workingIn(pod)[list[i].Name]); pod.Annotations[keys.SidecarSetVersionPrefix+replaced] != idle {
				return false
			}
		}
	}
	return true
}

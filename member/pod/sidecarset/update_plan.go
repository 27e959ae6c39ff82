package sidecarset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// idle is the version of the container that is not in use, for a sidecar with HotUpgrade.
const idle = "0"

// webhookLag is how far a webhook's cache is assumed to be behind, at most.
const webhookLag = time.Minute

// notSelected is why updateStrategy.selector leaves a pod at its revision.
const notSelected = "updateStrategy.selector does not select it"

// write is one request to change a pod.
type write struct {
	pod         *corev1.Pod
	subresource string
	body        podpatch.Body
	// why is a sentence that includes the numbers.
	why string
}

// updates holds what an in-place update writes now, and what has to wait.
type updates struct {
	// images gives pods new images. resets sets containers that a HotUpgrade has replaced to the empty image. recreates asks workloads to
	// recreate pods.
	images, resets, recreates []write
	// markNotUpgradable and markUpgradable set the pod condition SidecarSetUpgradable: to False if a pod can't be updated in place, to True if
	// it can (again).
	markNotUpgradable, markUpgradable []write
	// needRecreate holds the names of the pods that can't be updated in place and are not recreated.
	needRecreate []string
	// unselected counts the older pods that updateStrategy.selector leaves at their revision.
	unselected int
	holds      []rollout.Hold
	// recheck is when to plan again because time alone could change the plan. 0 means never.
	recheck time.Duration
}

// planUpdates plans the update of the pods that have the sidecars.
func (o *observed) planUpdates(matched []*corev1.Pod, now time.Time) updates {
	var out updates
	u := &o.set.Spec.UpdateStrategy
	if u.Type != appsv1beta1.SidecarSetRollingUpdate {
		return out
	}
	byKey := make(map[string]*corev1.Pod, len(matched))
	facts := make([]rollout.Pod, 0, len(matched))
	metadata := make([]rollout.PodMetadata, 0, len(matched))
	for _, pod := range matched {
		needsRecreate := o.needsRecreate(pod)
		waits := needsRecreate && !o.mayRecreate(pod)
		if waits {
			out.needRecreate = append(out.needRecreate, namespacedName(pod))
		}
		reset := o.resetWrite(pod)
		switch w := o.conditionWrite(pod, now); {
		case w == nil, needsRecreate && !waits: // The condition disappears with the pod.
		case !needsRecreate && reset != nil: // Two writes at one resourceVersion would conflict, and this one can wait.
		case needsRecreate:
			out.markNotUpgradable = append(out.markNotUpgradable, *w)
		default:
			out.markUpgradable = append(out.markUpgradable, *w)
		}
		if reset != nil {
			out.resets = append(out.resets, *reset)
		}
		f, changesIn := o.factsOf(pod, now)
		if f.Old && f.NotInPlace == notSelected {
			out.unselected++
		}
		out.recheck = timing.Sooner(out.recheck, changesIn)
		byKey[f.Key] = pod
		facts = append(facts, f)
		metadata = append(metadata, rollout.PodMetadata{Labels: pod.Labels, Annotations: pod.Annotations})
	}
	g := rollout.Goal{Replicas: len(matched), Mode: rollout.InPlaceOnly, Foreign: true, Paused: u.Paused}
	var err, more error
	if u.Selector == nil {
		g.Partition, err = rollout.ResolvePartition(u.Partition, len(matched))
	}
	g.MaxUnavailable, more = rollout.Resolve(u.MaxUnavailable, len(matched), rollout.Up)
	order := rollout.Preference{Priority: u.PriorityStrategy, Scatter: expandScatter(u.ScatterStrategy, matched)}
	if cmp.Or(err, more, order.Apply(facts, metadata)) != nil { // Admission rejects such a strategy.
		return out
	}
	d := rollout.Next(g, facts, now)
	out.holds, out.recheck = d.Holds, timing.Sooner(out.recheck, d.Recheck)
	for _, s := range d.Of(rollout.StepUpdateInPlace) {
		pod := byKey[s.Key]
		if o.needsRecreate(pod) { // factsOf lets the engine treat it like an in-place update, so that it counts in the same budget.
			out.recreates = append(out.recreates, write{pod: pod, body: podpatch.ForDeletion(pod), why: s.Why})
			continue
		}
		w := o.imagesWrite(pod, now)
		w.why = s.Why
		out.images = append(out.images, w)
	}
	return out
}

// expandScatter replaces the value "*" with the values that the pods have.
func expandScatter(terms []pods.UpdateScatterTerm, matched []*corev1.Pod) []pods.UpdateScatterTerm {
	var out []pods.UpdateScatterTerm
	for _, t := range terms {
		if t.Value != "*" {
			out = append(out, t)
			continue
		}
		values := map[string]bool{}
		for _, pod := range matched {
			if v, ok := pod.Labels[t.Key]; ok {
				values[v] = true
			}
		}
		for _, v := range slices.Sorted(maps.Keys(values)) {
			out = append(out, pods.UpdateScatterTerm{Key: t.Key, Value: v})
		}
	}
	return out
}

// factsOf returns what pkg/plan/rollout needs to know about a pod, and when time alone could change that. 0 means never.
func (o *observed) factsOf(pod *corev1.Pod, now time.Time) (f rollout.Pod, changesIn time.Duration) {
	f = rollout.Pod{
		Key: namespacedName(pod), Old: o.stateOf(pod).record.Hash != o.hash(), Ready: sidecarsReady(o.set, pod),
		Rank: podset.View(pod, podset.Rules{}, now).Rank,
	}
	state := o.stateOf(pod)
	// A workload's own update of the pod counts too: until the kubelet acts on it, the pod is still ready with what it ran before. Such a
	// pod is about to go out of service anyway, so it comes before pods that serve.
	workloadUpdate := inplace.Progress(pod, now)
	f.Ready = f.Ready && workloadUpdate.Done && !inplace.ImageChangeUnobserved(pod)
	f.Available = f.Ready && state.done
	if !state.done && (!f.Old || state.serves) { // In an older pod whose outdated containers are down, their restart takes nothing out of service.
		f.Update = rollout.UpdateInProgress
	}
	_, deleting := pod.Labels[keys.SpecifiedDelete]
	switch selector := o.set.Spec.UpdateStrategy.Selector; {
	case o.needsRecreate(pod) && !o.mayRecreate(pod):
		f.NotInPlace = "more than images changed"
	case o.needsRecreate(pod) && deleting: // It stands for its replacement, which gets the current sidecars and is not available yet.
		f.Old, f.Ready, f.Available, f.Update = false, false, false, rollout.UpdateInProgress
	case o.needsRecreate(pod) && o.settledAt(pod).After(now):
		f.NotInPlace, changesIn = "it was just created: the webhook may not have seen the change yet", o.settledAt(pod).Sub(now)
	case selector != nil && !ownership.Selects(selector, pod):
		f.NotInPlace = notSelected
	case !state.done && state.serves:
		f.NotInPlace = "its containers do not run what the last update wrote yet"
	}
	if workloadUpdate.ChangesAt.After(now) {
		changesIn = timing.Sooner(changesIn, workloadUpdate.ChangesAt.Sub(now))
	}
	return f, changesIn
}

// needsRecreate reports whether a pod needs changes other than new images.
func (o *observed) needsRecreate(pod *corev1.Pod) bool {
	return o.stateOf(pod).withoutImage != o.set.Annotations[keys.SidecarSetHashWithoutImage]
}

// mayRecreate reports whether a pod that needs more than new images may be recreated: its workload must be one that does so by its own rules
// when the pod is labelled, and the replacement must be certain to get the current sidecars (draw 0: no chance of another revision).
func (o *observed) mayRecreate(pod *corev1.Pod) bool {
	return o.set.Spec.UpdateStrategy.PodUpdatePolicy == appsv1beta1.SidecarSetInPlaceIfPossible && ownership.OfPodWorkload(pod) &&
		!o.set.Spec.InjectionStrategy.Paused && !wantsRevision(o.set, pod, 0) && len(o.canaries) == 0 && o.notSent[pod.Namespace] == ""
}

// settledAt returns when a pod that is newer than the current revision but has an older one may be recreated: before that, a webhook whose
// cache is behind could give the replacement the older revision too. It returns the zero time for other pods.
func (o *observed) settledAt(pod *corev1.Pod) time.Time {
	if created := &o.latestRevision.CreationTimestamp; created.IsZero() || !created.Before(&pod.CreationTimestamp) { // Zero: not created yet.
		return time.Time{}
	}
	return pod.CreationTimestamp.Add(webhookLag)
}

// ranUpdate reports whether the containers of a pod run what the last in-place update wrote. If they don't, serves reports whether one of
// the outdated containers is still ready.
func ranUpdate(set string, pod *corev1.Pod) (done, serves bool) {
	done = true
	for name, last := range inplace.SidecarStates(pod)[set].LastContainerStatuses {
		c := containerOf(pod, name)
		if c == nil || pod.Annotations[keys.SidecarSetVersionPrefix+name] == idle {
			continue
		}
		st := inplace.Status(pod, name)
		if st == nil {
			done = false
			continue
		}
		if last.ImageID != "" && st.ImageID != "" && st.ImageID != last.ImageID || inplace.SameImage(c.Image, st) {
			continue
		}
		done, serves = false, serves || st.Ready
	}
	return done, serves
}

// imagesWrite returns the write that gives a pod the SidecarSet's images and records the update.
func (o *observed) imagesWrite(pod *corev1.Pod, now time.Time) write {
	next := pod.DeepCopy()
	changed := map[string]string{}
	for c := range updatable(&o.set.Spec) {
		name := c.Name
		if isHot(c) {
			if name = o.handOver(next, c); name == "" {
				continue
			}
		}
		if container := containerOf(pod, name); container != nil && container.Image != c.Image {
			changed[name] = c.Image
		}
	}
	patchAnnotations(next, o.set.Spec.PatchPodMetadata)
	timestamp := metav1.NewTime(now.UTC().Truncate(time.Second))
	for key, hash := range map[string]string{
		keys.SidecarSetHash: o.hash(), keys.SidecarSetHashWithoutImage: o.set.Annotations[keys.SidecarSetHashWithoutImage],
	} {
		all := podRecordsIn(pod, key)
		if all == nil {
			all = map[string]podRecord{}
		}
		entry := podRecord{UpdateTimestamp: timestamp, Hash: hash, SidecarSetName: o.set.Name, SidecarList: updatableNames(&o.set.Spec)}
		if key == keys.SidecarSetHash {
			entry.ControllerRevision = o.latestRevision.Name
		}
		all[o.set.Name] = entry
		annotate(next, key, toJSON(all))
	}
	states := inplace.SidecarStates(pod)
	if states == nil {
		states = map[string]pods.InPlaceUpdateState{}
	}
	state := pods.InPlaceUpdateState{Revision: o.hash(), UpdateTimestamp: timestamp, LastContainerStatuses: map[string]pods.InPlaceContainerStatus{}}
	for name := range changed {
		last := pods.InPlaceContainerStatus{}
		if st := inplace.Status(pod, name); st != nil {
			last.ImageID = st.ImageID
		}
		state.LastContainerStatuses[name] = last
	}
	states[o.set.Name] = state
	annotate(next, keys.SidecarSetInPlaceState, toJSON(states))
	return writeOf(pod, next, changed)
}

// handOver lets one of a sidecar's two containers take over and returns its name. It returns "" if the working one already has the image.
func (o *observed) handOver(next *corev1.Pod, c *appsv1beta1.SidecarContainer) string {
	working := workingIn(next)
	if container := containerOf(next, working[c.Name]); container != nil && container.Image == c.Image {
		return ""
	}
	taking, other := firstContainer(c.Name), secondContainer(c.Name)
	if takesOver(next, other, taking) {
		taking, other = other, taking
	}
	version := o.set.ResourceVersion
	annotate(next, keys.SidecarSetVersionPrefix+taking, version)
	annotate(next, keys.SidecarSetVersionAltPrefix+taking, next.Annotations[keys.SidecarSetVersionPrefix+other])
	annotate(next, keys.SidecarSetVersionAltPrefix+other, version)
	working[c.Name] = taking
	annotate(next, keys.SidecarSetWorking, toJSON(working))
	return taking
}

// takesOver reports whether container a takes over rather than b: the idle one, else the one that is not ready, else the older one.
func takesOver(pod *corev1.Pod, a, b string) bool {
	version := func(name string) string { return pod.Annotations[keys.SidecarSetVersionPrefix+name] }
	serves := func(name string) bool {
		st := inplace.Status(pod, name)
		return st != nil && st.Ready
	}
	switch {
	case version(a) == idle || version(b) == idle:
		return version(a) == idle
	case serves(a) != serves(b):
		return !serves(a)
	}
	x, errX := strconv.ParseUint(version(a), 10, 64)
	y, errY := strconv.ParseUint(version(b), 10, 64)
	return errX != nil || errY == nil && x < y
}

// resetWrite returns the write that sets the replaced containers to the empty image once their replacements are ready, or nil if there is
// nothing to write.
func (o *observed) resetWrite(pod *corev1.Pod) *write {
	changed := map[string]string{}
	for c := range updatable(&o.set.Spec) {
		if !isHot(c) {
			continue
		}
		working := workingIn(pod)[c.Name]
		replaced := peer(c.Name, working)
		if working == "" || pod.Annotations[keys.SidecarSetVersionPrefix+replaced] == idle {
			continue
		}
		if st := inplace.Status(pod, working); !o.stateOf(pod).done || st == nil || !st.Ready {
			continue
		}
		changed[replaced] = c.UpgradeStrategy.HotUpgradeEmptyImage
	}
	if len(changed) == 0 {
		return nil
	}
	next := pod.DeepCopy()
	for replaced := range changed {
		annotate(next, keys.SidecarSetVersionPrefix+replaced, idle)
	}
	w := writeOf(pod, next, changed)
	return &w
}

// peer returns the other container of a sidecar.
func peer(sidecar, container string) string {
	if container == firstContainer(sidecar) {
		return secondContainer(sidecar)
	}
	return firstContainer(sidecar)
}

// writeOf returns the write of the changed annotations and images. It is conditional on the observed resourceVersion, because a workload
// may update the pod too.
func writeOf(pod, next *corev1.Pod, images map[string]string) write {
	b := podpatch.New(pod)
	b.Observed(pod)
	for key, value := range next.Annotations {
		if current, has := pod.Annotations[key]; !has || current != value {
			b.Metadata.Annotations[key] = &value
		}
	}
	b.Spec = inplace.Fields(pod, images, "image")
	return write{pod: pod, body: b}
}

// conditionWrite returns the write of the condition that says whether a pod can be updated in place, or nil if it is up to date. If a pod was
// always updatable, the condition is set only after an in-place update, as in OpenKruise.
func (o *observed) conditionWrite(pod *corev1.Pod, now time.Time) *write {
	current := podpatch.Find(pod, keys.SidecarSetUpgradable)
	entries := map[string]bool{}
	if current != nil && json.Unmarshal([]byte(current.Message), &entries) != nil {
		entries = map[string]bool{}
	}
	before, known := entries[o.set.Name]
	can := !o.needsRecreate(pod)
	if known && before == can || !known && can && !o.updatedInPlace(pod) {
		return nil
	}
	entries[o.set.Name] = can
	status, reason := corev1.ConditionTrue, reasonAllUpgradable
	for _, one := range entries {
		if !one {
			status, reason = corev1.ConditionFalse, reasonImmutable
		}
	}
	b := podpatch.New(pod)
	b.Observed(pod)
	b.Set(pod, keys.SidecarSetUpgradable, status, reason, toJSON(entries), now)
	return &write{pod: pod, subresource: podpatch.Status, body: b}
}

// updatedInPlace reports whether a pod got the current images in place and runs them.
func (o *observed) updatedInPlace(pod *corev1.Pod) bool {
	return inplace.SidecarStates(pod)[o.set.Name].Revision == o.hash() && o.stateOf(pod).done
}

// toJSON marshals a map that can always be marshaled.
func toJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%q", err.Error())
	}
	return string(text)
}

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
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// idle is the version of the container that does not work, for a sidecar with HotUpgrade.
const idle = "0"

// webhookLag is how far a webhook's cache is assumed to be behind, at most.
const webhookLag = time.Minute

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
	// images gives pods new images. resets empties the containers that a HotUpgrade has replaced. recreates asks workloads to recreate pods.
	images, resets, recreates []write
	// refused and restored set a condition that says that a pod can't be updated in place, or that it can (again).
	refused, restored []write
	// immutable holds the names of the pods that can't be updated in place and are not recreated.
	immutable []string
	holds     []rollout.Hold
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
		immutable := o.immutable(pod)
		waits := immutable && !o.mayRecreate(pod)
		if waits {
			out.immutable = append(out.immutable, nameOf(pod))
		}
		reset := o.reset(pod)
		switch w := o.condition(pod, now); {
		case w == nil, immutable && !waits: // The condition disappears with the pod.
		case !immutable && reset != nil: // Two writes at one resourceVersion would conflict, and this one can wait.
		case immutable:
			out.refused = append(out.refused, *w)
		default:
			out.restored = append(out.restored, *w)
		}
		if reset != nil {
			out.resets = append(out.resets, *reset)
		}
		f, changesIn := o.factsOf(pod, now)
		out.recheck = report.Sooner(out.recheck, changesIn)
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
	order := rollout.Preference{Priority: u.PriorityStrategy, Scatter: expanded(u.ScatterStrategy, matched)}
	if cmp.Or(err, more, order.Apply(facts, metadata)) != nil { // Admission rejects such a strategy.
		return out
	}
	d := rollout.Next(g, facts, now)
	out.holds, out.recheck = d.Holds, report.Sooner(out.recheck, d.Recheck)
	for _, s := range d.Of(rollout.StepUpdateInPlace) {
		pod := byKey[s.Key]
		if o.immutable(pod) {
			out.recreates = append(out.recreates, write{pod: pod, body: podpatch.ForDeletion(pod), why: s.Why})
			continue
		}
		w := o.images(pod, now)
		w.why = s.Why
		out.images = append(out.images, w)
	}
	return out
}

// expanded replaces the value "*" with the values that the pods have.
func expanded(terms []pods.UpdateScatterTerm, matched []*corev1.Pod) []pods.UpdateScatterTerm {
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

// factsOf returns what pkg/rollout needs to know about a pod, and when time alone could change that. 0 means never.
func (o *observed) factsOf(pod *corev1.Pod, now time.Time) (f rollout.Pod, changesIn time.Duration) {
	f = rollout.Pod{
		Key: nameOf(pod), Old: o.saidBy(pod).upgrade.Hash != o.hash(), Ready: ready(o.set, pod),
		Rank: podset.View(pod, podset.Rules{}, now).Rank,
	}
	is := o.saidBy(pod)
	// A workload's own update of the pod counts too: until the kubelet acts on it, the pod is still ready with what it ran before. Such a pod is
	// about to go out of service anyway, so it comes before pods that serve.
	others := inplace.Progress(pod, now)
	f.Ready = f.Ready && others.Done && !inplace.Untold(pod)
	f.Available = f.Ready && is.done
	if !is.done && (!f.Old || is.serves) { // An older pod that is already down may stay down: it restarts nothing.
		f.Update = rollout.UpdateInProgress
	}
	_, leaving := pod.Labels[keys.SpecifiedDelete]
	switch by := o.set.Spec.UpdateStrategy.Selector; {
	case o.immutable(pod) && !o.mayRecreate(pod):
		f.NotInPlace = "more than images has changed"
	case o.immutable(pod) && leaving: // Its replacement gets the current sidecars.
		f.Old, f.Ready, f.Available, f.Update = false, false, false, rollout.UpdateInProgress
	case o.immutable(pod) && o.settledAt(pod).After(now):
		f.NotInPlace, changesIn = "it has just been created, by a webhook that had not seen the change", o.settledAt(pod).Sub(now)
	case by != nil && !ownership.Selects(by, pod):
		f.NotInPlace = "updateStrategy.selector does not select it"
	case !is.done && is.serves:
		f.NotInPlace = "its containers do not run their last update yet"
	}
	if others.ChangesAt.After(now) {
		changesIn = report.Sooner(changesIn, others.ChangesAt.Sub(now))
	}
	return f, changesIn
}

// immutable reports whether a pod needs changes other than new images.
func (o *observed) immutable(pod *corev1.Pod) bool {
	return o.saidBy(pod).withoutImage != o.set.Annotations[keys.SidecarSetHashWithoutImage]
}

// mayRecreate reports whether a pod that needs more than new images may be recreated. Its workload recreates it by its own rules, and the
// replacement must get the current sidecars.
func (o *observed) mayRecreate(pod *corev1.Pod) bool {
	return o.set.Spec.UpdateStrategy.PodUpdatePolicy == appsv1beta1.SidecarSetInPlaceIfPossible && ownership.OfPodWorkload(pod) &&
		!o.set.Spec.InjectionStrategy.Paused && !wantsFormer(o.set, pod, 0) && len(o.canaries) == 0 && o.notSent[pod.Namespace] == ""
}

// settledAt is until when to leave alone a pod that is newer than the current revision but has an older one: a webhook whose cache is behind
// could give the replacement that old revision too. It returns the zero time for other pods.
func (o *observed) settledAt(pod *corev1.Pod) time.Time {
	if made := &o.present.CreationTimestamp; made.IsZero() || !made.Before(&pod.CreationTimestamp) { // Zero: not created yet.
		return time.Time{}
	}
	return pod.CreationTimestamp.Add(webhookLag)
}

// updated reports whether the containers of a pod run what the last in-place update wrote. If they don't, serves reports whether one of the
// outdated containers is still ready.
func updated(set string, pod *corev1.Pod) (done, serves bool) {
	done = true
	for name, was := range inplace.SidecarStates(pod)[set].LastContainerStatuses {
		c := containerOf(pod, name)
		if c == nil || pod.Annotations[keys.SidecarSetVersionPrefix+name] == idle {
			continue
		}
		st := inplace.Status(pod, name)
		if st == nil {
			done = false
			continue
		}
		if was.ImageID != "" && st.ImageID != "" && st.ImageID != was.ImageID || inplace.SameImage(c.Image, st) {
			continue
		}
		done, serves = false, serves || st.Ready
	}
	return done, serves
}

// images returns the write that gives a pod the SidecarSet's images and records the update.
func (o *observed) images(pod *corev1.Pod, now time.Time) write {
	next := pod.DeepCopy()
	changed := map[string]string{}
	for c := range updatable(&o.set.Spec) {
		name := c.Name
		if isHot(c) {
			if name = o.hand(next, c); name == "" {
				continue
			}
		}
		if is := containerOf(pod, name); is != nil && is.Image != c.Image {
			changed[name] = c.Image
		}
	}
	patch(next, o.set.Spec.PatchPodMetadata)
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	for key, hash := range map[string]string{
		keys.SidecarSetHash: o.hash(), keys.SidecarSetHashWithoutImage: o.set.Annotations[keys.SidecarSetHashWithoutImage],
	} {
		all := upgradesIn(pod, key)
		if all == nil {
			all = map[string]upgrade{}
		}
		is := upgrade{UpdateTimestamp: at, Hash: hash, SidecarSetName: o.set.Name, SidecarList: running(&o.set.Spec)}
		if key == keys.SidecarSetHash {
			is.ControllerRevision = o.present.Name
		}
		all[o.set.Name] = is
		annotate(next, key, inJSON(all))
	}
	states := inplace.SidecarStates(pod)
	if states == nil {
		states = map[string]pods.InPlaceUpdateState{}
	}
	state := pods.InPlaceUpdateState{Revision: o.hash(), UpdateTimestamp: at, LastContainerStatuses: map[string]pods.InPlaceContainerStatus{}}
	for name := range changed {
		was := pods.InPlaceContainerStatus{}
		if st := inplace.Status(pod, name); st != nil {
			was.ImageID = st.ImageID
		}
		state.LastContainerStatuses[name] = was
	}
	states[o.set.Name] = state
	annotate(next, keys.SidecarSetInPlaceState, inJSON(states))
	return changeOf(pod, next, changed)
}

// hand lets one of a sidecar's two containers take over and returns its name. It returns "" if the working one already has the image.
func (o *observed) hand(next *corev1.Pod, c *appsv1beta1.SidecarContainer) string {
	working := workingIn(next)
	if is := containerOf(next, working[c.Name]); is != nil && is.Image == c.Image {
		return ""
	}
	taking, other := first(c.Name), second(c.Name)
	if takesOver(next, other, taking) {
		taking, other = other, taking
	}
	version := o.set.ResourceVersion
	annotate(next, keys.SidecarSetVersionPrefix+taking, version)
	annotate(next, keys.SidecarSetVersionAltPrefix+taking, next.Annotations[keys.SidecarSetVersionPrefix+other])
	annotate(next, keys.SidecarSetVersionAltPrefix+other, version)
	working[c.Name] = taking
	annotate(next, keys.SidecarSetWorking, inJSON(working))
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

// reset returns the write that empties the replaced containers once their replacements work, or nil if there are none.
func (o *observed) reset(pod *corev1.Pod) *write {
	changed := map[string]string{}
	for c := range updatable(&o.set.Spec) {
		if !isHot(c) {
			continue
		}
		works := workingIn(pod)[c.Name]
		former := peer(c.Name, works)
		if works == "" || pod.Annotations[keys.SidecarSetVersionPrefix+former] == idle {
			continue
		}
		if st := inplace.Status(pod, works); !o.saidBy(pod).done || st == nil || !st.Ready {
			continue
		}
		changed[former] = c.UpgradeStrategy.HotUpgradeEmptyImage
	}
	if len(changed) == 0 {
		return nil
	}
	next := pod.DeepCopy()
	for former := range changed {
		annotate(next, keys.SidecarSetVersionPrefix+former, idle)
	}
	w := changeOf(pod, next, changed)
	return &w
}

// peer returns the other container of a sidecar.
func peer(sidecar, container string) string {
	if container == first(sidecar) {
		return second(sidecar)
	}
	return first(sidecar)
}

// changeOf returns the write of the changed annotations and images. It is conditional on the observed resourceVersion, because a workload may
// update the pod too.
func changeOf(pod, next *corev1.Pod, images map[string]string) write {
	b := podpatch.New(pod)
	b.Observed(pod)
	for key, value := range next.Annotations {
		if was, has := pod.Annotations[key]; !has || was != value {
			b.Metadata.Annotations[key] = &value
		}
	}
	b.Spec = inplace.Fields(pod, images, "image")
	return write{pod: pod, body: b}
}

// condition returns the write that says whether a pod can be updated in place, or nil if the pod says so already. If a pod was always
// updatable, the condition is set only after an in-place update, as in OpenKruise.
func (o *observed) condition(pod *corev1.Pod, now time.Time) *write {
	is := podpatch.Find(pod, keys.SidecarSetUpgradable)
	entries := map[string]bool{}
	if is != nil && json.Unmarshal([]byte(is.Message), &entries) != nil {
		entries = map[string]bool{}
	}
	was, known := entries[o.set.Name]
	can := !o.immutable(pod)
	if known && was == can || !known && can && !o.updatedInPlace(pod) {
		return nil
	}
	entries[o.set.Name] = can
	status, reason := corev1.ConditionTrue, ReasonAllUpgradable
	for _, one := range entries {
		if !one {
			status, reason = corev1.ConditionFalse, ReasonImmutable
		}
	}
	b := podpatch.New(pod)
	b.Observed(pod)
	b.Set(pod, keys.SidecarSetUpgradable, status, reason, inJSON(entries), now)
	return &write{pod: pod, subresource: podpatch.Status, body: b}
}

// updatedInPlace reports whether a pod got the current images in place and runs them.
func (o *observed) updatedInPlace(pod *corev1.Pod) bool {
	return inplace.SidecarStates(pod)[o.set.Name].Revision == o.hash() && o.saidBy(pod).done
}

// inJSON marshals a map that can always be marshaled.
func inJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%q", err.Error())
	}
	return string(text)
}

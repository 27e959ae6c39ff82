package workloadspread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

const (
	// creationTimeout is how long an admitted pod may stay unseen, counted from when the controller learns of it.
	creationTimeout = 30 * time.Second
	// recovery is how long a subset gets no new pods after a pod could not be scheduled there.
	recovery = 5 * time.Minute
)

// planned holds the next steps.
type planned struct {
	// inactive is why pods are not spread, or nil if they are. If set, all other fields are empty.
	inactive *fault

	// subsets holds the pods of each version by subset. The last element holds the pods in no subset.
	subsets map[string][][]*corev1.Pod
	// creating holds the places of unseen pods, by version and subset. lost holds the places that are given back.
	creating map[string][]map[string]time.Time
	lost     []string
	// unschedulable holds the subsets that get no new pods, and since when. recovered holds the subsets that get new pods again.
	unschedulable map[int]time.Time
	recovered     []string

	// patches holds the metadata to write to pods. deletes holds the pods that could not be scheduled.
	patches []patch
	deletes []*corev1.Pod
	// recheck is when the next step becomes due. 0 means never.
	recheck time.Duration
}

// fault is why something can't be done.
type fault struct{ reason, message string }

// patch is metadata to write to a pod.
type patch struct {
	pod                 *corev1.Pod
	labels, annotations map[string]string
	adopted             bool
}

// plan returns the next steps.
func plan(o observed, now time.Time) planned {
	p := planned{inactive: whyInactive(o)}
	if p.inactive != nil {
		return p
	}
	p.keepPlaces(o, now)
	p.assign(o)
	p.reschedule(o, now)
	p.setCosts(o)
	slices.SortFunc(p.patches, func(a, b patch) int { return cmp.Compare(a.pod.Name, b.pod.Name) })
	return p
}

// whyInactive returns why pods are not spread, or nil if they are.
func whyInactive(o observed) *fault {
	ref := scaletarget.SpreadTarget(o.ws)
	switch {
	case !builtIn(ref.Kind.GroupKind()) && o.fault != nil:
		return &fault{reasonNotAllowed, o.fault.Error()}
	case !allowed(ref.Kind.GroupKind(), o.listed):
		return &fault{reasonNotAllowed, notListed(ref)}
	case o.elder != nil:
		return &fault{reasonTargetTaken, fmt.Sprintf("%s is already the target of %s: delete one of the two", ref, o.elder.Name)}
	case o.denied != nil:
		return &fault{reasonTargetDenied, fmt.Sprintf("%v: add its resource to customWorkloads of the chart", o.denied)}
	case o.target == nil:
		return &fault{reasonTargetGone, fmt.Sprintf("%s does not exist", ref)}
	case o.unknown != "":
		return &fault{reasonReplicasUnknown, o.unknown}
	case !o.sent:
		return &fault{reasonNotSent, o.notSent}
	}
	return nil
}

// notListed says how to allow a kind that can't be a target yet.
func notListed(ref scaletarget.Ref) string {
	return fmt.Sprintf("%s is not a CloneSet, Deployment, ReplicaSet, StatefulSet or Job, and not listed in ConfigMap %s (key %s): add it there",
		ref.Kind.GroupKind(), scaletarget.ConfigMap, scaletarget.KeyWorkloadSpread)
}

// keepPlaces keeps the places of unseen pods.
func (p *planned) keepPlaces(o observed, now time.Time) {
	p.creating = map[string][]map[string]time.Time{}
	seen := idsOf(o.pods)
	for version, all := range o.ws.Status.VersionedSubsetStatuses {
		p.creating[version] = make([]map[string]time.Time, len(o.ws.Spec.Subsets))
		for i := range o.ws.Spec.Subsets {
			st := statusOf(all, o.ws.Spec.Subsets[i].Name)
			if st == nil {
				continue
			}
			kept := map[string]time.Time{}
			for id, at := range st.CreatingPods {
				switch {
				case seen[id]:
				case o.lost[id]:
					p.lost = append(p.lost, id)
				default:
					kept[id] = at.Time
					p.recheckWithin(creationTimeout - now.Sub(o.unseen[id]))
				}
			}
			p.creating[version][i] = kept
		}
	}
	slices.Sort(p.lost)
}

// recheckWithin schedules the next reconcile after at most that time.
func (p *planned) recheckWithin(in time.Duration) {
	p.recheck = timing.Sooner(p.recheck, max(in, time.Millisecond))
}

// podsOf returns the pods of a version by subset.
func (p *planned) podsOf(o observed, version string) [][]*corev1.Pod {
	if p.subsets[version] == nil {
		p.subsets[version] = make([][]*corev1.Pod, len(o.ws.Spec.Subsets)+1)
	}
	return p.subsets[version]
}

// assign finds the subset of each active pod. A pod older than the WorkloadSpread is adopted by a subset that its node matches. A pod whose
// subset was removed is in no subset, so it is deleted first.
func (p *planned) assign(o observed) {
	p.subsets = map[string][][]*corev1.Pod{}
	none := len(o.ws.Spec.Subsets)
	kind := scaletarget.SpreadTarget(o.ws).Kind.GroupKind()
	var orphans []*corev1.Pod
	for _, pod := range o.pods {
		if !podpatch.Active(pod) {
			continue
		}
		i := subsetOf(o.ws, pod)
		if m, _ := matchedOf(pod); i < 0 && (m.Name != o.ws.Name || m.Subset == "") {
			orphans = append(orphans, pod)
			continue
		} else if i < 0 {
			i = none
		}
		podsBySubset := p.podsOf(o, o.versions.versionOf(kind, pod))
		podsBySubset[i] = append(podsBySubset[i], pod)
	}
	for _, pod := range orphans {
		version := o.versions.versionOf(kind, pod)
		podsBySubset := p.podsOf(o, version)
		i := p.adoptingSubset(o, version, o.nodes[pod.Spec.NodeName])
		if i < 0 {
			podsBySubset[none] = append(podsBySubset[none], pod)
			continue
		}
		podsBySubset[i] = append(podsBySubset[i], pod)
		s := &o.ws.Spec.Subsets[i]
		out := patch{pod: pod, adopted: true, annotations: map[string]string{}}
		if o.ws.Annotations[keys.IgnorePatchExistingPods] != "true" {
			out.labels, out.annotations = metadataIn(s)
		}
		out.annotations[keys.MatchedWorkloadSpread] = matched{Name: o.ws.Name, Subset: s.Name}.String()
		p.patches = append(p.patches, out)
	}
}

// adoptingSubset returns the subset for a pod on a node: of the matching subsets the one that prefers the node most, and of several such the
// first with room. Without room the pod counts anyway: it runs there, and is surplus. -1 means none.
func (p *planned) adoptingSubset(o observed, version string, node *corev1.Node) int {
	if node == nil {
		return -1
	}
	best, most, bestRoom := -1, int64(-1), false
	for i := range o.ws.Spec.Subsets {
		s := &o.ws.Spec.Subsets[i]
		score, ok := matchesNode(s, node)
		if !ok {
			continue
		}
		n := limit(s, o.total)
		room := n == unlimited || p.taken(version, i) < int(n)
		if score > most || score == most && room && !bestRoom {
			best, most, bestRoom = i, score, room
		}
	}
	return best
}

// taken returns how many places of a subset are taken.
func (p *planned) taken(version string, subset int) int {
	n := 0
	if bySubset := p.subsets[version]; bySubset != nil {
		n = len(bySubset[subset])
	}
	if bySubset := p.creating[version]; bySubset != nil {
		n += len(bySubset[subset])
	}
	return n
}

// matchesNode reports whether a subset's node selector matches a node, and how strongly the subset prefers it. Terms that can't be parsed
// match no node.
func matchesNode(s *appsv1beta1.WorkloadSpreadSubset, node *corev1.Node) (score int64, ok bool) {
	if t := s.RequiredNodeSelector; t != nil && len(t.MatchExpressions)+len(t.MatchFields) > 0 {
		required, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*t}})
		if err != nil || !required.Match(node) {
			return 0, false
		}
	}
	preferred, err := nodeaffinity.NewPreferredSchedulingTerms(s.PreferredNodeSelector)
	if err != nil {
		return 0, true
	}
	return preferred.Score(node), true
}

// metadataIn returns the labels and annotations in a subset's patch.
func metadataIn(s *appsv1beta1.WorkloadSpreadSubset) (labels, annotations map[string]string) {
	var in struct {
		Metadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if s.Patch == nil || json.Unmarshal(s.Patch.Raw, &in) != nil {
		return nil, map[string]string{}
	}
	if in.Metadata.Annotations == nil {
		in.Metadata.Annotations = map[string]string{}
	}
	return in.Metadata.Labels, in.Metadata.Annotations
}

// reschedule finds the pods that can't be scheduled, and closes their subsets for a while. The last subset takes what doesn't fit elsewhere,
// so it stays open.
func (p *planned) reschedule(o observed, now time.Time) {
	p.unschedulable = map[int]time.Time{}
	if o.ws.Spec.ScheduleStrategy.Type != appsv1beta1.AdaptiveWorkloadSpread {
		return
	}
	if _, slice := o.ws.Annotations[keys.FleetRowUID]; slice {
		p.unschedulablePods(o, len(o.ws.Spec.Subsets)-1, now) // The hub moves these: reconcile in time to report them.
	}
	for i := range len(o.ws.Spec.Subsets) - 1 {
		name := o.ws.Spec.Subsets[i].Name
		late := p.unschedulablePods(o, i, now)
		p.deletes = append(p.deletes, late...)
		switch since, closed := closedSince(o.ws, name); {
		case closed && now.Sub(since) < recovery:
			p.unschedulable[i] = since
			p.recheckWithin(recovery - now.Sub(since))
		case len(late) > 0:
			p.unschedulable[i] = now
			p.recheckWithin(recovery)
		case closed:
			p.recovered = append(p.recovered, name)
		}
	}
	slices.SortFunc(p.deletes, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
}

// closedSince returns since when a subset gets no new pods, or false if it is open.
func closedSince(ws *appsv1beta1.WorkloadSpread, name string) (time.Time, bool) {
	if schedulable(ws, name) {
		return time.Time{}, false
	}
	return report.GetCondition(statusOf(ws.Status.SubsetStatuses, name).Conditions, appsv1beta1.WorkloadSpreadSubsetSchedulable).LastTransitionTime.Time, true
}

// unschedulablePods returns the pods of a subset that have been unschedulable for too long.
func (p *planned) unschedulablePods(o observed, subset int, now time.Time) []*corev1.Pod {
	a := o.ws.Spec.ScheduleStrategy.Adaptive
	if a == nil || a.RescheduleCriticalSeconds == nil {
		return nil
	}
	critical := time.Duration(*a.RescheduleCriticalSeconds) * time.Second
	var out []*corev1.Pod
	for _, version := range slices.Sorted(maps.Keys(p.subsets)) {
		for _, pod := range p.subsets[version][subset] {
			c := podpatch.Find(pod, corev1.PodScheduled)
			if pod.Spec.NodeName != "" || c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
				continue
			}
			if waited := now.Sub(c.LastTransitionTime.Time); waited >= critical {
				out = append(out, pod)
			} else {
				p.recheckWithin(critical - waited)
			}
		}
	}
	return out
}

// compareForDeletion sorts the pods to delete last to the front: those with a node, running, ready, and older pods.
func compareForDeletion(a, b *corev1.Pod) int {
	rank := func(p *corev1.Pod) int {
		switch {
		case podpatch.Ready(p):
			return 0
		case p.Status.Phase == corev1.PodRunning:
			return 1
		case p.Spec.NodeName != "":
			return 2
		}
		return 3
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// versionsOf returns all versions that the status covers: those that have pods or places, and those that new pods get.
func (p *planned) versionsOf(o observed) []string {
	all := map[string]bool{}
	for version := range p.subsets {
		all[version] = true
	}
	for version, bySubset := range p.creating {
		for _, ids := range bySubset {
			if len(ids) > 0 {
				all[version] = true
			}
		}
	}
	kind := scaletarget.SpreadTarget(o.ws).Kind.GroupKind()
	if !o.versions.has(kind) {
		all[versionIgnored] = true
	} else if o.newest != "" {
		all[o.newest] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// missingReplicas returns how many more pods a subset may get, as in missingReplicas.
func (p *planned) missingReplicas(o observed, version string, subset int) int32 {
	n := limit(&o.ws.Spec.Subsets[subset], o.total)
	if n == unlimited {
		return unlimited
	}
	return max(n-toInt32(p.taken(version, subset)), 0)
}

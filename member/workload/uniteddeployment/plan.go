package uniteddeployment

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
	"github.com/flotilla-io/flotilla/pkg/plan/spread"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// Reasons of steps.
const (
	// reasonMissing (create): the subset has no workload.
	reasonMissing = "Missing"
	// reasonRevision, reasonPatch (update): the workload is at another revision, or has another patch.
	reasonRevision = "Revision"
	reasonPatch    = "Patch"
	// reasonReplicas (update): only the number of replicas, the partition or maxUnavailable differs. reasonUnschedulable (update): likewise, and replicas leave
	// the subset because their pods can't be scheduled. It is also used for pods that are reserved for that reason.
	reasonReplicas      = "Replicas"
	reasonUnschedulable = "Unschedulable"
	// reasonReady (release of a pod): a reserved pod has been ready for long enough.
	reasonReady = "Ready"
	// reasonDrift (update): another writer has changed the workload.
	reasonDrift = "Drift"
	// reasonRemoved, reasonKind, reasonDuplicate (delete): the subset is gone, has another kind of workload, or has an older one.
	reasonRemoved   = "SubsetRemoved"
	reasonKind      = "KindChanged"
	reasonDuplicate = "Duplicate"
	// reasonStuck (delete of a pod): a StatefulSet waits for an old pod, which it has to replace anyway.
	reasonStuck = "Stuck"
	// reasonTerminating (wait): the subset's workload is being deleted.
	reasonTerminating = "Terminating"
)

// planned is what to do now, in the order in which it is done. It is read-only, because it shares objects with observed.
type planned struct {
	// revision makes the update revision the newest of history.
	revision revision.Step
	// fault is why the object can't be reconciled, which the webhook should have rejected; nil if it can.
	fault *fault
	// limit is a request in the spec that this controller handles differently; nil if there is none. Everything else is reconciled.
	limit *fault
	// division is how the replicas are divided, by the index of subsets.
	division spread.Division
	// wanted is how many pods should run in all subsets, not counting reserved ones.
	wanted int32
	// remove lists the workloads to delete.
	remove []removal
	// subsets are all subsets in their order.
	subsets []target
	// stuck lists pods to delete so that their StatefulSet can continue.
	stuck []*corev1.Pod
	// surplusRevisions are revisions beyond the limit.
	surplusRevisions []*appsv1.ControllerRevision
	// recheck is when the passing of time alone could change the plan; 0 means never.
	recheck time.Duration
}

// stuckRecheck is how soon to recheck an old pod of a StatefulSet that is not ready. Pods of StatefulSets are not watched here.
const stuckRecheck = 10 * time.Second

// fault is why something can't be done: a reason and a message.
type fault struct{ reason, message string }

// removal is a workload to delete.
type removal struct {
	child
	reason, why string
}

// target is one subset: its wanted workload, and what has to be written for it.
type target struct {
	name      string
	kind      kind
	replicas  int32
	partition int32
	// limit is how many pods may be unavailable during an update; 0 stops the update. If nil, the template decides.
	limit *int32
	// room is what Adaptive knows about the subset. leaving is how many of its replicas leave because their pods can't be scheduled.
	room    room
	leaving int
	// reserved is how many of its replicas belong to reserved pods.
	reserved int32
	// child is the existing workload; nil if there is none.
	child *child
	// create is the workload to create, update the change to write. Both are nil if there is nothing to write.
	create workload
	update *update
	// reason and why belong to create or update, or to a wait if neither is set.
	reason, why string
	// fault is why the workload can't be rendered; nil if it can.
	fault error
}

// plan returns the next steps that bring the object to its spec, and why. It is a pure function.
func plan(o observed, now time.Time) planned {
	p := planned{revision: revision.Next(o.history, o.wanted)}
	k, ok := kindOf(&o.ud.Spec.Template)
	if !ok {
		p.fault = &fault{reasonNotServed, "the template has no supported kind of workload: " +
			"use cloneSetTemplate, deploymentTemplate, statefulSetTemplate or advancedStatefulSetTemplate"}
		return p
	}
	if asksToReserve(o.ud) && !reserving(o.ud) {
		p.limit = &fault{reasonNotServed, "reserveUnschedulablePods isn't supported with a StatefulSet: pods that can't be scheduled stay in " +
			"their subset, and no replacements are started"}
	}
	kept := p.sortChildren(o, k)
	_, parts := k.make(&o.ud.Spec.Template)
	rooms := roomsOf(o, kept, now)
	var held []int
	p.division, held = divide(o.ud, kept, rooms)
	for i := range o.ud.Spec.Topology.Subsets {
		s := &o.ud.Spec.Topology.Subsets[i]
		t := target{
			name: s.Name, kind: k, child: kept[s.Name], room: rooms[i],
			replicas: int32(p.division.Targets[i]), //nolint:gosec // At most spec.replicas, and as many reserved pods.
		}
		p.wanted += t.replicas
		if r := &t.room.reserved; r.count > 0 {
			t.reserved = int32(r.count - r.held + held[i]) //nolint:gosec // At most the replicas.
		}
		if t.child != nil {
			t.leaving = max(min(t.room.waiting, t.child.replicas-int(t.replicas)), 0)
		}
		p.recheck = timing.Sooner(p.recheck, t.room.recheck)
		if parts.partition != nil {
			t.partition = int32(spread.Partition(partition(o.ud, s.Name), int(t.replicas))) //nolint:gosec // At most replicas.
		}
		if n, ok := maxUnavailable(o.ud, s.Name); ok && parts.limit != nil {
			t.limit = &n
		}
		t.decide(o.ud, s, p.revision.Revision.Name)
		p.subsets = append(p.subsets, t)
		stuck, unsure := t.blockingPods(o, p.revision.Revision.Name)
		p.stuck = append(p.stuck, stuck...)
		if unsure {
			p.recheck = timing.Sooner(p.recheck, stuckRecheck)
		}
	}
	if reserving(o.ud) {
		p.wanted = ptr.Deref(o.ud.Spec.Replicas, united.DefaultReplicas)
	}
	p.surplusRevisions = findSurplusRevisions(o, p)
	return p
}

// sortChildren returns the workload for each subset, and plans to remove all others.
func (p *planned) sortChildren(o observed, k kind) map[string]*child {
	wanted := map[string]bool{}
	for i := range o.ud.Spec.Topology.Subsets {
		wanted[o.ud.Spec.Topology.Subsets[i].Name] = true
	}
	// The oldest comes first, and terminating ones last, because the order of a cache is arbitrary.
	all := slices.Clone(o.children)
	slices.SortFunc(all, func(a, b child) int {
		at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(cmp.Compare(terminating(a), terminating(b)), at.Compare(bt.Time), strings.Compare(a.GetName(), b.GetName()))
	})
	kept := map[string]*child{}
	for i := range all {
		c := &all[i]
		reason, why := "", ""
		switch first := kept[c.subset]; {
		case !wanted[c.subset]:
			reason, why = reasonRemoved, fmt.Sprintf("there is no subset %q", c.subset)
		case c.kind != k.GroupKind():
			reason, why = reasonKind, "the template is for a "+k.GroupKind().String()
		case first != nil:
			reason, why = reasonDuplicate, fmt.Sprintf("%s is already the workload of subset %s", first.GetName(), c.subset)
		default:
			kept[c.subset] = c
			continue
		}
		if c.GetDeletionTimestamp() == nil {
			p.remove = append(p.remove, removal{*c, reason, why})
		}
	}
	return kept
}

func terminating(c child) int {
	if c.GetDeletionTimestamp() != nil {
		return 1
	}
	return 0
}

// roomsOf returns the room of each subset, by the index of subsets.
func roomsOf(o observed, kept map[string]*child, now time.Time) []room {
	out := make([]room, len(o.ud.Spec.Topology.Subsets))
	for i := range out {
		name := o.ud.Spec.Topology.Subsets[i].Name
		var pods []*corev1.Pod
		c := kept[name]
		if c != nil {
			pods = o.pods[c.GetUID()]
		}
		out[i] = roomOf(o.ud, name, c, pods, now)
	}
	return out
}

// divide divides the replicas among the subsets. held is how many replicas of each subset belong to reserved pods.
func divide(ud *appsv1beta1.UnitedDeployment, kept map[string]*child, rooms []room) (d spread.Division, held []int) {
	total := int(ptr.Deref(ud.Spec.Replicas, united.DefaultReplicas))
	subsets := make([]spread.Subset, 0, len(ud.Spec.Topology.Subsets))
	for i := range ud.Spec.Topology.Subsets {
		s := &ud.Spec.Topology.Subsets[i]
		ask := spread.Subset{Name: s.Name, Replicas: s.Replicas, Min: s.MinReplicas, Max: s.MaxReplicas}
		if c := kept[s.Name]; c != nil {
			ask.Current = sizeOf(ud, s.Name, c)
		}
		subsets = append(subsets, ask)
	}
	if adaptive(ud) {
		return adapt(total, subsets, rooms)
	}
	return spread.Divide(total, subsets), nil
}

func partition(ud *appsv1beta1.UnitedDeployment, subset string) int {
	if m := ud.Spec.UpdateStrategy.ManualUpdate; m != nil {
		return int(m.Partitions[subset])
	}
	return 0
}

// maxUnavailable returns how many pods of a subset may be unavailable during an update; false if the template decides.
func maxUnavailable(ud *appsv1beta1.UnitedDeployment, subset string) (int32, bool) {
	if ud.Spec.UpdateStrategy.ManualUpdate == nil {
		return 0, false
	}
	n, ok := ud.Spec.UpdateStrategy.ManualUpdate.MaxUnavailable[subset]
	return max(n, 0), ok
}

// decide compares the subset's workload with the wanted one.
func (t *target) decide(ud *appsv1beta1.UnitedDeployment, s *appsv1beta1.Subset, revisionName string) {
	want, err := t.render(ud, s, revisionName)
	switch {
	case err != nil:
		t.fault = err
		return
	case t.child == nil:
		// It has no reserved pods yet.
		t.create, t.reason, t.why = want, reasonMissing, fmt.Sprintf("%d replicas", t.replicas)
		setTemplateGeneration(want, 1)
		return
	case t.child.GetDeletionTimestamp() != nil:
		t.reason, t.why = reasonTerminating, t.child.GetName()+" is being deleted"
		return
	}
	unlimit(want, t.child.workload)
	exempt(want, t.child.workload, int(t.replicas), int(t.reserved)-t.room.reserved.ready)
	another := !revision.Same(t.child.revision, revisionName)
	patched := t.child.patch != united.Patch(s)
	e, err := t.kind.amend(t.child.workload, want, another || patched)
	if err != nil {
		t.fault = err
		return
	}
	if e.next == nil {
		return
	}
	t.update = &e
	switch {
	case another:
		t.reason, t.why = reasonRevision, fmt.Sprintf("%s to %s", t.child.revision, revisionName)
	case patched:
		t.reason, t.why = reasonPatch, "the subset's patch changed"
	case !slices.ContainsFunc(e.paths, func(p string) bool { return !isScale(p) }):
		t.reason, t.why = reasonReplicas, fmt.Sprintf("%d replicas (%d before), partition %d", t.replicas, t.child.replicas, t.partition)
		if t.limit != nil {
			t.why += fmt.Sprintf(", maxUnavailable %d", *t.limit)
		}
		if t.reserved > 0 {
			t.why += fmt.Sprintf(", %d reserved", t.reserved)
		}
		if t.leaving > 0 {
			t.reason, t.why = reasonUnschedulable, fmt.Sprintf("%s: %d pod(s) can't be scheduled", t.why, t.leaving)
		}
	default:
		t.reason, t.why = reasonDrift, "revert "+strings.Join(e.paths[:min(len(e.paths), 3)], ", ")
	}
	generation := t.child.GetGeneration() + 1 // The patch applies only to this version.
	if t.reason == reasonReplicas || t.reason == reasonUnschedulable {
		generation = t.child.templated
	}
	setTemplateGeneration(e.next, generation)
}

// isScale reports whether a path is set by the numbers of a subset.
func isScale(path string) bool {
	switch path {
	case "spec.replicas", "spec.updateStrategy.rollingUpdate.partition",
		"spec.updateStrategy.rollingUpdate.maxUnavailable", "spec.strategy.rollingUpdate.maxUnavailable", // See exempt.
		"spec.updateStrategy.rollingUpdate.paused", "spec.paused", limitPath:
		return true
	}
	return false
}

// blockingPods returns pods that block the rollout of their StatefulSet. A StatefulSet updates one pod after another, the highest ordinal first, and
// waits for each to be ready. It even waits for an old pod that never becomes ready and that the new revision would fix. Such pods have to be
// replaced anyway, so they are deleted. unsure means that an old pod is not ready, but may still become so. As in kube 1.36 StatefulSet with
// OrderedReady. While the update is stopped, there are none.
func (t *target) blockingPods(o observed, revisionName string) (out []*corev1.Pod, unsure bool) {
	if t.limit != nil && *t.limit == 0 {
		return nil, false
	}
	if t.child == nil || t.update != nil || !t.child.specObserved() || !t.child.countsAt(revisionName) || t.child.GetDeletionTimestamp() != nil {
		return nil, false
	}
	set, ok := t.child.workload.(*appsv1.StatefulSet)
	if !ok || set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil, false
	}
	kept := int(t.partition)
	if s := set.Spec.Ordinals; s != nil {
		kept += int(s.Start)
	}
	for _, pod := range o.pods[set.UID] {
		old := ordinalOf(pod) >= kept && !revision.Same(pod.Labels[keys.SubsetRevision], revisionName)
		switch {
		case !old || pod.DeletionTimestamp != nil || podpatch.Ready(pod):
		case isBroken(pod):
			out = append(out, pod)
		default:
			unsure = true
		}
	}
	return out, unsure
}

// isBroken reports whether a pod is not expected to become ready: it has failed, or one of its containers can't be started.
func isBroken(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if waiting := list[i].State.Waiting; waiting != nil {
				switch waiting.Reason {
				case "", "ContainerCreating", "PodInitializing":
				default: // ImagePullBackOff, CrashLoopBackOff, CreateContainerConfigError ...
					return true
				}
			}
		}
	}
	return false
}

// findSurplusRevisions returns the revisions beyond the limit that neither the object nor any workload uses.
func findSurplusRevisions(o observed, p planned) []*appsv1.ControllerRevision {
	return united.SurplusRevisions(o.ud, o.history, p.revision.Revision.Name, func(yield func(string) bool) {
		for _, c := range o.children {
			if !yield(c.revision) {
				return
			}
		}
	})
}

package statefulset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/ordinal"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// planned is what to do now: the plan for the pods, which all kinds share, and what is specific to a StatefulSet. It is read-only, because it
// shares objects with observed.
type planned struct {
	podset.Plan

	// slots are the ordinals where pods are wanted, in order. Of the ordinals without pod and PVC, only the first ones are included.
	slots []rollout.Slot
	// adopt lists the orphans to adopt.
	adopt []*corev1.Pod
	// relabel lists pods that have lost the label with their name, which Services use to select a single pod.
	relabel []*corev1.Pod
	// createPVCs are PVCs that existing pods wait for.
	createPVCs []*corev1.PersistentVolumeClaim
	// transfers are PVCs whose owners change. resizes are PVCs that get the size in their template.
	transfers []ownershipTransfer
	resizes   []resize
	// resizeFailure is why a PVC can't follow its template. stalledPVC names a PVC that has kept a pod waiting for longer than the deadline.
	resizeFailure, stalledPVC report.Failure
}

// plan returns the next steps that bring the set to its spec, and why. It is a pure function.
func plan(o observed, now time.Time) planned {
	orphans := o.orphans()
	history := podset.History{
		All: o.history, Wanted: o.wanted, Current: o.set.Status.CurrentRevision, Pods: slices.Concat(o.pods, orphans),
		Fresh: []string{keys.VolumeClaimTemplates},
	}
	p := planned{Plan: podset.NewPlan(history), adopt: orphans}
	goal, fault := goalOf(o)
	p.Ignored, p.slots = fault, goal.Slots
	p.Classify(o.pods, viewOptions(o), now)
	if invalid := p.applyPriorities(o); invalid != "" { // The update order is unknown, so no update starts.
		p.Ignored, goal.Paused = cmp.Or(p.Ignored, invalid), true
	}
	p.compareVolumes(o)
	p.relabel = unlabelled(p.Pods)
	p.Next(goal, now)
	p.HoldLostClaims(o.set.Spec.VolumeClaimTemplates)
	p.HoldUnsent(o.awaited.Why, o.awaited.Left)
	p.planPVCs(o, goal, now)
	if o.overlap.Count > 0 {
		p.Recheck = timing.Sooner(p.Recheck, ownership.OverlapScanInterval)
	}
	if len(orphans) > 0 { // An orphan that has changed meanwhile is not adopted by this reconcile.
		p.Recheck = timing.Sooner(p.Recheck, podset.AdoptionRecheck)
	}
	p.DetectStall(podset.DefaultProgressDeadline, now)
	if p.resizeFailure.Reason != "" && !p.Stalled.Scale { // It is the cause if an update is stalled.
		p.Stalled.Failure = p.resizeFailure
	}
	p.TruncateHistory(int(ptr.Deref(o.set.Spec.RevisionHistoryLimit, defaultHistoryLimit)))
	return p
}

// orphans returns the pods to adopt. Some that the last scan found may have been adopted since.
func (o *observed) orphans() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(o.overlap.Orphans), func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(o.pods, func(own *corev1.Pod) bool { return own.UID == pod.UID })
	})
}

// viewOptions returns how to read the pods of a set.
func viewOptions(o observed) podset.ViewOptions {
	terminating := make(map[string]bool, len(o.pvcs))
	for name, c := range o.pvcs {
		terminating[name] = c.DeletionTimestamp != nil
	}
	return podset.ViewOptions{
		Selector: o.set.Spec.Selector, Rules: rulesOf(&o.set.Spec), Memory: o.memory,
		Differ: &podset.Differ{History: o.history, Options: o.inPlace, Daemons: o.daemons},
		Extend: func(pod *podset.Pod) {
			pod.Slot = ordinalIn(o.set, pod.Key)
			if n, err := strconv.Atoi(pod.Slot); err == nil {
				pod.Rank.Order = -n
			}
			// A pod without a node does not prevent the deletion of its PVCs, and gets new ones.
			pod.ToDelete = pod.ToDelete || pod.Object.Spec.NodeName != "" && podset.PVCLost(pod.Object, pvcNames(pod.Key), terminating)
			pod.TerminatingPVC = podset.TerminatingPVC(pod.Object, pvcNames(pod.Key), terminating)
		},
	}
}

// applyPriorities orders updates by priorityStrategy instead of by ordinal, if the spec has one. It returns what is invalid in it.
func (p *planned) applyPriorities(o observed) string {
	r := o.set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.UnorderedUpdate == nil || r.UnorderedUpdate.PriorityStrategy == nil {
		return ""
	}
	if err := p.ApplyPreference(rollout.Preference{Priority: r.UnorderedUpdate.PriorityStrategy, KeepOrder: true}); err != nil {
		return "unorderedUpdate.priorityStrategy." + err.Error()
	}
	return ""
}

// unlabelled returns the pods that lack the label with their name, with which all pods are created. As in kube 1.36 StatefulSet
// (identityMatches).
func unlabelled(all []podset.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range all {
		if m := &all[i]; m.Slot != "" && !m.Inactive && m.Object.Labels[keys.StatefulSetPodName] != m.Key {
			out = append(out, m.Object)
		}
	}
	return out
}

// compareVolumes finds pods whose volumes differ from the volumeClaimTemplates. A running pod can't get another volume, so an update has to
// re-create it.
func (p *planned) compareVolumes(o observed) {
	for i := range p.Pods {
		m := &p.Pods[i]
		if m.Old && m.NotInPlace == "" && !mounts(o.set, m.Object) {
			m.NotInPlace = "volumeClaimTemplates changed"
		}
	}
}

// mounts reports whether a pod has the volumes of all current volumeClaimTemplates, and of no earlier ones.
func mounts(set *appsv1beta1.StatefulSet, pod *corev1.Pod) bool {
	name, own := pvcNames(pod.Name), 0
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name(v.Name) {
			own++
			if templateOf(set, v.Name) == nil {
				return false
			}
		}
	}
	return own == len(set.Spec.VolumeClaimTemplates)
}

// rulesOf returns from the spec when pods count as available, and their lifecycle hooks.
func rulesOf(s *appsv1beta1.StatefulSetSpec) podset.Rules {
	rules := podset.Rules{Hooks: lifecycle.HooksOf(s.Lifecycle)}
	if r := s.UpdateStrategy.RollingUpdate; r != nil {
		// The pod that replaces a deleted one would be at the update revision.
		rules.KeepNamed = r.Paused
		rules.MinReady = time.Duration(ptr.Deref(r.MinReadySeconds, 0)) * time.Second
		if r.InPlaceUpdateStrategy != nil {
			rules.Grace = time.Duration(r.InPlaceUpdateStrategy.GracePeriodSeconds) * time.Second
		}
	}
	return rules
}

// goalOf resolves the numbers of a spec. fault names the one that is invalid and ignored.
func goalOf(o observed) (g rollout.Goal, fault string) {
	s := &o.set.Spec
	parallel := s.PodManagementPolicy == appsv1.ParallelPodManagement
	want := replicas(s)
	r := s.UpdateStrategy.RollingUpdate
	if r == nil {
		r = &appsv1beta1.StatefulSetRollingUpdateStrategy{}
	}
	g = rollout.Goal{Replicas: want, Ordered: !parallel, Paused: r.Paused, Mode: modeOf(s)}
	partition := min(int(ptr.Deref(r.Partition, 0)), want)
	if r.UnorderedUpdate != nil {
		g.Partition, partition = partition, 0
	}
	g.Slots, fault = slots(o, partition)
	resolve := func(v *intstr.IntOrString, path string) int {
		n, err := rollout.Resolve(v, want, rollout.Down)
		if err != nil {
			fault = cmp.Or(fault, path+": "+err.Error())
		}
		return max(n, 1)
	}
	g.MaxUnavailable = resolve(r.MaxUnavailable, "maxUnavailable")
	if parallel && s.ScaleStrategy != nil && s.ScaleStrategy.MaxUnavailable != nil {
		g.ScaleMaxUnavailable = new(resolve(s.ScaleStrategy.MaxUnavailable, "scaleStrategy.maxUnavailable"))
	}
	return g, fault
}

func modeOf(s *appsv1beta1.StatefulSetSpec) rollout.Mode {
	if s.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return rollout.OnDelete
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil {
		switch r.PodUpdatePolicy {
		case appsv1beta1.PodInPlaceIfPossible:
			return rollout.InPlaceIfPossible
		case appsv1beta1.PodInPlaceOnly:
			return rollout.InPlaceOnly
		case appsv1beta1.PodReCreate:
		}
	}
	return rollout.ReCreate
}

// slots returns the ordinals of the pods, the first old of which keep the old revision. Of ordinals that have neither a pod nor a PVC, it
// returns at most as many as one reconcile creates.
func slots(o observed, old int) (list []rollout.Slot, fault string) {
	s := &o.set.Spec
	r, _, faults := ordinal.Reserve(s.ReserveOrdinals, ordinalsPath())
	if len(faults) > 0 {
		fault = faults.ToAggregate().Error()
	}
	start, n := o.gates.start(s), ptr.Deref(s.Replicas, defaultReplicas)
	if last := r.Last(start, n); last > math.MaxInt32 {
		fault = cmp.Or(fault, fmt.Sprintf("the last pod would have ordinal %d, but ordinals end at %d", last, math.MaxInt32))
	}
	all := r.First(start, n, o.ordinalsInUse(), rollout.MaxCreates)
	list = make([]rollout.Slot, len(all))
	lastOld := r.Last(start, int32(old)) //nolint:gosec // At most spec.replicas.
	for i, n := range all {
		list[i] = rollout.Slot{Key: strconv.FormatInt(n, 10), Old: n <= lastOld}
	}
	return list, fault
}

// ordinalsInUse returns the ordinals that have a pod or a PVC.
func (o *observed) ordinalsInUse() map[int64]bool {
	used := make(map[int64]bool, len(o.pods))
	add := func(pod string) {
		if n, err := strconv.ParseInt(ordinalIn(o.set, pod), 10, 64); err == nil {
			used[n] = true
		}
	}
	for _, pod := range o.pods {
		add(pod.Name)
	}
	for pvc := range o.pvcs {
		add(podOfPVC(o.set, pvc))
	}
	return used
}

func replicas(s *appsv1beta1.StatefulSetSpec) int { return int(ptr.Deref(s.Replicas, defaultReplicas)) }

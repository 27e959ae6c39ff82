package uniteddeployment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/spread"
)

// With the schedule strategy Adaptive replicas stay where they are, and only those leave a subset whose pods can't be scheduled.
//
// A subset closes when the scheduler has found no node for one of its pods for rescheduleCriticalSeconds, and opens again after
// unschedulableDuration, unless pods of it still wait. Its condition Schedulable says so, and is all that is stored. The replicas
// are divided by the stored conditions: one that changes is written first, and its watch event starts the next reconcile. So a
// crash between two writes never makes a subset take back what it has just given away.

// Reasons of the condition Schedulable. They are those of OpenKruise.
const (
	reasonReschedule = "reschedule"
	reasonRecover    = "recover"
)

// Defaults of AdaptiveScheduleStrategy.
const (
	defaultCritical = 30 * time.Second
	defaultClosed   = 300 * time.Second
)

// room is what Adaptive knows of one subset.
type room struct {
	// closed: by its stored condition, the subset gets no more replicas.
	closed bool
	// waiting is how many of its replicas may leave: those of pods that can't be scheduled, and of pods that are not created because
	// of those.
	waiting int
	// condition is the condition to store; nil if the subset has always been open.
	condition *appsv1beta1.SubsetCondition
	// turned: the condition differs from the stored one.
	turned bool
	// recheck is when time alone could change the condition; 0 if never.
	recheck time.Duration
	// reserved are its reserved pods, with reserveUnschedulablePods.
	reserved reservation
}

func adaptive(ud *appsv1beta1.UnitedDeployment) bool {
	return ud.Spec.Topology.ScheduleStrategy.Type == appsv1beta1.ScheduleAdaptive
}

// reschedules reports whether pods that can't be scheduled run elsewhere.
func reschedules(ud *appsv1beta1.UnitedDeployment) bool {
	return adaptive(ud) && asksToReserve(ud) == reserving(ud)
}

// roomOf returns the room of a subset with that workload, nil if it has none yet, and its pods.
func roomOf(ud *appsv1beta1.UnitedDeployment, subset string, c *child, pods []*corev1.Pod, now time.Time) room {
	if !reschedules(ud) {
		return room{}
	}
	critical, duration := durations(ud)
	r := room{condition: storedCondition(&ud.Status, subset)}
	shut := r.condition != nil && r.condition.Status == corev1.ConditionFalse
	r.reserved = reservationOf(ud, subset, c, pods, shut, now)
	r.closed, r.recheck = shut || r.reserved.held > 0, r.reserved.recheck
	if c != nil && r.closed && !reserving(ud) {
		r.waiting = c.movable(pods)
	}
	overdue := 0
	for _, pod := range pods {
		since, ok := rejected(pod)
		switch due := since.Add(critical); {
		case !ok:
		case !due.After(now):
			overdue++
		default:
			r.recheck = report.Sooner(r.recheck, due.Sub(now))
		}
	}
	turn := func(status corev1.ConditionStatus, reason, message string) {
		r.turned = true
		r.condition = &appsv1beta1.SubsetCondition{
			Type: appsv1beta1.SubsetSchedulable, Status: status, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		}
	}
	switch {
	case !shut && overdue > 0:
		turn(corev1.ConditionFalse, reasonReschedule, fmt.Sprintf("%d pods could not be scheduled within %s", overdue, critical))
	case !shut || overdue > 0 || r.reserved.count > 0: // Pods that wait here may leave as soon as another subset has room.
	default:
		end := r.condition.LastTransitionTime.Add(duration)
		if end.After(now) {
			r.recheck = report.Sooner(r.recheck, end.Sub(now))
		} else {
			turn(corev1.ConditionTrue, reasonRecover, fmt.Sprintf("no pod has been waiting for a node, %s after one was", duration))
		}
	}
	return r
}

// durations returns for how long a pod may wait for a node, and for how long its subset is closed then.
func durations(ud *appsv1beta1.UnitedDeployment) (critical, closed time.Duration) {
	critical, closed = defaultCritical, defaultClosed
	a := ptr.Deref(ud.Spec.Topology.ScheduleStrategy.Adaptive, appsv1beta1.AdaptiveScheduleStrategy{})
	if s := a.RescheduleCriticalSeconds; s != nil {
		critical = time.Duration(max(*s, 0)) * time.Second
	}
	if s := a.UnschedulableDuration; s != nil {
		closed = time.Duration(max(*s, 0)) * time.Second
	}
	return critical, closed
}

// lineOf returns a subset's line of the status; nil if it has none.
func lineOf(s *appsv1beta1.UnitedDeploymentStatus, subset string) *appsv1beta1.SubsetStatus {
	for i := range s.SubsetStatuses {
		if s.SubsetStatuses[i].Name == subset {
			return &s.SubsetStatuses[i]
		}
	}
	return nil
}

// storedCondition returns a subset's condition Schedulable; nil if it has none.
func storedCondition(s *appsv1beta1.UnitedDeploymentStatus, subset string) *appsv1beta1.SubsetCondition {
	line := lineOf(s, subset)
	if line == nil {
		return nil
	}
	for i := range line.Conditions {
		if line.Conditions[i].Type == appsv1beta1.SubsetSchedulable {
			return &line.Conditions[i]
		}
	}
	return nil
}

// rejected returns since when the scheduler has found no node for a pod; false if there is one, or it has not looked for one yet.
func rejected(pod *corev1.Pod) (since time.Time, ok bool) {
	c := podpatch.Find(pod, corev1.PodScheduled)
	if !podpatch.Active(pod) || pod.Spec.NodeName != "" || c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, true
}

// movable returns how many replicas of a workload may go elsewhere without a pod that has a node being deleted. It relies on what
// the workload's controller deletes first: a pod without a node, or for StatefulSets the one with the highest ordinal.
func (c *child) movable(pods []*corev1.Pod) int {
	if !c.seen() {
		return 0 // The pods are about to change.
	}
	var all []*corev1.Pod
	placed, waits := 0, 0
	for _, pod := range pods {
		if !podpatch.Active(pod) {
			continue
		}
		all = append(all, pod)
		if pod.Spec.NodeName != "" {
			placed++
		} else if _, ok := rejected(pod); ok {
			waits++
		}
	}
	switch {
	case c.ordinals():
		waits = waitingLast(all)
	case c.updated > 0 && c.updated < c.pods:
		return 0 // With pods at two revisions, the revision decides too which one is deleted.
	}
	if waits == 0 {
		return 0
	}
	waits -= max(len(all)-c.replicas, 0) // Those are surplus.
	if int(c.pods) == len(all) {
		waits += max(c.replicas-len(all), 0) // The controller creates no more while these wait.
	}
	return max(min(waits, c.replicas-placed), 0)
}

// ordinals reports whether the pods of a workload are numbered.
func (c *child) ordinals() bool {
	return c.kind == statefulSets().GroupKind() || c.kind == advancedSets().GroupKind()
}

// waitingLast returns how many pods with the highest ordinals are rejected.
func waitingLast(pods []*corev1.Pod) int {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(ordinalOf(b), ordinalOf(a)) })
	n := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { _, ok := rejected(pod); return !ok })
	if n < 0 {
		return len(pods)
	}
	return n
}

// ordinalOf returns the number at the end of a pod's name; -1 if it has none.
func ordinalOf(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Name[strings.LastIndexByte(pod.Name, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

// adapt divides replicas so that none moves but those of pods that can't be scheduled. A scale out fills the first open subset
// that has room, and a scale in removes from the last. Replicas that no open subset may take stay where they wait, and are added
// to closed subsets only if all of them wait already. kept is how many replicas of each subset are those of reserved pods.
func adapt(total int, subsets []spread.Subset, rooms []room) (d spread.Division, kept []int) {
	subsets = slices.Clone(subsets)
	for i := range subsets {
		subsets[i].Current -= rooms[i].reserved.held
	}
	kept = keep(total, subsets, rooms)
	wait := 0
	for i, n := range kept {
		subsets[i].Max = below(subsets[i].Max, total, n)
		wait += n
	}
	d = divideHeld(total, hold(total, subsets, rooms), rooms, wait)
	for i, n := range kept {
		d.Targets[i] += n
	}
	return d, kept
}

// divideHeld divides replicas among subsets as hold has bounded them. Reserved pods wait in place of replicas that no open subset may
// take, so that no others are added for these.
func divideHeld(total int, subsets []spread.Subset, rooms []room, reserved int) spread.Division {
	d := spread.Divide(total, subsets)
	switch {
	case d.Unallocated == 0:
		return d
	case d.Unallocated <= reserved:
		return spread.Division{Targets: d.Targets}
	}
	waiting := spread.Subset{Floor: reserved, Ceiling: &reserved}
	for _, stay := range []bool{true, false} {
		for i := range subsets {
			subsets[i].Floor, subsets[i].Ceiling = d.Targets[i], nil
			if rooms[i].closed && stay {
				subsets[i].Ceiling = &subsets[i].Current
			}
		}
		d = spread.Divide(total, append(slices.Clone(subsets), waiting))
		d.Targets = d.Targets[:len(subsets)]
		if d.Unallocated == 0 {
			break
		}
	}
	return d
}

// hold bounds subsets so that a scale out only adds replicas and a scale in only removes some, except those that leave a closed
// subset. A subset's own minReplicas and maxReplicas take precedence, but a closed one gets no more for them.
func hold(total int, subsets []spread.Subset, rooms []room) []spread.Subset {
	atLeast := slices.Clone(subsets)
	for i := range atLeast { // Without numbers the first subset may take all.
		if atLeast[i].Min == nil && atLeast[i].Replicas == nil {
			atLeast[i].Min = new(intstr.FromInt32(0))
		}
	}
	atMost := slices.Clone(atLeast)
	sum := 0
	for i, s := range subsets {
		least, most := resolve(s.Min, total, 0), resolve(s.Max, total, spread.Unlimited)
		stay := s.Current
		if rooms[i].closed {
			stay -= rooms[i].waiting
			least = min(least, stay)
			atLeast[i].Ceiling = &stay
		}
		atLeast[i].Floor = min(stay, most)
		atMost[i].Ceiling = new(max(stay, least))
		sum += max(atLeast[i].Floor, least)
	}
	if sum > total {
		return atMost
	}
	return atLeast
}

// resolve resolves a number of replicas. Divide reports an invalid one.
func resolve(v *intstr.IntOrString, total, none int) int {
	if v == nil {
		return none
	}
	n, err := spread.Resolve(*v, total)
	if err != nil {
		return none
	}
	return n
}

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
	"github.com/flotilla-io/flotilla/pkg/plan/spread"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// With the schedule strategy Adaptive, replicas stay where they are. Only those whose pods can't be scheduled leave a subset.
//
// A subset closes when the scheduler has found no node for one of its pods for rescheduleCriticalSeconds. It opens again after
// unschedulableDuration, unless some of its pods still wait. The subset's condition Schedulable records this, and nothing else is stored. The
// replicas are divided according to the stored conditions: a condition that changes is written first, and its watch event triggers the next
// reconcile. So a crash between two writes never makes a subset take back what it has just given away.

// Reasons of the condition Schedulable, the same as in OpenKruise.
const (
	reasonReschedule = "reschedule"
	reasonRecover    = "recover"
)

// Defaults of AdaptiveScheduleStrategy.
const (
	defaultCritical = 30 * time.Second
	defaultClosed   = 300 * time.Second
)

// room is what Adaptive knows about one subset.
type room struct {
	// closed means that, according to its stored condition, the subset gets no more replicas.
	closed bool
	// waiting is how many of its replicas may leave: those of pods that can't be scheduled, and of pods that are not created because of those.
	waiting int
	// condition is the condition to store; nil if the subset has always been open.
	condition *appsv1beta1.SubsetCondition
	// turned means that the condition differs from the stored one.
	turned bool
	// recheck is when the passing of time alone could change the condition; 0 means never.
	recheck time.Duration
	// reserved describes its reserved pods, with reserveUnschedulablePods.
	reserved reservation
}

func adaptive(ud *appsv1beta1.UnitedDeployment) bool {
	return ud.Spec.Topology.ScheduleStrategy.Type == appsv1beta1.ScheduleAdaptive
}

// reschedules reports whether pods that can't be scheduled run elsewhere.
func reschedules(ud *appsv1beta1.UnitedDeployment) bool {
	return adaptive(ud) && asksToReserve(ud) == reserving(ud)
}

// roomOf returns the room of a subset. c is its workload, or nil if it has none yet; pods are the workload's pods.
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
			r.recheck = timing.Sooner(r.recheck, due.Sub(now))
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
		turn(corev1.ConditionFalse, reasonReschedule, fmt.Sprintf("%d pod(s) could not be scheduled within %s", overdue, critical))
	case !shut || overdue > 0 || r.reserved.count > 0: // Waiting pods may leave as soon as another subset has room.
	default:
		end := r.condition.LastTransitionTime.Add(duration)
		if end.After(now) {
			r.recheck = timing.Sooner(r.recheck, end.Sub(now))
		} else {
			turn(corev1.ConditionTrue, reasonRecover, fmt.Sprintf("no pod is waiting for a node, %s after the subset was closed", duration))
		}
	}
	return r
}

// durations returns how long a pod may wait for a node, and how long its subset is then closed.
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

// lineOf returns the status line of a subset; nil if it has none.
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

// rejected returns since when the scheduler has found no node for a pod. It returns false if the pod has a node, or the scheduler has not
// looked for one yet.
func rejected(pod *corev1.Pod) (since time.Time, ok bool) {
	c := podpatch.Find(pod, corev1.PodScheduled)
	if !podpatch.Active(pod) || pod.Spec.NodeName != "" || c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, true
}

// movable returns how many replicas of a workload may move elsewhere without deleting a pod that has a node. It relies on what the workload's
// controller deletes first: a pod without a node or, for StatefulSets, the pod with the highest ordinal.
func (c *child) movable(pods []*corev1.Pod) int {
	if !c.specObserved() {
		return 0 // The pods are about to change.
	}
	var all []*corev1.Pod
	placed, waiting := 0, 0
	for _, pod := range pods {
		if !podpatch.Active(pod) {
			continue
		}
		all = append(all, pod)
		if pod.Spec.NodeName != "" {
			placed++
		} else if _, ok := rejected(pod); ok {
			waiting++
		}
	}
	switch {
	case c.ordinals():
		waiting = waitingLast(all)
	case c.updated > 0 && c.updated < c.pods:
		return 0 // With pods at two revisions, the revision also affects which pod is deleted.
	}
	if waiting == 0 {
		return 0
	}
	waiting -= max(len(all)-c.replicas, 0) // These are surplus.
	if int(c.pods) == len(all) {
		waiting += max(c.replicas-len(all), 0) // The controller creates no more while these wait.
	}
	return max(min(waiting, c.replicas-placed), 0)
}

// ordinals reports whether the pods of a workload have ordinals.
func (c *child) ordinals() bool {
	return c.kind == statefulSets().GroupKind() || c.kind == advancedSets().GroupKind()
}

// waitingLast returns how many of the pods with the highest ordinals are rejected.
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

// adapt divides replicas so that only those of pods that can't be scheduled move. A scale-out fills the first open subset that has room, and a
// scale-in removes from the last. Replicas that no open subset may take stay where they wait. They are added to closed subsets only if all of
// them already wait. kept is how many replicas of each subset belong to reserved pods.
func adapt(total int, subsets []spread.Subset, rooms []room) (d spread.Division, kept []int) {
	subsets = slices.Clone(subsets)
	for i := range subsets {
		subsets[i].Current -= rooms[i].reserved.held
	}
	kept = keptReserved(total, subsets, rooms)
	wait := 0
	for i, n := range kept {
		subsets[i].Max = maxWithoutReserved(subsets[i].Max, total, n)
		wait += n
	}
	d = divideHeld(total, hold(total, subsets, rooms), rooms, wait)
	for i, n := range kept {
		d.Targets[i] += n
	}
	return d, kept
}

// divideHeld divides replicas among subsets within the bounds set by hold. Reserved pods wait in place of replicas that no open subset may
// take, so no others are added for these.
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

// hold bounds subsets so that a scale-out only adds replicas and a scale-in only removes some, except for replicas that leave a closed subset.
// A subset's own minReplicas and maxReplicas take precedence, but a closed subset gets no more replicas because of them.
func hold(total int, subsets []spread.Subset, rooms []room) []spread.Subset {
	atLeast := slices.Clone(subsets)
	for i := range atLeast { // Without numbers, the first subset may take all.
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

// resolve resolves a number of replicas. Divide reports invalid ones.
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

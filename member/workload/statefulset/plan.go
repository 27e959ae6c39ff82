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
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// planned is what to do now: what there is for the pods of any workload, and a StatefulSet's own. Nothing in it may be changed: it
// shares objects with what was observed.
type planned struct {
	podset.Plan

	// places are the ordinals that have a pod, in order.
	places []rollout.Slot
	// adopt are pods of nobody that are the set's by name and labels.
	adopt []*corev1.Pod
	// identify are pods that have lost the label of their name, by which Services select one pod.
	identify []*corev1.Pod
	// anew are claims that pods wait for and that are gone.
	anew []*corev1.PersistentVolumeClaim
	// handOver are claims that get another owner, grow those that get the size of their template.
	handOver []handOver
	grow     []growth
	// stuck is why a claim can't come to what its template asks for. waits is which claim a pod has waited for too long for.
	stuck, waits report.Failure
}

// plan returns what to do now to bring the observed set nearer to its spec, and why. It is a pure function.
func plan(o observed, now time.Time) planned {
	orphans := o.orphans()
	past := podset.History{
		All: o.history, Wanted: o.wanted, Current: o.set.Status.CurrentRevision, Pods: slices.Concat(o.pods, orphans),
	}
	w := planned{Plan: podset.NewPlan(past), adopt: orphans}
	goal, fault := goalOf(o)
	w.Ignored, w.places = fault, goal.Slots
	w.Classify(o.pods, viewOptions(o), now)
	if unread := w.prefer(o); unread != "" { // The order of updates is unknown, so none is begun.
		w.Ignored, goal.Paused = cmp.Or(w.Ignored, unread), true
	}
	w.judgeVolumes(o)
	w.identify = nameless(w.Pods)
	w.Next(goal, now)
	w.planClaims(o, goal, now)
	if o.overlap.Count > 0 {
		w.Recheck = podset.SoonerOf(w.Recheck, ownership.OverlapScanInterval)
	}
	if len(orphans) > 0 { // One that changes meanwhile is not adopted, and is to be looked at anew.
		w.Recheck = podset.SoonerOf(w.Recheck, podset.AdoptionRecheck)
	}
	w.DetectStall(podset.DefaultProgressDeadline, now)
	if w.stuck.Reason != "" && !w.Stalled.Scale { // It is why all else stands still.
		w.Stalled.Failure = w.stuck
	}
	w.TruncateHistory(int(ptr.Deref(o.set.Spec.RevisionHistoryLimit, defaultHistoryLimit)))
	return w
}

// orphans are the pods to take over. The set may control those that were seen as such before.
func (o *observed) orphans() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(o.overlap.Orphans), func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(o.pods, func(own *corev1.Pod) bool { return own.UID == pod.UID })
	})
}

// viewOptions is how the pods of a set are looked at.
func viewOptions(o observed) podset.ViewOptions {
	going := make(map[string]bool, len(o.claims))
	for name, c := range o.claims {
		going[name] = c.DeletionTimestamp != nil
	}
	return podset.ViewOptions{
		Selector: o.set.Spec.Selector, Rules: rulesOf(&o.set.Spec),
		Differ: &podset.Differ{History: o.history, Options: o.edits, Daemons: o.daemons},
		Extend: func(m *podset.Pod) {
			m.Slot = ordinalIn(o.set, m.Key)
			if n, err := strconv.Atoi(m.Slot); err == nil {
				m.Rank.Order = -n
			}
			// A pod without a node lets its claims go, and gets them anew.
			m.ToDelete = m.ToDelete || m.Object.Spec.NodeName != "" && podset.PVCLost(m.Object, claimNames(m.Key), going)
		},
	}
}

// prefer puts another order in the place of that of the ordinals, if the spec has one, and says what of it can't be read.
func (w *planned) prefer(o observed) string {
	r := o.set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.UnorderedUpdate == nil || r.UnorderedUpdate.PriorityStrategy == nil {
		return ""
	}
	if err := w.ApplyPreference(rollout.Preference{Priority: r.UnorderedUpdate.PriorityStrategy, KeepOrder: true}); err != nil {
		return "unorderedUpdate.priorityStrategy." + err.Error()
	}
	return ""
}

// nameless are the pods in places without the label that every pod is made with. As in kube 1.36 StatefulSet (identityMatches).
func nameless(all []podset.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range all {
		if m := &all[i]; m.Slot != "" && !m.Inactive && m.Object.Labels[keys.StatefulSetPodName] != m.Key {
			out = append(out, m.Object)
		}
	}
	return out
}

// judgeVolumes finds pods that lack a volume of a claim template, or have one too many: nobody can give a running pod another
// volume, so it is made anew where an update asks for it.
func (w *planned) judgeVolumes(o observed) {
	for i := range w.Pods {
		m := &w.Pods[i]
		if m.Old && m.NotInPlace == "" && !mounts(o.set, m.Object) {
			m.NotInPlace = "volumeClaimTemplates changed"
		}
	}
}

// mounts tells whether a pod has the volumes of the claim templates, and of no former one.
func mounts(set *appsv1beta1.StatefulSet, pod *corev1.Pod) bool {
	name, own := claimNames(pod.Name), 0
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

// rulesOf are what a spec says about the service of its pods.
func rulesOf(s *appsv1beta1.StatefulSetSpec) podset.Rules {
	rules := podset.Rules{Hooks: lifecycle.HooksOf(s.Lifecycle)}
	if r := s.UpdateStrategy.RollingUpdate; r != nil {
		rules.MinReady = time.Duration(ptr.Deref(r.MinReadySeconds, 0)) * time.Second
		if r.InPlaceUpdateStrategy != nil {
			rules.Grace = time.Duration(r.InPlaceUpdateStrategy.GracePeriodSeconds) * time.Second
		}
	}
	return rules
}

// goalOf resolves the numbers of a spec. Where one can't be acted on, fault says which, and the goal leaves it out.
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

// slots are the ordinals of the pods, of which the first ones keep the old revision. Of those that have neither a pod nor a PVC there
// are no more than one reconcile creates.
func slots(o observed, old int) (list []rollout.Slot, fault string) {
	s := &o.set.Spec
	r, _, faults := reserve(s.ReserveOrdinals, ordinalsPath())
	if len(faults) > 0 {
		fault = faults.ToAggregate().Error()
	}
	start, n := o.gates.start(s), ptr.Deref(s.Replicas, defaultReplicas)
	if last := r.last(start, n); last > math.MaxInt32 {
		fault = cmp.Or(fault, fmt.Sprintf("the last pod would have ordinal %d, and ordinals end at %d", last, math.MaxInt32))
	}
	all := r.ordinals(start, n, o.ordinalsInUse(), rollout.MaxCreates)
	list = make([]rollout.Slot, len(all))
	lastOld := r.last(start, int32(old)) //nolint:gosec // At most spec.replicas.
	for i, ordinal := range all {
		list[i] = rollout.Slot{Key: strconv.FormatInt(ordinal, 10), Old: ordinal <= lastOld}
	}
	return list, fault
}

// ordinalsInUse are those that have a pod or a PVC.
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
	for claim := range o.claims {
		add(podOfClaim(o.set, claim))
	}
	return used
}

func replicas(s *appsv1beta1.StatefulSetSpec) int { return int(ptr.Deref(s.Replicas, defaultReplicas)) }

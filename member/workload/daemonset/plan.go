package daemonset

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// reasonBackoff (Hold): a pod that has ended is deleted later, because others ended on its node before.
const reasonBackoff rollout.Reason = "Backoff"

// planned is what to do now: the plan for the pods, which all kinds share, and what a DaemonSet knows about nodes. It is read-only, because it
// shares objects with observed.
type planned struct {
	podset.Plan

	// shouldRun has all nodes; the value is true if a pod should run on the node. desired is the number of nodes where it is true.
	shouldRun map[string]bool
	desired   int
	// selectsAll means that the selector matches all pods, so nothing is done.
	selectsAll bool
}

// plan returns the next steps that bring the set to its spec, and why. It is a pure function.
func plan(o observed, now time.Time) planned {
	spec := &o.set.Spec
	history := podset.History{All: o.history, Wanted: o.wanted, Pods: o.pods}
	p := planned{Plan: podset.NewPlan(history), shouldRun: make(map[string]bool, len(o.nodes))}
	mayStay := p.matchNodes(o)
	p.Classify(p.onKnownNodes(o.pods), viewOptions(o), now)
	if s := spec.Selector; s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		p.selectsAll, p.InvalidSpec = true, "selector: it selects all pods: create a new DaemonSet with a narrower selector"
		return p
	}
	goal, err := goalOf(spec, p.desired)
	if err != nil {
		p.InvalidSpec = err.Error()
		return p
	}
	burst, err := burstOf(spec, p.desired)
	if err != nil {
		p.InvalidSpec = err.Error()
		return p
	}
	p.setSlots(&goal, o, mayStay)
	p.Next(goal, now)
	p.backOff(o.failures, now)
	p.limitBurst(burst)
	p.HoldUnsent(o.awaited.Why, o.awaited.Left)
	if o.overlap.Count > 0 {
		p.Recheck = timing.Sooner(p.Recheck, ownership.OverlapScanInterval)
	}
	p.DetectStall(podset.DefaultProgressDeadline, now)
	p.TruncateHistory(int(ptr.Deref(spec.RevisionHistoryLimit, defaultHistoryLimit)))
	return p
}

// matchNodes finds the nodes on which a pod should run, and returns the others on which an existing pod may stay.
func (p *planned) matchNodes(o observed) (mayStay map[string]bool) {
	m := matcher(&o.set.Spec.Template)
	mayStay = map[string]bool{}
	for _, node := range o.nodes {
		run, stay := m.Match(node)
		p.shouldRun[node.Name] = run
		if run {
			p.desired++
		} else if stay {
			mayStay[node.Name] = true
		}
	}
	return mayStay
}

// onKnownNodes leaves out pods on nodes that are not in the cache. Either the node is gone, and the pod garbage collector deletes its pods
// after asking the apiserver. Or the node is new, and the pod cache was faster than the node cache. Source: kube 1.36, DaemonSet controller.
func (p *planned) onKnownNodes(all []*corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(all))
	for _, pod := range all {
		if _, known := p.shouldRun[pod.Spec.NodeName]; known || pod.Spec.NodeName == "" {
			out = append(out, pod)
		}
	}
	return out
}

// viewOptions returns how to read the pods of a set: slots are nodes, and the last ones by name are updated first.
func viewOptions(o observed) podset.ViewOptions {
	order := make(map[string]int, len(o.nodes))
	for i, node := range o.nodes {
		order[node.Name] = -i
	}
	return podset.ViewOptions{
		Selector: o.set.Spec.Selector, Rules: rulesOf(&o.set.Spec), Memory: o.memory,
		Differ: &podset.Differ{History: o.history, Options: o.inPlace, Daemons: o.daemons},
		Extend: func(pod *podset.Pod) {
			pod.Slot = nodeOf(pod.Object)
			pod.Rank.Order = order[pod.Slot]
		},
	}
}

// rulesOf returns from the spec when pods count as available, and their lifecycle hooks.
func rulesOf(s *appsv1beta1.DaemonSetSpec) podset.Rules {
	return podset.Rules{MinReady: time.Duration(s.MinReadySeconds) * time.Second, Hooks: hooks(s)}
}

// inPlace reports whether pods are updated in place where that is possible.
func inPlace(s *appsv1beta1.DaemonSetSpec) bool {
	r := s.UpdateStrategy.RollingUpdate
	return s.UpdateStrategy.Type != appsv1beta1.DaemonSetOnDelete && r != nil && r.Type == appsv1beta1.DaemonSetInPlaceIfPossible
}

// goalOf resolves the numbers of a spec for the desired number of pods. An error names the field that can't be resolved.
func goalOf(s *appsv1beta1.DaemonSetSpec, desired int) (rollout.Goal, error) {
	g := rollout.Goal{CreateUpdated: true, Mode: rollout.ReCreate}
	r := s.UpdateStrategy.RollingUpdate
	if r == nil {
		r = &appsv1beta1.DaemonSetRollingUpdateStrategy{}
	}
	switch {
	case s.UpdateStrategy.Type == appsv1beta1.DaemonSetOnDelete:
		return rollout.Goal{CreateUpdated: true, Mode: rollout.OnDelete, MaxUnavailable: defaultMaxUnavailable}, nil
	case inPlace(s):
		g.Mode = rollout.InPlaceIfPossible
	}
	g.Paused = r.Paused
	for _, f := range []struct {
		name     string
		value    *intstr.IntOrString
		to       *int
		rounding rollout.Rounding
	}{
		{"partition", r.Partition, &g.Partition, rollout.Down},
		{"maxSurge", r.MaxSurge, &g.MaxSurge, rollout.Up},
		{"maxUnavailable", r.MaxUnavailable, &g.MaxUnavailable, rollout.Up},
	} {
		n, err := rollout.Resolve(f.value, desired, f.rounding)
		if err != nil {
			return rollout.Goal{}, fmt.Errorf("%s: %w", f.name, err)
		}
		*f.to = n
	}
	if g.MaxSurge == 0 && g.MaxUnavailable == 0 {
		g.MaxUnavailable = defaultMaxUnavailable
	}
	return g, nil
}

// burstOf returns how many pods may be created, deleted or updated in one reconcile. A percentage above 0 resolves to at least one pod;
// otherwise a set with few nodes would never start.
func burstOf(s *appsv1beta1.DaemonSetSpec, desired int) (int, error) {
	v := s.BurstReplicas
	if v == nil {
		return defaultBurst, nil
	}
	n, err := rollout.Resolve(v, desired, rollout.Down)
	if err != nil {
		return 0, fmt.Errorf("burstReplicas: %w", err)
	}
	if n == 0 && v.Type == intstr.String {
		return rollout.Resolve(v, 1, rollout.Up)
	}
	return n, nil
}

// occupants says whether a node has any pod at all, and whether it has one that is active, updated, available, or both updated and available.
type occupants struct{ some, active, updated, available, updatedAvailable bool }

func (p *planned) occupants() map[string]*occupants {
	out := make(map[string]*occupants, len(p.Pods))
	for i := range p.Pods {
		m := &p.Pods[i]
		on := out[m.Slot]
		if on == nil {
			on = &occupants{}
			out[m.Slot] = on
		}
		on.some = true
		if m.Inactive {
			continue
		}
		on.active = true
		on.updated = on.updated || !m.Old
		on.available = on.available || m.Available
		on.updatedAvailable = on.updatedAvailable || !m.Old && m.Available
	}
	return out
}

// setSlots sets the slots of a goal: the nodes on which a pod should run. Nodes that the update does not select keep the old revision, unless
// an updated pod is already available there. A node on which a pod may only stay is a slot as long as it has one. That pod counts towards
// neither maxUnavailable nor the partition.
func (p *planned) setSlots(g *rollout.Goal, o observed, mayStay map[string]bool) {
	occupied := p.occupants()
	free := len(o.nodes)
	if s := o.set.Spec.ScaleStrategy; s != nil && s.PartitionedScaling && g.Partition > 0 {
		updated := 0
		for node, on := range occupied {
			if p.shouldRun[node] && on.updated {
				updated++
			}
		}
		free = max(p.desired-updated-g.Partition, 0)
	}
	g.Slots = make([]rollout.Slot, 0, p.desired)
	for _, node := range o.nodes {
		on := occupied[node.Name]
		if on == nil {
			on = &occupants{}
		}
		slot := rollout.Slot{Key: node.Name}
		switch {
		case p.shouldRun[node.Name] && !on.some && free == 0:
			continue
		case p.shouldRun[node.Name]:
			if !on.some {
				free--
			}
			slot.Old = !on.updatedAvailable && !selects(&o.set.Spec, node)
		case mayStay[node.Name] && on.active:
			slot.Old = !on.updatedAvailable
			if !on.available {
				g.MaxUnavailable++
			}
			if !on.updated {
				g.Partition++
			}
		default:
			continue
		}
		g.Slots = append(g.Slots, slot)
	}
}

// backOff holds the deletion of pods that have ended until the back-off of their nodes is over.
func (p *planned) backOff(until map[string]time.Time, now time.Time) {
	n := 0
	p.Steps = slices.DeleteFunc(p.Steps, func(s podset.Step) bool {
		if s.Reason != rollout.ReasonEnded {
			return false
		}
		at, failed := until[s.Pod.Slot]
		if !failed || !at.After(now) {
			return false // The back-off may have ended since it was read.
		}
		n++
		p.Recheck = timing.Sooner(p.Recheck, at.Sub(now))
		return true
	})
	if n > 0 {
		p.hold(reasonBackoff, n, "%d ended pod(s) will be deleted later: other pods ended on their nodes before", n)
	}
}

// limitBurst limits creations, deletions and in-place updates to one burst each. Steps that complete a deletion or an update come before steps
// that begin one. Steps that bring pods back into service are never limited.
func (p *planned) limitBurst(burst int) {
	left, over := map[rollout.StepKind]int{}, 0
	for _, kinds := range [][]rollout.StepKind{
		{rollout.StepCreate}, {rollout.StepDelete, rollout.StepPrepareDelete}, {rollout.StepUpdateInPlace, rollout.StepMarkUnready},
	} {
		room := burst
		for _, kind := range kinds {
			n := len(p.Of(kind))
			left[kind] = min(n, room)
			room -= left[kind]
			over += n - left[kind]
		}
	}
	if over == 0 {
		return
	}
	p.Steps = slices.DeleteFunc(p.Steps, func(s podset.Step) bool {
		n, limited := left[s.Kind]
		if limited {
			left[s.Kind]--
		}
		return limited && n <= 0
	})
	p.hold(rollout.ReasonBurst, over,
		"%d pod(s) waiting: burstReplicas allows at most %d to be created, %d to be deleted and %d to be updated at a time",
		over, burst, burst, burst)
}

func (p *planned) hold(r rollout.Reason, n int, format string, args ...any) {
	p.Holds = append(p.Holds, rollout.Hold{Reason: r, Pods: n, Why: fmt.Sprintf(format, args...)})
}

// oldest returns the oldest pod on each node; nodes are counted by it. Source: kube 1.36, DaemonSet controller.
func (p *planned) oldest() map[string]*podset.Pod {
	out := make(map[string]*podset.Pod, len(p.Pods))
	for i := range p.Pods {
		m := &p.Pods[i]
		if other := out[m.Slot]; other == nil || olderOnNode(m.Object, other.Object) {
			out[m.Slot] = m
		}
	}
	return out
}

// olderOnNode reports whether a pod is older on its node than another one. A pod with a node comes before one without, then the older one.
func olderOnNode(a, b *corev1.Pod) bool {
	if (a.Spec.NodeName == "") != (b.Spec.NodeName == "") {
		return a.Spec.NodeName != ""
	}
	if x, y := metav1.NewTime(a.CreationTimestamp.Time), b.CreationTimestamp; !x.Equal(&y) {
		return x.Before(&y)
	}
	return a.Name < b.Name
}

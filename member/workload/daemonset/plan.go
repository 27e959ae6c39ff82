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
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// Reasons of holds that only a DaemonSet has.
const (
	// reasonBurst: burstReplicas lets no more pods be made or changed before the result is looked at.
	reasonBurst rollout.Reason = "Burst"
	// reasonBackoff: pods that have ended stay for a while, so that their nodes do not make one after the other.
	reasonBackoff rollout.Reason = "Backoff"
)

// planned is what to do now: what there is for the pods of any workload, and what a DaemonSet knows of nodes. Nothing in it may be
// changed: it shares objects with what was observed.
type planned struct {
	podset.Plan

	// fits are the nodes there are: true of those on which a pod is to run, which are desired in number.
	fits    map[string]bool
	desired int
	// selectsAll: the selector selects all pods, so nothing is done.
	selectsAll bool
}

// plan returns what to do now to bring the observed set nearer to its spec, and why. It is a pure function.
func plan(o observed, now time.Time) planned {
	spec := &o.set.Spec
	past := podset.History{All: o.history, Wanted: o.wanted, Pods: o.pods}
	w := planned{Plan: podset.NewPlan(past), fits: make(map[string]bool, len(o.nodes))}
	stays := w.look(o)
	w.Classify(w.placed(o.pods), w.lens(o), now)
	if s := spec.Selector; s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		w.selectsAll, w.InvalidSpec = true, "selector: it selects all pods, which is never meant: make a new DaemonSet with a narrower one"
		return w
	}
	goal, err := goalOf(spec, w.desired)
	if err != nil {
		w.InvalidSpec = err.Error()
		return w
	}
	burst, err := burstOf(spec, w.desired)
	if err != nil {
		w.InvalidSpec = err.Error()
		return w
	}
	w.place(&goal, o, stays)
	w.Next(goal, now)
	w.backOff(o.failures, now)
	w.cut(burst)
	if o.overlap.Count > 0 {
		w.Recheck = podset.SoonerOf(w.Recheck, ownership.OverlapScanInterval)
	}
	w.DetectStall(podset.DefaultProgressDeadline, now)
	w.TruncateHistory(past, int(ptr.Deref(spec.RevisionHistoryLimit, defaultHistoryLimit)))
	return w
}

// look finds the nodes that fit, and those on which a pod that is there may stay.
func (w *planned) look(o observed) (stays map[string]bool) {
	n := needsOf(&o.set.Spec.Template)
	stays = map[string]bool{}
	for _, node := range o.nodes {
		run, stay := n.fit(node)
		w.fits[node.Name] = run
		if run {
			w.desired++
		} else if stay {
			stays[node.Name] = true
		}
	}
	return stays
}

// placed are the pods but those on nodes that the cache does not show. Such a node is gone: then its pods are removed by who looks
// after pods of all kinds, and asks the apiserver first. Or it has just come, and news of its pod were faster. Source: kube
// 1.36, DaemonSet controller.
func (w *planned) placed(all []*corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(all))
	for _, pod := range all {
		if _, known := w.fits[pod.Spec.NodeName]; known || pod.Spec.NodeName == "" {
			out = append(out, pod)
		}
	}
	return out
}

// viewOptions is how the pods of a set are looked at: their places are nodes, of which the last by name are updated first.
func (w *planned) lens(o observed) podset.ViewOptions {
	order := make(map[string]int, len(o.nodes))
	for i, node := range o.nodes {
		order[node.Name] = -i
	}
	return podset.ViewOptions{
		Selector: o.set.Spec.Selector, Rules: rulesOf(&o.set.Spec),
		Differ: &podset.Differ{History: o.history, Options: o.edits, Daemons: o.daemons},
		Extend: func(m *podset.Pod) {
			m.Slot = nodeOf(m.Object)
			m.Rank.Order = order[m.Slot]
		},
	}
}

// rulesOf are what a spec says about the service of its pods.
func rulesOf(s *appsv1beta1.DaemonSetSpec) podset.Rules {
	return podset.Rules{MinReady: time.Duration(s.MinReadySeconds) * time.Second, Hooks: hooks(s)}
}

// inPlace tells whether pods are changed in place where that is possible.
func inPlace(s *appsv1beta1.DaemonSetSpec) bool {
	r := s.UpdateStrategy.RollingUpdate
	return s.UpdateStrategy.Type != appsv1beta1.DaemonSetOnDelete && r != nil && r.Type == appsv1beta1.DaemonSetInPlaceIfPossible
}

// goalOf resolves the numbers of a spec for that many nodes that fit. An error names the field that has none.
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

// burstOf is how many pods may be made or changed before the result is looked at. A percentage above 0 is one at least: a set
// of few nodes would never begin.
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

// occupants are the pods of one place: whether there is any, one that counts, one of the new revision, and one that is available.
type occupants struct{ some, active, updated, available, updatedAvailable bool }

func (w *planned) occupants() map[string]*occupants {
	out := make(map[string]*occupants, len(w.Pods))
	for i := range w.Pods {
		m := &w.Pods[i]
		p := out[m.Slot]
		if p == nil {
			p = &occupants{}
			out[m.Slot] = p
		}
		p.some = true
		if m.Inactive {
			continue
		}
		p.active = true
		p.updated = p.updated || !m.Old
		p.available = p.available || m.Available
		p.updatedAvailable = p.updatedAvailable || !m.Old && m.Available
	}
	return out
}

// place makes the places of a goal. What its update leaves alone keeps the old revision, unless the new one serves there
// already. A node on which a pod may only stay is a place as long as it has one: that neither the budget nor the partition
// can be spent on.
func (w *planned) place(g *rollout.Goal, o observed, stays map[string]bool) {
	there := w.occupants()
	room := len(o.nodes)
	if s := o.set.Spec.ScaleStrategy; s != nil && s.PartitionedScaling && g.Partition > 0 {
		updated := 0
		for node, p := range there {
			if w.fits[node] && p.updated {
				updated++
			}
		}
		room = max(w.desired-updated-g.Partition, 0)
	}
	g.Slots = make([]rollout.Slot, 0, w.desired)
	for _, node := range o.nodes {
		p := there[node.Name]
		if p == nil {
			p = &occupants{}
		}
		slot := rollout.Slot{Key: node.Name}
		switch {
		case w.fits[node.Name] && !p.some && room == 0:
			continue
		case w.fits[node.Name]:
			if !p.some {
				room--
			}
			slot.Old = !p.updatedAvailable && !selects(&o.set.Spec, node)
		case stays[node.Name] && p.active:
			slot.Old = !p.updatedAvailable
			if !p.available {
				g.MaxUnavailable++
			}
			if !p.updated {
				g.Partition++
			}
		default:
			continue
		}
		g.Slots = append(g.Slots, slot)
	}
}

// backOff leaves pods that have ended where they are for as long as their nodes have to wait.
func (w *planned) backOff(until map[string]time.Time, now time.Time) {
	n := 0
	waits := func(c podset.Change) bool {
		at, failed := until[c.Slot]
		if c.Reason != rollout.ReasonEnded || !failed || !at.After(now) {
			return false // Its time may have come since the failures were read.
		}
		n++
		w.Recheck = podset.SoonerOf(w.Recheck, at.Sub(now))
		return true
	}
	w.Delete, w.PrepareDelete = slices.DeleteFunc(w.Delete, waits), slices.DeleteFunc(w.PrepareDelete, waits)
	if n > 0 {
		w.hold(reasonBackoff, n, "%d pods that have ended stay for a while: others ended on their nodes before", n)
	}
}

// cut keeps creations, deletions and updates in place each within a burst.
func (w *planned) cut(burst int) {
	over := 0
	rest := func(n, left int) (taken, remain int) {
		taken = min(n, left)
		over += n - taken
		return taken, left - taken
	}
	n, _ := rest(len(w.Create), burst)
	w.Create = w.Create[:n]
	for _, lists := range [][2]*[]podset.Change{{&w.Delete, &w.PrepareDelete}, {&w.Edit, &w.Mark}} {
		left := burst
		for _, list := range lists {
			n, left = rest(len(*list), left)
			*list = (*list)[:n]
		}
	}
	if over > 0 {
		w.hold(reasonBurst, over, "%d pods wait: burstReplicas lets %d be made, %d be deleted and %d be updated at a time", over, burst, burst, burst)
	}
}

func (w *planned) hold(r rollout.Reason, n int, format string, args ...any) {
	w.Holds = append(w.Holds, rollout.Hold{Reason: r, Pods: n, Why: fmt.Sprintf(format, args...)})
}

// oldest are the pods that nodes are counted by: of several on a node, the first that got there. Source: kube 1.36, DaemonSet
// controller.
func (w *planned) oldest() map[string]*podset.Pod {
	out := make(map[string]*podset.Pod, len(w.Pods))
	for i := range w.Pods {
		m := &w.Pods[i]
		if was := out[m.Slot]; was == nil || before(m.Object, was.Object) {
			out[m.Slot] = m
		}
	}
	return out
}

// before tells whether a pod came to its node before another one: one that is on it before one that is for it, then the older.
func before(a, b *corev1.Pod) bool {
	if (a.Spec.NodeName == "") != (b.Spec.NodeName == "") {
		return a.Spec.NodeName != ""
	}
	if x, y := metav1.NewTime(a.CreationTimestamp.Time), b.CreationTimestamp; !x.Equal(&y) {
		return x.Before(&y)
	}
	return a.Name < b.Name
}

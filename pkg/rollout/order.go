package rollout

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// member is an active pod within one call of Next.
type member struct {
	*Pod
	// spread is higher for pods whose node or topology domain is fuller; only set where pods are scaled in.
	spread float64
	// stepped: the pod has its step. surged: another one is made first in its place.
	stepped, surged bool
}

// before orders pods for deletion: what serves least goes first. As in kube 1.36 ReplicaSet (ActivePodsWithRanks), with
// availability before readiness and with the rank of topology spread. Before all that come pods that were prepared for
// their deletion, so that a choice once made stays.
//
//  1. without node before assigned
//  2. pending before unknown before running
//  3. not available before available, not ready before ready
//  4. lower deletion cost
//  5. fuller node or topology domain
//  6. ready for a shorter time
//  7. more restarts
//  8. newer
func before(a, b *member) int {
	return cmp.Or(
		falseFirst(!a.PreparingDelete, !b.PreparingDelete),
		falseFirst(a.Rank.Assigned, b.Rank.Assigned),
		cmp.Compare(phase(a.Rank.Phase), phase(b.Rank.Phase)),
		falseFirst(a.Available, b.Available),
		falseFirst(a.Ready, b.Ready),
		cmp.Compare(a.Rank.Cost, b.Rank.Cost),
		cmp.Compare(b.spread, a.spread),
		byAge(a.Pod, b.Pod),
	)
}

// firstToUpdate orders pods for an update: first those in the middle of one, then by the caller's order, then as
// before does without availability, cost and spread.
func firstToUpdate(a, b *member) int {
	return cmp.Or(
		falseFirst(a.Update < UpdatePreparing, b.Update < UpdatePreparing),
		cmp.Compare(a.Rank.Order, b.Rank.Order),
		falseFirst(a.Rank.Assigned, b.Rank.Assigned),
		cmp.Compare(phase(a.Rank.Phase), phase(b.Rank.Phase)),
		falseFirst(a.Ready, b.Ready),
		byAge(a.Pod, b.Pod),
	)
}

// taken tells that the pod is out of service already, because of a step that was done before.
func (p *Pod) taken() bool { return p.PreparingDelete || p.Update >= UpdatePreparing }

// serves tells that the pod is ready and nobody has asked for it to be let go.
func (p *Pod) serves() bool { return p.Ready && p.Update == UpdateNone && !p.PreparingDelete }

// byAge is the last part of both orders. The key makes it total, so that the order of the list given never matters.
func byAge(a, b *Pod) int {
	ready := 0
	if a.Ready && b.Ready {
		ready = latestFirst(a.Rank.ReadySince, b.Rank.ReadySince)
	}
	return cmp.Or(
		ready,
		cmp.Compare(b.Rank.Restarts, a.Rank.Restarts),
		latestFirst(a.Rank.Created, b.Rank.Created),
		cmp.Compare(a.Key, b.Key),
	)
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// latestFirst puts an unknown (zero) time before every known one.
func latestFirst(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return falseFirst(!a.IsZero(), !b.IsZero())
	}
	return b.Compare(a)
}

func phase(p corev1.PodPhase) int {
	switch p {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	case corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed:
	}
	return 0
}

// sortForScaleIn sorts pods so that the first are to be deleted first.
//
// Without topology constraints the spread of a pod is the number of pods on its node. With them, pods are grouped by
// their value for each constraint and sorted within the group; the spread is the sum over the constraints of
// (group size - index) * ln(groups + 2), so that the fuller group loses a pod first and a constraint with many domains
// weighs more: of zones with 5 and 3 pods, the two first of the larger zone go.
func sortForScaleIn(pods []*member) {
	nodes := make(map[string]int, len(pods))
	constraints := 0
	for _, m := range pods {
		constraints = max(constraints, len(m.Rank.Domains))
		if m.Rank.Node != "" {
			nodes[m.Rank.Node]++
		}
	}
	for _, m := range pods {
		m.spread = float64(nodes[m.Rank.Node])
	}
	slices.SortFunc(pods, before)
	if constraints == 0 {
		return
	}
	sum := make(map[*member]float64, len(pods))
	for i := range constraints {
		// The list is sorted, so each group comes out sorted.
		groups := map[string][]*member{}
		for _, m := range pods {
			if i < len(m.Rank.Domains) {
				groups[m.Rank.Domains[i]] = append(groups[m.Rank.Domains[i]], m)
			}
		}
		weight := math.Log(float64(len(groups) + 2))
		for _, g := range groups {
			for j, m := range g {
				sum[m] += float64(len(g)-j) * weight
			}
		}
	}
	for _, m := range pods {
		m.spread = sum[m]
	}
	slices.SortFunc(pods, before)
}

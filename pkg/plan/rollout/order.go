package rollout

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// podState is an active pod within one call of Next.
type podState struct {
	*Pod
	// spread is higher for pods whose node or topology domain has more pods. It is only set for a scale-in.
	spread float64
	// serves: the pod is available, or it is ready and the rollout is going to replace it. minReadySeconds is meant for pods that a rollout
	// creates: if it is raised to hold the rollout, as in a blue-green release, pods that ran before don't become dispensable.
	serves bool
	// hasStep: a step is planned for the pod, or it waits. surged: a replacement is created beside it first.
	hasStep, surged bool
}

// deletionOrder orders pods for deletion like the ReplicaSet controller of Kubernetes 1.36 (ActivePodsWithRanks), but with availability before
// readiness and with the rank of topology spread. Pods that are preparing delete come before all others, so that the choice is stable.
//
//  1. without node before assigned
//  2. pending before unknown before running
//  3. not available before available, not ready before ready
//  4. lower deletion cost
//  5. fuller node or topology domain
//  6. ready for a shorter time
//  7. more restarts
//  8. newer
func deletionOrder(a, b *podState) int {
	return cmp.Or(
		FalseFirst(!a.PreparingDelete, !b.PreparingDelete),
		FalseFirst(a.Rank.Assigned, b.Rank.Assigned),
		cmp.Compare(phase(a.Rank.Phase), phase(b.Rank.Phase)),
		FalseFirst(a.Available, b.Available),
		FalseFirst(a.Ready, b.Ready),
		cmp.Compare(a.Rank.Cost, b.Rank.Cost),
		cmp.Compare(b.spread, a.spread),
		byAge(a.Pod, b.Pod),
	)
}

// updateOrder orders pods for an update: first pods whose update has begun, then the caller's order, then deletionOrder without availability,
// cost and spread.
func updateOrder(a, b *podState) int {
	return cmp.Or(
		FalseFirst(a.Update < UpdatePreparing, b.Update < UpdatePreparing),
		cmp.Compare(a.Rank.Order, b.Rank.Order),
		FalseFirst(a.Rank.Assigned, b.Rank.Assigned),
		cmp.Compare(phase(a.Rank.Phase), phase(b.Rank.Phase)),
		FalseFirst(a.Ready, b.Ready),
		byAge(a.Pod, b.Pod),
	)
}

// outOfService reports whether an earlier step has taken the pod out of service.
func (p *Pod) outOfService() bool { return p.PreparingDelete || p.Update >= UpdatePreparing }

// inService reports whether the pod is ready and neither being updated nor preparing delete.
func (p *Pod) inService() bool { return p.Ready && p.Update == UpdateNone && !p.PreparingDelete }

// byAge is the last part of both orders. The key makes the order total, so that the order of the input never matters.
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

// FalseFirst compares two booleans for sorting: false comes before true.
func FalseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// latestFirst sorts an unknown (zero) time before every known one.
func latestFirst(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return FalseFirst(!a.IsZero(), !b.IsZero())
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
// Without topology constraints the spread of a pod is the number of pods on its node. With them, pods are grouped by their value for each
// constraint and sorted within the group. The spread is the sum over the constraints of (group size - index) * ln(groups + 2), so that the
// fuller group loses a pod first and a constraint with many domains weighs more: of zones with 5 and 3 pods, the first two pods to go are in the
// larger zone.
func sortForScaleIn(pods []*podState) {
	nodes := make(map[string]int, len(pods))
	constraints := 0
	for _, p := range pods {
		constraints = max(constraints, len(p.Rank.Domains))
		if p.Rank.Node != "" {
			nodes[p.Rank.Node]++
		}
	}
	for _, p := range pods {
		p.spread = float64(nodes[p.Rank.Node])
	}
	slices.SortFunc(pods, deletionOrder)
	if constraints == 0 {
		return
	}
	sum := make(map[*podState]float64, len(pods))
	for i := range constraints {
		// The list is sorted, so each group comes out sorted.
		groups := map[string][]*podState{}
		for _, p := range pods {
			if i < len(p.Rank.Domains) {
				groups[p.Rank.Domains[i]] = append(groups[p.Rank.Domains[i]], p)
			}
		}
		weight := math.Log(float64(len(groups) + 2))
		for _, g := range groups {
			for j, p := range g {
				sum[p] += float64(len(g)-j) * weight
			}
		}
	}
	for _, p := range pods {
		p.spread = sum[p]
	}
	slices.SortFunc(pods, deletionOrder)
}

package workloadspread

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// A workload that scales in deletes all surplus pods at once, before anyone could write new costs. So the costs must be right in advance for
// every lower number of replicas. A limit that is a number stays the same, so all pods of a subset within it have one cost. A limit that is a
// percentage shrinks with the replicas, so each pod has a cost of its own.

const (
	// step100 is the difference in cost between subsets.
	step100 = 100
	// ranked is the base of costs with percentages. It is more than the number of pods that a workload has.
	ranked = 1_000_000
)

// usesDeletionCost reports whether the controller of a pod reads keys.PodDeletionCost. CloneSets and ReplicaSets do, whatever owns the
// ReplicaSet.
func usesDeletionCost(pod metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return false
	}
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	return kind == replicaSet() || kind == cloneSet()
}

// costOf returns the keys.PodDeletionCost of a pod. The first subset shrinks last, and surplus pods go before all others. For pods of an old
// version the first subset shrinks first, to free its places for the new version.
func costOf(subset, subsets int, latest, surplus bool) string {
	if !latest {
		subset = subsets - 1 - subset
	}
	cost := step100 * (subsets - subset)
	if surplus {
		cost = -step100 * (subset + 1)
	}
	return strconv.Itoa(cost)
}

// costOfNone returns the cost of a pod in no subset.
func costOfNone(subsets int) string { return strconv.Itoa(-step100 * (subsets + 1)) }

// costOfNew returns the cost of a pod that has just got a place in a subset. It predicts the controller's result from the status, so that the
// controller rarely has to write another cost.
func costOfNew(ws *appsv1beta1.WorkloadSpread, version string, subset int, total int32, id string) string {
	if !anyPercentage(ws) {
		return costOf(subset, len(ws.Spec.Subsets), true, false)
	}
	taken, counted := make([]int, len(ws.Spec.Subsets)), false
	for i := range taken {
		if st := statusOf(ws.Status.VersionedSubsetStatuses[version], ws.Spec.Subsets[i].Name); st != nil {
			_, has := st.CreatingPods[id]
			taken[i], counted = int(takenPlaces(st)), counted || has
		}
	}
	if !counted {
		taken[subset]++
	}
	return costsOf(ws, taken, total)[subset][taken[subset]-1]
}

// costsOf returns the costs for the pods of each subset with a percentage, highest first. They cover the existing pods and those still to
// come.
func costsOf(ws *appsv1beta1.WorkloadSpread, pods []int, total int32) [][]string {
	n, left := 0, slices.Clone(pods)
	for i, wanted := range fillSubsets(ws, total) {
		left[i] = max(left[i], wanted)
		n += left[i]
	}
	out := make([][]string, len(left))
	for ; n > 0; n-- {
		i := shrunkNext(ws, left, n)
		left[i]--
		out[i] = append(out[i], strconv.Itoa(ranked-n))
	}
	for i := range out {
		slices.Reverse(out[i])
	}
	return out
}

// shrunkNext returns the subset from which the next of n pods is deleted. That is the last subset, unless others have to shrink to stay
// within their limits with one pod less. It looks ahead, because rounding can lower several limits at once.
func shrunkNext(ws *appsv1beta1.WorkloadSpread, pods []int, n int) int {
	for ahead := 1; ahead <= min(len(pods), n); ahead++ {
		over, last := 0, -1
		for i := range pods {
			if most := limit(&ws.Spec.Subsets[i], toInt32(n-ahead)); most != unlimited && pods[i] > int(most) {
				over, last = over+pods[i]-int(most), i
			}
		}
		if over >= ahead {
			return last
		}
	}
	last := len(pods) - 1
	for pods[last] == 0 {
		last--
	}
	return last
}

// fillSubsets returns how many pods go to each subset if the workload has that many replicas.
func fillSubsets(ws *appsv1beta1.WorkloadSpread, total int32) []int {
	out, left := make([]int, len(ws.Spec.Subsets)), max(total, 0)
	for i := range out {
		n := left
		if most := limit(&ws.Spec.Subsets[i], total); most != unlimited {
			n = min(n, most)
		}
		out[i], left = int(n), left-n
	}
	return out
}

// setCosts sets the deletion costs of all pods.
func (p *planned) setCosts(o observed) {
	write := make(map[*corev1.Pod]int, len(p.patches))
	for i := range p.patches {
		write[p.patches[i].pod] = i
	}
	set := func(pod *corev1.Pod, cost string) {
		if !usesDeletionCost(pod) || pod.Annotations[keys.PodDeletionCost] == cost {
			return
		}
		i, ok := write[pod]
		if !ok {
			i = len(p.patches)
			p.patches = append(p.patches, patch{pod: pod, annotations: map[string]string{}})
		}
		p.patches[i].annotations[keys.PodDeletionCost] = cost
	}
	n := len(o.ws.Spec.Subsets)
	for version, podsBySubset := range p.subsets {
		latest := o.newest == "" || version == o.newest || version == versionIgnored
		if latest && anyPercentage(o.ws) {
			p.rankCosts(o, podsBySubset, set)
		} else {
			for i := range o.ws.Spec.Subsets {
				most := limit(&o.ws.Spec.Subsets[i], o.total)
				for rank, pod := range slices.SortedStableFunc(slices.Values(podsBySubset[i]), compareForDeletion) {
					set(pod, costOf(i, n, latest, most != unlimited && rank >= int(most)))
				}
			}
		}
		for _, pod := range podsBySubset[n] {
			set(pod, costOfNone(n))
		}
	}
}

// rankCosts sets the costs of one version's pods if limits are percentages. Workloads delete pods that aren't ready first, whatever their
// cost, so these get the lowest costs of their subset. Other pods keep their costs where possible.
func (p *planned) rankCosts(o observed, podsBySubset [][]*corev1.Pod, set func(*corev1.Pod, string)) {
	counts := make([]int, len(o.ws.Spec.Subsets))
	for i := range counts {
		counts[i] = len(podsBySubset[i])
	}
	for i, costs := range costsOf(o.ws, counts, o.total) {
		pods := slices.SortedStableFunc(slices.Values(podsBySubset[i]), compareForDeletion)
		ready := 0
		for ready < len(pods) && podpatch.Ready(pods[ready]) {
			ready++
		}
		reuseCosts(pods[:ready], costs[:ready], set)
		reuseCosts(pods[ready:], costs[ready:len(pods)], set)
	}
}

// reuseCosts gives each pod one of the costs, of which there are as many as pods: its current cost if possible, otherwise the highest unused
// one.
func reuseCosts(pods []*corev1.Pod, costs []string, set func(*corev1.Pod, string)) {
	free := make(map[string]bool, len(costs))
	for _, cost := range costs {
		free[cost] = true
	}
	var without []*corev1.Pod
	for _, pod := range pods {
		if own := pod.Annotations[keys.PodDeletionCost]; free[own] {
			delete(free, own)
		} else {
			without = append(without, pod)
		}
	}
	costs = slices.DeleteFunc(slices.Clone(costs), func(cost string) bool { return !free[cost] })
	for i, pod := range without {
		set(pod, costs[i])
	}
}

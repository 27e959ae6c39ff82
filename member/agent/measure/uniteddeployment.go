package measure

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/plan/overlay"
)

// measureUnitedDeployment also reports the subsets, because the hub allocates by them.
func measureUnitedDeployment(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured) {
	ud := &appsv1beta1.UnitedDeployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, ud); err != nil {
		unreadable(s, err)
		return
	}
	u := ud.Status
	if s.Revision = u.UpdatedRevision; s.Revision == "" { // v1alpha1 has it here.
		s.Revision, _, _ = unstructured.NestedString(live.Object, "status", "updateStatus", "updatedRevision")
	}
	s.Counts = fleetv1alpha1.WorkCounts{
		Replicas: u.Replicas, Ready: u.ReadyReplicas, Available: u.AvailableReplicas,
		Updated: u.UpdatedReplicas, UpdatedReady: u.UpdatedReadyReplicas, UpdatedAvailable: u.UpdatedAvailableReplicas,
	}
	if ud.Spec.Replicas != nil {
		s.Counts.Desired = *ud.Spec.Replicas
	}
	asked := map[string]int32{}
	for _, subset := range ud.Spec.Topology.Subsets {
		if subset.Replicas != nil && subset.Replicas.Type == intstr.Int { // Of a percentage, only the controller knows the number.
			asked[subset.Name] = subset.Replicas.IntVal
		}
	}
	healthy := u.ObservedGeneration >= ud.Generation && u.Replicas == s.Counts.Desired && len(u.SubsetStatuses) == len(ud.Spec.Topology.Subsets)
	for i, sub := range u.SubsetStatuses {
		if i == fleetv1alpha1.SubsetsPerRow {
			break
		}
		c := fleetv1alpha1.SubsetCounts{
			Name: sub.Name, Partition: sub.Partition,
			WorkCounts: fleetv1alpha1.WorkCounts{
				Desired: sub.Replicas, Replicas: sub.Replicas, Ready: sub.ReadyReplicas, Available: sub.AvailableReplicas,
				Updated: sub.UpdatedReplicas, UpdatedReady: sub.UpdatedReadyReplicas, UpdatedAvailable: sub.UpdatedAvailableReplicas,
			},
		}
		if n, ok := asked[sub.Name]; ok {
			c.Desired = n
		}
		healthy = healthy && c.Replicas == c.Desired && c.Available >= c.Desired && c.Updated >= c.Desired-c.Partition
		s.Subsets = append(s.Subsets, c)
	}
	s.Phase = fleetv1alpha1.WorkProgressing
	if healthy {
		s.Phase = fleetv1alpha1.WorkHealthy
	}
	for _, c := range u.Conditions {
		if c.Type == appsv1beta1.SubsetFailure && c.Status == corev1.ConditionTrue {
			s.Phase, s.Reason, s.Message = fleetv1alpha1.WorkDegraded, string(appsv1beta1.SubsetFailure), c.Message
		}
	}
}

// shrunkUnitedDeployment compares the subsets as well as spec.replicas. A subset that is left out counts as shrinking.
func shrunkUnitedDeployment(want, live *unstructured.Unstructured) string {
	if field := shrunkReplicas(want, live); field != "" {
		return field
	}
	wanted, current := subsetReplicas(want), subsetReplicas(live)
	for _, name := range slices.Sorted(maps.Keys(current)) {
		if replicas, ok := wanted[name]; !ok || !replicas.atLeast(current[name]) {
			return "spec.topology.subsets[" + name + "]"
		}
	}
	return ""
}

// onlyShrinksUnitedDeployment allows fewer replicas and subsets, and a changed partition or maxUnavailable. These are numbers of pods too, and
// start no update while the template stays the same: a lower partition, or a higher maxUnavailable, continues one that was allowed to begin.
func onlyShrinksUnitedDeployment(want, live *unstructured.Unstructured) bool {
	current := map[string]any{}
	subsets, _, _ := unstructured.NestedSlice(live.Object, "spec", "topology", "subsets")
	for _, s := range subsets {
		if subset, ok := s.(map[string]any); ok {
			name, _, _ := unstructured.NestedString(subset, "name")
			current[name] = subset
		}
	}
	wanted, _, _ := unstructured.NestedSlice(want.Object, "spec", "topology", "subsets")
	kept := make([]any, 0, len(wanted))
	for _, s := range wanted {
		subset, _ := s.(map[string]any)
		name, _, _ := unstructured.NestedString(subset, "name")
		kept = append(kept, current[name]) // A new subset has nothing to differ from.
	}
	former := live.DeepCopy()
	if err := unstructured.SetNestedSlice(former.Object, kept, "spec", "topology", "subsets"); err != nil {
		return false
	}
	before := subsetReplicas(live)
	for name, replicas := range subsetReplicas(want) {
		if limit, ok := before[name]; !ok || !limit.atLeast(replicas) {
			return false
		}
	}
	for _, path := range overlay.Paths(former.Object, want.Object) {
		switch {
		case path == "spec.replicas" && shrunkReplicas(want, live) != "":
		case strings.HasPrefix(path, "spec.topology.subsets[") && strings.HasSuffix(path, "].replicas"):
		case strings.HasPrefix(path, "spec.updateStrategy.manualUpdate.partitions"),
			strings.HasPrefix(path, "spec.updateStrategy.manualUpdate.maxUnavailable"):
		default:
			return false
		}
	}
	return true
}

// amount is the replicas of a subset: a number, as the hub writes it, a percentage of all replicas, or an even share of the rest.
type amount struct {
	n    int64
	unit string
}

// atLeast reports whether an amount is known to be no less than another one.
func (a amount) atLeast(b amount) bool { return a.unit == b.unit && a.n >= b.n }

// subsetReplicas reads the replicas of the subsets.
func subsetReplicas(o *unstructured.Unstructured) map[string]amount {
	subsets, _, _ := unstructured.NestedSlice(o.Object, "spec", "topology", "subsets")
	out := make(map[string]amount, len(subsets))
	for _, s := range subsets {
		subset, ok := s.(map[string]any)
		if !ok {
			continue
		}
		name, _, _ := unstructured.NestedString(subset, "name")
		switch replicas := subset["replicas"].(type) {
		case nil:
			out[name] = amount{unit: "share"}
		case int64:
			out[name] = amount{n: replicas, unit: "number"}
		case string:
			n, err := strconv.ParseInt(strings.TrimSuffix(replicas, "%"), 10, 64)
			if out[name] = (amount{n: n, unit: "%"}); err != nil || !strings.HasSuffix(replicas, "%") {
				out[name] = amount{unit: replicas} // Admission refuses it.
			}
		}
	}
	return out
}

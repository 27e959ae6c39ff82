package workloadspread

import (
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// unlimited is the number of pods for "no limit", as in missingReplicas.
const unlimited = -1

// limit returns how many pods of one version a subset may have, if the workload has that many replicas. Percentages are rounded up. One that
// can't be parsed counts as 0.
func limit(s *appsv1beta1.WorkloadSpreadSubset, total int32) int32 {
	if s.MaxReplicas == nil {
		return unlimited
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(s.MaxReplicas, int(total), true)
	if err != nil {
		return 0
	}
	return toInt32(max(n, 0))
}

// toInt32 converts a count for the status.
func toInt32(n int) int32 { return int32(min(n, math.MaxInt32)) } //nolint:gosec // It fits.

// hasPercentage reports whether the limit of a subset depends on the replicas of the workload.
func hasPercentage(s appsv1beta1.WorkloadSpreadSubset) bool {
	return s.MaxReplicas != nil && s.MaxReplicas.Type == intstr.String
}

// anyPercentage reports whether the limit of any subset depends on the replicas of the workload.
func anyPercentage(ws *appsv1beta1.WorkloadSpread) bool {
	return slices.ContainsFunc(ws.Spec.Subsets, hasPercentage)
}

// totalUnknown means that the apiserver has to be asked for the number of replicas.
const totalUnknown = -1

// takenPlaces returns how many places of a subset are taken.
func takenPlaces(st *appsv1beta1.WorkloadSpreadSubsetStatus) int32 {
	return st.Replicas + toInt32(len(st.CreatingPods))
}

// takesAllPods reports whether there is nothing to count because all pods go to the only subset.
func takesAllPods(ws *appsv1beta1.WorkloadSpread) bool {
	return len(ws.Spec.Subsets) == 1 && ws.Spec.Subsets[0].MaxReplicas == nil
}

// statusOf returns the status of a subset, or nil.
func statusOf(all []appsv1beta1.WorkloadSpreadSubsetStatus, name string) *appsv1beta1.WorkloadSpreadSubsetStatus {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// schedulable reports whether new pods may go to a subset.
func schedulable(ws *appsv1beta1.WorkloadSpread, name string) bool {
	s := statusOf(ws.Status.SubsetStatuses, name)
	if s == nil {
		return true
	}
	c := report.GetCondition(s.Conditions, appsv1beta1.WorkloadSpreadSubsetSchedulable)
	return c == nil || c.Status != metav1.ConditionFalse
}

// room returns how many more pods of a version a subset may get. all is the status of that version. The status reflects counted pods, while
// the spec and the workload may be newer. A lower limit applies at once, and so does a higher percentage if the replicas are known. A higher
// number, a new subset, and a limit on a subset that had none apply once the controller has counted the pods.
func room(s *appsv1beta1.WorkloadSpreadSubset, all []appsv1beta1.WorkloadSpreadSubsetStatus, total int32) int32 {
	switch {
	case s.MaxReplicas == nil:
		return unlimited
	case len(all) == 0: // There is no pod of this version.
		return limit(s, total)
	}
	st := statusOf(all, s.Name)
	switch {
	case st == nil || st.MissingReplicas == unlimited:
		return 0
	case hasPercentage(*s) && total == totalUnknown:
		return st.MissingReplicas
	case hasPercentage(*s):
		return max(limit(s, total)-takenPlaces(st), 0)
	}
	return min(st.MissingReplicas, max(limit(s, total)-takenPlaces(st), 0))
}

// chooseSubset returns the first subset with room for a pod of a version, or -1.
func chooseSubset(ws *appsv1beta1.WorkloadSpread, version string, total int32) int {
	all := ws.Status.VersionedSubsetStatuses[version]
	return slices.IndexFunc(ws.Spec.Subsets, func(s appsv1beta1.WorkloadSpreadSubset) bool {
		return room(&s, all, total) != 0 && schedulable(ws, s.Name)
	})
}

// takePlace chooses a subset. If places in the subset are counted, it records the place of the pod with that id in the status.
func takePlace(ws *appsv1beta1.WorkloadSpread, version, id string, total int32, now time.Time) (subset int, changed bool) {
	subset = chooseSubset(ws, version, total)
	if subset < 0 || ws.Spec.Subsets[subset].MaxReplicas == nil {
		return subset, false
	}
	all := ws.Status.VersionedSubsetStatuses[version]
	if len(all) == 0 {
		for i := range ws.Spec.Subsets {
			s := &ws.Spec.Subsets[i]
			all = append(all, appsv1beta1.WorkloadSpreadSubsetStatus{Name: s.Name, MissingReplicas: limit(s, total)})
		}
	}
	if ws.Status.VersionedSubsetStatuses == nil {
		ws.Status.VersionedSubsetStatuses = map[string]appsv1beta1.WorkloadSpreadSubsetStatuses{}
	}
	ws.Status.VersionedSubsetStatuses[version] = all
	s := &ws.Spec.Subsets[subset]
	st := statusOf(all, s.Name)
	st.MissingReplicas = room(s, all, total) - 1
	if st.CreatingPods == nil {
		st.CreatingPods = map[string]metav1.Time{}
	}
	st.CreatingPods[id] = metav1.NewTime(now.Truncate(time.Second))
	return subset, true
}

// subsetByRank returns the subset of a pod that has rank pods before it. Subsets fill up in order, each up to its limit. It returns -1 if no
// subset has room.
func subsetByRank(ws *appsv1beta1.WorkloadSpread, rank int64) int {
	var before int64
	for i := range ws.Spec.Subsets {
		s := &ws.Spec.Subsets[i]
		if !schedulable(ws, s.Name) {
			continue
		}
		most := limit(s, 0)
		if before += int64(max(most, 0)); most == unlimited || rank < before {
			return i
		}
	}
	return -1
}

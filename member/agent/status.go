package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// Bounds of a report.
const (
	// reportEvery is how often numbers are reported while they move; edges are reported at once.
	reportEvery = 2 * time.Second
	// statusLimit is the most bytes that a row's status has, as JSON.
	statusLimit = 4096
	// messageLimit is the most bytes of its message.
	messageLimit = 512
)

// done is what came of a plan.
type done struct {
	// line and live are as they are after the act; live is nil if there is none.
	line *fleetv1alpha1.AppliedWork
	live *unstructured.Unstructured
	// stopped is why the act was refused for good; nil if it was not.
	stopped *verdict
	// drift lists the paths that were put back.
	drift []string
	// gone tells that nothing of a withdrawn row is left here.
	gone bool
}

// status is what to report of a row. last is what was reported before: numbers that are not known now stay.
func status(o observed, p planned, d done, last fleetv1alpha1.MemberWorkStatus) fleetv1alpha1.MemberWorkStatus {
	s := fleetv1alpha1.MemberWorkStatus{ObservedGeneration: last.ObservedGeneration, Drift: boundPaths(d.drift)}
	if len(s.Drift) == 0 {
		s.Drift = nil
	}
	stopped := p.stopped
	if d.stopped != nil {
		stopped = d.stopped
	}
	if d.gone {
		s.Phase, s.ObservedGeneration = fleetv1alpha1.WorkWithdrawn, o.row.Generation
		return s
	}
	mine := d.live != nil && ours(d.line, d.live)
	if mine {
		s.AppliedHash = d.line.Spec.AppliedHash
		measure(&s, d.live)
		if inPlace(d.line, o.want, d.live) && seen(d.live) {
			s.ObservedGeneration = o.row.Generation
		}
	}
	switch {
	case stopped != nil:
		s.Phase, s.Reason, s.Message = stopped.phase, stopped.reason, stopped.message
	case !o.row.DeletionTimestamp.IsZero():
		s.Phase = fleetv1alpha1.WorkDeleting
	case s.Phase == fleetv1alpha1.WorkDegraded: // Its controller says so, of whichever generation.
	case !mine || d.live.GetDeletionTimestamp() != nil || s.ObservedGeneration != o.row.Generation:
		s.Phase = fleetv1alpha1.WorkProgressing
	}
	return fit(s)
}

// measure reads phase and numbers from the object, as its own controller reports them.
func measure(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured) {
	s.Phase = fleetv1alpha1.WorkApplied
	if live.GetAPIVersion() != appsv1beta1.GroupVersion.String() || live.GetKind() != "UnitedDeployment" {
		return
	}
	ud := &appsv1beta1.UnitedDeployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, ud); err != nil {
		s.Phase, s.Reason, s.Message = fleetv1alpha1.WorkDegraded, fleetv1alpha1.ReasonNonsense, fmt.Sprintf("its status can't be read: %v", err)
		return
	}
	measureUnited(s, ud)
}

func measureUnited(s *fleetv1alpha1.MemberWorkStatus, ud *appsv1beta1.UnitedDeployment) {
	u := ud.Status
	s.Revision = u.UpdatedRevision
	s.Counts = fleetv1alpha1.WorkCounts{
		Replicas: u.Replicas, Ready: u.ReadyReplicas, Available: u.AvailableReplicas,
		Updated: u.UpdatedReplicas, UpdatedReady: u.UpdatedReadyReplicas,
	}
	if ud.Spec.Replicas != nil {
		s.Counts.Desired = *ud.Spec.Replicas
	}
	asked := map[string]int32{}
	for _, subset := range ud.Spec.Topology.Subsets {
		if subset.Replicas != nil {
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
				Updated: sub.UpdatedReplicas, UpdatedReady: sub.UpdatedReadyReplicas,
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

// seen tells whether the object's own controller has acted on its present generation. Kinds that do not say so count as
// seen.
func seen(live *unstructured.Unstructured) bool {
	observed, found, err := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	if err != nil {
		return false
	}
	if !found {
		// A UnitedDeployment says so always: without the field its controller has not come round yet.
		return live.GetKind() != "UnitedDeployment"
	}
	return observed >= live.GetGeneration()
}

// fit keeps a status within what a row may hold: what matters least goes first, and subsets go last, because the hub
// counts with them.
func fit(s fleetv1alpha1.MemberWorkStatus) fleetv1alpha1.MemberWorkStatus {
	s.Message = cut(s.Message, messageLimit)
	s.Reason = cut(s.Reason, 64)
	s.Revision = cut(s.Revision, 253)
	if size(s) > statusLimit {
		s.Drift = nil
	}
	if size(s) > statusLimit {
		s.Message = cut(s.Message, 128)
	}
	for size(s) > statusLimit && len(s.Subsets) > 0 {
		s.Subsets = s.Subsets[:len(s.Subsets)-1]
	}
	return s
}

func size(s fleetv1alpha1.MemberWorkStatus) int {
	raw, err := json.Marshal(s)
	if err != nil {
		return statusLimit + 1
	}
	return len(raw)
}

// cut shortens a text to so many bytes, at a whole character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len("...")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// due says whether next is to be reported now, or after how long. Nothing is reported that equals last; edges are
// reported at once, mere numbers at most every reportEvery. since is how long ago last was reported.
func due(last, next fleetv1alpha1.MemberWorkStatus, since time.Duration) (now bool, after time.Duration) {
	edge := next.Drift != nil
	if !edge {
		next.Drift = last.Drift // Drift is told once; that it is over is no news.
		if equality.Semantic.DeepEqual(last, next) {
			return false, 0
		}
	}
	edge = edge || last.ObservedGeneration != next.ObservedGeneration || last.Phase != next.Phase ||
		last.Reason != next.Reason || last.Revision != next.Revision || last.AppliedHash != next.AppliedHash ||
		allAvailable(last) != allAvailable(next)
	if edge || since >= reportEvery {
		return true, 0
	}
	return false, reportEvery - since
}

func allAvailable(s fleetv1alpha1.MemberWorkStatus) bool {
	return s.Counts.Available >= s.Counts.Desired &&
		!slices.ContainsFunc(s.Subsets, func(c fleetv1alpha1.SubsetCounts) bool { return c.Available < c.Desired })
}

package cloneset

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// deadline returns progressDeadlineSeconds; 0 means that there is none.
func deadline(s *appsv1beta1.CloneSetSpec) time.Duration {
	if s.ProgressDeadlineSeconds == nil || *s.ProgressDeadlineSeconds == math.MaxInt32 {
		return 0
	}
	return time.Duration(*s.ProgressDeadlineSeconds) * time.Second
}

// progressDeadlineIn returns the time left until the rollout exceeds its deadline; 0 if it has none or has exceeded it.
func progressDeadlineIn(set *appsv1beta1.CloneSet, now time.Time) time.Duration {
	c := find(set.Status.Conditions, appsv1beta1.CloneSetProgressing)
	d := deadline(&set.Spec)
	if d == 0 || c == nil || c.Reason != appsv1beta1.CloneSetReasonUpdated {
		return 0
	}
	return max(c.LastUpdateTime.Add(d).Sub(now), 0)
}

// progress returns the condition Progressing after a reconcile with status s; nil if the spec has no deadline. The first that applies wins:
// complete, paused, complete up to the partition, deadline exceeded, progressing. Reasons and messages are the same as in OpenKruise, because
// scripts and alerts compare both; the numbers are in the status.
//
// While a rollout progresses or has exceeded its deadline, lastUpdateTime is when it last made progress or got a new goal. The deadline runs
// from there. Each pod that becomes available extends it, and a rollout that makes progress after its deadline is progressing again.
func progress(set *appsv1beta1.CloneSet, s *appsv1beta1.CloneSetStatus, now time.Time) *appsv1beta1.CloneSetCondition {
	if deadline(&set.Spec) == 0 {
		return nil
	}
	old := find(set.Status.Conditions, appsv1beta1.CloneSetProgressing)
	at := metav1.NewTime(now.Truncate(time.Second))
	c := appsv1beta1.CloneSetCondition{
		Type: appsv1beta1.CloneSetProgressing, Status: corev1.ConditionTrue, LastUpdateTime: at, LastTransitionTime: at,
	}
	want := int32(replicas(&set.Spec)) //nolint:gosec // It was an int32.
	r := set.Spec.UpdateStrategy.RollingUpdate
	switch {
	case s.CurrentRevision == s.UpdateRevision && s.Replicas == want && s.UpdatedReplicas == want && s.UpdatedAvailableReplicas == want:
		c.Reason, c.Message = appsv1beta1.CloneSetReasonAvailable, "CloneSet is available"
	case r != nil && r.Paused:
		c.Reason, c.Message = appsv1beta1.CloneSetReasonPaused, "CloneSet is paused"
	case s.ExpectedUpdatedReplicas < want && s.ExpectedUpdatedReplicas <= s.UpdatedAvailableReplicas:
		c.Reason, c.Message = appsv1beta1.CloneSetReasonPartitionAvailable, "CloneSet has been paused due to partition ready"
	default:
		c.Reason, c.Message = appsv1beta1.CloneSetReasonUpdated, "CloneSet is progressing"
		if hasProgressed(set, old, s) {
			break
		}
		c.LastUpdateTime = old.LastUpdateTime
		if timedOut(set, old, s, now) {
			c.Status, c.Reason = corev1.ConditionFalse, appsv1beta1.CloneSetReasonDeadlineExceeded
			c.Message = fmt.Sprintf("CloneSet revision %s has timed out progressing", s.UpdateRevision)
		}
	}
	if old == nil {
		return &c
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	if deadlineStopped(c.Reason) && old.Reason == c.Reason {
		c.LastUpdateTime = old.LastUpdateTime
	}
	return &c
}

// deadlineStopped reports whether the deadline is suspended with this reason.
func deadlineStopped(reason string) bool {
	return reason != appsv1beta1.CloneSetReasonUpdated && reason != appsv1beta1.CloneSetReasonDeadlineExceeded
}

// hasProgressed reports whether a rollout has just begun, has a new goal or has made progress.
func hasProgressed(set *appsv1beta1.CloneSet, old *appsv1beta1.CloneSetCondition, s *appsv1beta1.CloneSetStatus) bool {
	before := &set.Status
	missing := func(s *appsv1beta1.CloneSetStatus) int {
		n := replicas(&set.Spec) - int(s.Replicas)
		return max(n, -n)
	}
	return old == nil || deadlineStopped(old.Reason) ||
		s.UpdateRevision != before.UpdateRevision ||
		s.ExpectedUpdatedReplicas != before.ExpectedUpdatedReplicas ||
		s.UpdatedReplicas > before.UpdatedReplicas ||
		s.UpdatedAvailableReplicas > before.UpdatedAvailableReplicas ||
		s.AvailableReplicas > before.AvailableReplicas ||
		missing(s) < missing(before) ||
		// With OnDelete, a rollout progresses when a user deletes pods.
		onDelete(set) && s.Replicas < before.Replicas
}

// timedOut reports whether a rollout without progress has exceeded its deadline. Once exceeded, it stays so until the rollout makes progress
// or the spec changes: lastUpdateTime may have been written by OpenKruise, which sets it when the deadline is exceeded. An OnDelete set whose
// pods are all available waits for a user, without a deadline.
func timedOut(
	set *appsv1beta1.CloneSet, old *appsv1beta1.CloneSetCondition, s *appsv1beta1.CloneSetStatus, now time.Time,
) bool {
	want := int32(replicas(&set.Spec)) //nolint:gosec // It was an int32.
	switch {
	case onDelete(set) && s.Replicas == want && s.AvailableReplicas == want:
		return false
	case old.Reason == appsv1beta1.CloneSetReasonDeadlineExceeded && set.Status.ObservedGeneration == s.ObservedGeneration:
		return true
	}
	return !now.Before(old.LastUpdateTime.Add(deadline(&set.Spec)))
}

func onDelete(set *appsv1beta1.CloneSet) bool {
	return set.Spec.UpdateStrategy.Type == appsv1beta1.CloneSetOnDelete
}

package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// standing is how far a rollout has come.
type standing struct {
	name string
	// want is how many pods there shall be, goal how many of them updated; the partition keeps the rest.
	want, goal int32
	// Of the pods there are: how many at all, ready, available, updated, and updated and available.
	total, ready, available, updated, complete int32
	// waits is what is waited for; empty when the rollout is done.
	waits string
	done  bool
}

// judge tells how a rollout stands, or why it can't become complete.
func judge(set *appsv1beta1.CloneSet) (standing, error) {
	s := set.Status
	out := standing{
		name: set.Name, want: 1, total: s.Replicas, ready: s.ReadyReplicas, available: s.AvailableReplicas,
		updated: s.UpdatedReplicas, complete: s.UpdatedAvailableReplicas,
	}
	if set.Spec.Replicas != nil {
		out.want = *set.Spec.Replicas
	}
	out.goal = out.want
	r := rolling(set)
	if !onDelete(set) && r.Partition != nil {
		kept, err := rollout.ResolvePartition(r.Partition, int(out.want))
		if err != nil {
			return out, fmt.Errorf("cloneset/%s: partition: %w", set.Name, err)
		}
		out.goal -= int32(kept) //nolint:gosec // It is no more than want.
	}
	switch {
	case onDelete(set):
		return out, fmt.Errorf("cloneset/%s has updateStrategy.type OnDelete: a pod follows when somebody deletes it, so there is "+
			"no rollout to follow; kubectl get cloneset %s shows how many have", set.Name, set.Name)
	case s.ObservedGeneration < set.Generation:
		out.waits = "the controller has not seen the change yet"
		return out, nil
	}
	out.waits = out.missing()
	if out.done = out.waits == ""; out.done {
		return out, nil
	}
	if why := stuck(s.Conditions); why != "" {
		return out, fmt.Errorf("cloneset/%s: %s: %s", set.Name, out.waits, why)
	}
	if r.Paused && out.updated < out.goal {
		out.waits += "; paused, until kubectl kruise rollout resume cloneset/" + set.Name
	}
	if c := failing(s.Conditions, appsv1beta1.CloneSetFailedUpdate, appsv1beta1.CloneSetFailedScale); c != nil {
		out.waits += "; " + c.Message
	}
	return out, nil
}

// missing is what keeps the rollout from being complete.
func (s standing) missing() string {
	switch {
	case s.updated < s.goal:
		return fmt.Sprintf("%d of %d new pods have been updated", s.updated, s.goal)
	case s.total > s.want:
		return fmt.Sprintf("%d old pods are pending termination", s.total-s.want)
	case s.total < s.want:
		return fmt.Sprintf("%d of %d pods have been created", s.total, s.want)
	case s.ready < s.want:
		return fmt.Sprintf("%d of %d pods are ready", s.ready, s.want)
	case s.available < s.want:
		return fmt.Sprintf("%d of %d pods are available", s.available, s.want)
	default:
		return ""
	}
}

// stuck is why a rollout can't go on without somebody's doing, by the conditions of the controller.
func stuck(conditions []appsv1beta1.CloneSetCondition) string {
	for _, c := range conditions {
		late := c.Type == appsv1beta1.CloneSetProgressing && c.Status == corev1.ConditionFalse
		failed := c.Type == appsv1beta1.CloneSetFailedUpdate && c.Status == corev1.ConditionTrue
		switch {
		case late && c.Reason == appsv1beta1.CloneSetReasonDeadlineExceeded:
			return "exceeded its progress deadline: " + c.Message
		case failed && slices.Contains(lasting(), c.Reason):
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// lasting are the reasons of FailedUpdate that don't pass by themselves.
func lasting() []string {
	return []string{
		appsv1beta1.CloneSetReasonNotInPlace, appsv1beta1.CloneSetReasonInvalidSpec, appsv1beta1.CloneSetReasonHung,
	}
}

// failing is the first of these that is True.
func failing(conditions []appsv1beta1.CloneSetCondition, types ...appsv1beta1.CloneSetConditionType) *appsv1beta1.CloneSetCondition {
	for _, t := range types {
		i := slices.IndexFunc(conditions, func(c appsv1beta1.CloneSetCondition) bool {
			return c.Type == t && c.Status == corev1.ConditionTrue && c.Message != ""
		})
		if i >= 0 {
			return &conditions[i]
		}
	}
	return nil
}

// end is the last line of a complete rollout.
func (s standing) end() string {
	if s.goal < s.want {
		return fmt.Sprintf("partitioned roll out complete: %d new pods have been updated...", s.updated)
	}
	return fmt.Sprintf("cloneset %q successfully rolled out", s.name)
}

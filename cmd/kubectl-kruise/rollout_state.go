package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

// rolloutState is the progress of a rollout.
type rolloutState struct {
	// noun is the name of the set's kind.
	noun, name string
	// want is the desired number of pods. goal is how many of them have to be updated: the partition keeps the rest.
	want, goal int32
	// Numbers of existing pods: all, ready, available, updated, and both updated and available.
	total, ready, available, updated, complete int32
	// waits is what the rollout waits for, or "" when it is done.
	waits string
	done  bool
	// waves are the waves of a rollout over clusters, and budget is the line that follows them. Both are empty for other rollouts.
	waves  []wave
	budget string
	// details are lines about parts of the rollout.
	details []detail
}

// detail is a line about one thing that the rollout consists of.
type detail struct {
	about, text string
	// quiet is true if the line is of interest only to a reader who has seen another one about the same thing.
	quiet bool
}

// rolloutStateOf returns the progress of a rollout, or why it can't complete. goal is how many pods have to be updated.
func rolloutStateOf(set workload, f facts, goal int32) (rolloutState, error) {
	out := rolloutState{
		noun: set.kind().noun, name: set.GetName(), want: f.want, goal: goal, total: f.total, ready: f.ready, available: f.available,
		updated: f.updated, complete: f.complete, details: listParts(f.parts, len(f.waves) > 0),
	}
	switch {
	case f.fault != nil:
		return out, f.fault
	case f.onDelete:
		return out, fmt.Errorf("%s: a pod is updated only when it is deleted, so there is "+
			"no rollout to follow; kubectl get %s %s shows how many are updated", set.onDelete(), set.kind().alias, set.GetName())
	case f.observed < set.GetGeneration():
		out.waits = "the controller has not seen the change yet"
		return out, nil
	}
	out.waves, out.budget = f.waves, f.budget // Earlier they would be about the previous rollout.
	out.waits = out.missing()
	if out.done = out.waits == ""; out.done {
		return out, nil
	}
	if why := cmp.Or(f.failed, permanentFailure(f.conditions)); why != "" {
		return out, fmt.Errorf("%s: %s: %s", set.id(), out.waits, why)
	}
	if f.paused && out.updated < out.goal {
		out.waits += "; paused, until kubectl kruise rollout resume " + set.id()
	}
	if f.stopped != "" && out.updated < out.goal {
		out.waits += "; maxUnavailable is 0 for " + f.stopped
	}
	if c := failing(f.conditions); c != nil {
		out.waits += "; " + c.Message
	} else if c := condition(f.conditions, keys.ConditionReconciling); c != nil && c.Reason == string(rollout.ReasonRefused) {
		out.waits += "; " + c.Message
	}
	if f.message != "" {
		out.waits += "; " + f.message
	}
	return out, nil
}

// missing returns what keeps the rollout from being complete.
func (s rolloutState) missing() string {
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

// permanentFailure returns why a rollout can't continue unless the user changes something, based on the controller's conditions.
func permanentFailure(conditions []appsv1beta1.WorkloadCondition) string {
	for _, c := range conditions {
		late := c.Type == progressing && c.Status == corev1.ConditionFalse
		failed := c.Type == appsv1beta1.WorkloadFailedUpdatePod && c.Status == corev1.ConditionTrue
		switch {
		case late && c.Reason == appsv1beta1.CloneSetReasonDeadlineExceeded:
			why := "exceeded its progress deadline"
			if s := condition(conditions, keys.ConditionStalled); s != nil { // Continue with the reason why the next step is refused.
				if refused, ok := strings.CutPrefix(s.Message, c.Message+"; "); ok {
					why += "; " + refused
				}
			}
			return why
		case failed && slices.Contains(persistentReasons(), c.Reason):
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// persistentReasons returns the reasons of failed updates that are not temporary.
func persistentReasons() []string {
	return []string{
		appsv1beta1.CloneSetReasonNotInPlace, appsv1beta1.CloneSetReasonInvalidSpec, appsv1beta1.CloneSetReasonUpdateStalled,
		"FailedUpdatePVC",
	}
}

// failing returns the failure to report. A failed update takes precedence.
func failing(conditions []appsv1beta1.WorkloadCondition) *appsv1beta1.WorkloadCondition {
	for _, t := range []appsv1beta1.WorkloadConditionType{appsv1beta1.WorkloadFailedUpdatePod, appsv1beta1.WorkloadFailedCreatePod} {
		if c := condition(conditions, string(t)); c != nil {
			return c
		}
	}
	return nil
}

// condition returns the condition of a type if it is True and has a message, otherwise nil.
func condition(conditions []appsv1beta1.WorkloadCondition, kind string) *appsv1beta1.WorkloadCondition {
	i := slices.IndexFunc(conditions, func(c appsv1beta1.WorkloadCondition) bool {
		return string(c.Type) == kind && c.Status == corev1.ConditionTrue && c.Message != ""
	})
	if i < 0 {
		return nil
	}
	return &conditions[i]
}

// end returns the last line for a complete rollout.
func (s rolloutState) end() string {
	if s.goal < s.want {
		return fmt.Sprintf("partitioned roll out complete: %d new pods have been updated...", s.updated)
	}
	return fmt.Sprintf("%s %q successfully rolled out", s.noun, s.name)
}

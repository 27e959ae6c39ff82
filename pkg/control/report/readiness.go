package report

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// Reasons of the conditions Ready, Reconciling and Stalled. A stalled object has the reason of the failure that stalls it.
const (
	// ReasonReady: the object matches its spec.
	ReasonReady = "Ready"
	// ReasonProgressing: the controller, or what it waits for, is working towards the spec.
	ReasonProgressing = "Progressing"
	// ReasonPaused: the spec pauses the remaining work.
	ReasonPaused = "Paused"
)

// Readiness says whether an object matches its spec, is on the way there, or is stalled. Create one with Ready, Reconciling or Stalled.
type Readiness struct {
	// conditionType is the type of the condition that is True.
	conditionType string
	Failure
}

// Ready is the readiness of an object that matches its spec.
func Ready(message string) Readiness {
	return Readiness{keys.ConditionReady, Failure{Reason: ReasonReady, Message: message}}
}

// Reconciling is the readiness of an object on the way to its spec.
func Reconciling(reason, message string) Readiness {
	return Readiness{keys.ConditionReconciling, Failure{Reason: reason, Message: message}}
}

// Stalled is the readiness of an object that makes no progress towards its spec. The condition keeps its message in the same way as the
// failure's condition.
func Stalled(f Failure) Readiness { return Readiness{keys.ConditionStalled, f} }

// StalledAs is the readiness of an object that failed for the reason in the condition of a type; otherwise is used if that condition has no
// reason.
func StalledAs[C any](list []C, form Form[C], conditionType string, otherwise Failure) Readiness {
	for _, c := range list {
		if e := form.Entry(c); form.Type(c) == conditionType && e.Reason != "" {
			return Stalled(Failure{Reason: e.Reason, Message: e.Message})
		}
	}
	return Stalled(otherwise)
}

// Retrying is the readiness of an object whose writes fail and are retried.
func Retrying(f Failure) Readiness { return Readiness{keys.ConditionReconciling, f} }

// Form is how a kind represents conditions.
type Form[C any] struct {
	// Type and Entry read a condition, New returns one.
	Type  func(C) string
	Entry func(C) ConditionEntry
	New   func(conditionType string, e ConditionEntry) C
}

// PutReadiness returns list with the conditions Ready, Reconciling and Stalled: Ready is always present, the others only while they are True.
// They come last, because scripts read the first condition of a job. list isn't changed.
func PutReadiness[C any](list []C, form Form[C], r Readiness, now time.Time) []C {
	for _, kind := range []string{keys.ConditionReady, keys.ConditionReconciling, keys.ConditionStalled} {
		matches := func(c C) bool { return form.Type(c) == kind }
		if kind != r.conditionType && kind != keys.ConditionReady {
			list = PutCondition(list, matches, nil)
			continue
		}
		status := corev1.ConditionTrue
		if kind != r.conditionType {
			status = corev1.ConditionFalse
		}
		var old *ConditionEntry
		for _, c := range list {
			if matches(c) {
				old = new(form.Entry(c))
			}
		}
		list = PutCondition(list, matches, new(form.New(kind, *r.entry(status, old, now))))
	}
	return append(ButReadiness(list, form), OnlyReadiness(list, form)...)
}

// OnlyReadiness returns the conditions in list that PutReadiness sets, for a kind that builds its other conditions anew each time.
func OnlyReadiness[C any](list []C, form Form[C]) []C {
	return slices.DeleteFunc(slices.Clone(list), func(c C) bool { return !form.isReadiness(c) })
}

// ButReadiness returns the other conditions in list; nil if there are none.
func ButReadiness[C any](list []C, form Form[C]) []C {
	var out []C
	for _, c := range list {
		if !form.isReadiness(c) {
			out = append(out, c)
		}
	}
	return out
}

func (f Form[C]) isReadiness(c C) bool {
	switch f.Type(c) {
	case keys.ConditionReady, keys.ConditionReconciling, keys.ConditionStalled:
		return true
	}
	return false
}

// EqualButReadiness reports whether two lists of conditions differ at most in readiness, without a stall that begins or ends: a workload's
// readiness changes along with its counts, and may be written as late as they are.
func EqualButReadiness[C any](form Form[C], old, current []C) bool {
	stalled := func(c C) bool { return form.Type(c) == keys.ConditionStalled }
	return slices.ContainsFunc(old, stalled) == slices.ContainsFunc(current, stalled) &&
		apiequality.Semantic.DeepEqual(ButReadiness(old, form), ButReadiness(current, form))
}

// SetReadiness is PutReadiness for the condition type that most kinds use.
func SetReadiness(list []metav1.Condition, r Readiness, generation int64, now time.Time) []metav1.Condition {
	return PutReadiness(list, ConditionForm(generation), r, now)
}

// ConditionForm is how most kinds represent conditions; new ones get that observedGeneration.
func ConditionForm(generation int64) Form[metav1.Condition] {
	return Form[metav1.Condition]{
		Type: func(c metav1.Condition) string { return c.Type },
		Entry: func(c metav1.Condition) ConditionEntry {
			return ConditionEntry{Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message, Turned: c.LastTransitionTime}
		},
		New: func(t string, e ConditionEntry) metav1.Condition {
			return metav1.Condition{
				Type: t, Status: metav1.ConditionStatus(e.Status), Reason: e.Reason, Message: e.Message,
				LastTransitionTime: e.Turned, ObservedGeneration: generation,
			}
		},
	}
}

// DistributionForm is how a ResourceDistribution represents conditions.
func DistributionForm() Form[appsv1beta1.ResourceDistributionCondition] {
	type condition = appsv1beta1.ResourceDistributionCondition
	return Form[condition]{
		Type: func(c condition) string { return string(c.Type) },
		Entry: func(c condition) ConditionEntry {
			return ConditionEntry{Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message, Turned: c.LastTransitionTime}
		},
		New: func(t string, e ConditionEntry) condition {
			return condition{
				Type: appsv1beta1.ResourceDistributionConditionType(t), Status: metav1.ConditionStatus(e.Status), Reason: e.Reason, Message: e.Message,
				LastTransitionTime: e.Turned,
			}
		},
	}
}

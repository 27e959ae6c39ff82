package report

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReasonWriteFailed is the reason of a failure whose message is the apiserver's answer to a write.
const ReasonWriteFailed = "WriteFailed"

// Failure is the content of a condition that is True while something fails, and not there otherwise. The zero value says that
// nothing does.
type Failure struct {
	Reason, Message string
	// Stable is how the message begins while it is the same failure: what comes after it is not written again.
	Stable string
}

// StalledFailure is a failure that lasts: what and since when, then details that may come and go.
func StalledFailure(reason, what, detail string) Failure {
	return Failure{Reason: reason, Message: what + ": " + detail, Stable: what + ":"}
}

// WriteFailure is the failure of the first write that failed; none if all of errs are nil.
func WriteFailure(errs ...error) Failure {
	for _, err := range errs {
		if err != nil {
			return Failure{Reason: ReasonWriteFailed, Message: err.Error()}
		}
	}
	return Failure{}
}

// ConditionEntry is what a condition says, whatever type the kind has for conditions.
type ConditionEntry struct {
	Status          corev1.ConditionStatus
	Reason, Message string
	// Updated is when status or reason last changed, Turned when status did.
	Updated, Turned metav1.Time
}

// After is the condition of f after was; nil is that there is none.
func (f Failure) After(was *ConditionEntry, now time.Time) *ConditionEntry {
	if f.Reason == "" {
		return nil
	}
	at := metav1.NewTime(now.Truncate(time.Second))
	is := ConditionEntry{Status: corev1.ConditionTrue, Reason: f.Reason, Message: Truncate(f.Message), Updated: at, Turned: at}
	if was == nil || was.Status != is.Status {
		return &is
	}
	is.Turned = was.Turned
	if was.Reason == is.Reason {
		is.Updated = was.Updated
		if f.Stable != "" && strings.HasPrefix(was.Message, f.Stable) {
			is.Message = was.Message
		}
	}
	return &is
}

// News tells that a failure is to be told: it has just begun, and is not that of a write, of which there is an event with each
// try.
func (f Failure) News(was *ConditionEntry) bool {
	return f.Reason != "" && f.Reason != ReasonWriteFailed && (was == nil || was.Reason != f.Reason)
}

// PutCondition returns a list of conditions with c in the place of the one that is meant, at the end if there is none, or without it
// if c is nil. The list given is not changed.
func PutCondition[C any](list []C, meant func(C) bool, c *C) []C {
	i := slices.IndexFunc(list, meant)
	switch {
	case c == nil && i < 0:
		return list
	case c == nil:
		return slices.DeleteFunc(slices.Clone(list), meant)
	case i < 0:
		return append(slices.Clone(list), *c)
	}
	out := slices.Clone(list)
	out[i] = *c
	return out
}

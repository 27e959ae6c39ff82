package report

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReasonWriteFailed is the reason of a failure whose message is the API server's error.
const ReasonWriteFailed = "WriteFailed"

// Failure is the content of a condition that is True while something fails, and absent otherwise. The zero value means that nothing fails.
type Failure struct {
	Reason, Message string
	// Stable is the beginning of the message, which doesn't change while the failure lasts: an existing message that begins with it is kept.
	Stable string
}

// StalledFailure returns the failure for a stall: what is stalled and since when, followed by details that may change.
func StalledFailure(reason, what, detail string) Failure {
	return Failure{Reason: reason, Message: what + ": " + detail, Stable: what + ":"}
}

// WriteFailure returns the failure for the first of errs that isn't nil; the zero Failure if all are nil.
func WriteFailure(errs ...error) Failure {
	for _, err := range errs {
		if err != nil {
			return Failure{Reason: ReasonWriteFailed, Message: err.Error()}
		}
	}
	return Failure{}
}

// ConditionEntry is the content of a condition, independent of a kind's condition type.
type ConditionEntry struct {
	Status          corev1.ConditionStatus
	Reason, Message string
	// Updated is when status or reason last changed, Turned when the status did.
	Updated, Turned metav1.Time
}

// After returns the condition for f that replaces old; nil if there is none.
func (f Failure) After(old *ConditionEntry, now time.Time) *ConditionEntry {
	if f.Reason == "" {
		return nil
	}
	return f.entry(corev1.ConditionTrue, old, now)
}

// entry returns a condition with that status and the reason and message of f, which replaces old.
func (f Failure) entry(status corev1.ConditionStatus, old *ConditionEntry, now time.Time) *ConditionEntry {
	at := metav1.NewTime(now.Truncate(time.Second))
	entry := ConditionEntry{Status: status, Reason: f.Reason, Message: Truncate(f.Message), Updated: at, Turned: at}
	if old == nil || old.Status != entry.Status {
		return &entry
	}
	entry.Turned = old.Turned
	if old.Reason == entry.Reason {
		entry.Updated = old.Updated
		if f.Stable != "" && strings.HasPrefix(old.Message, f.Stable) {
			entry.Message = old.Message
		}
	}
	return &entry
}

// IsNew reports whether a failure needs an event: it has just begun, and isn't a failed write, which gets an event on each attempt.
func (f Failure) IsNew(old *ConditionEntry) bool {
	return f.Reason != "" && f.Reason != ReasonWriteFailed && (old == nil || old.Reason != f.Reason)
}

// PutCondition returns list with c in place of the condition that matches selects, or appended if there is none; a nil c removes it. list isn't
// changed.
func PutCondition[C any](list []C, matches func(C) bool, c *C) []C {
	i := slices.IndexFunc(list, matches)
	switch {
	case c == nil && i < 0:
		return list
	case c == nil:
		return slices.DeleteFunc(slices.Clone(list), matches)
	case i < 0:
		return append(slices.Clone(list), *c)
	}
	out := slices.Clone(list)
	out[i] = *c
	return out
}

package report

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// MessageLimit is the longest message of a condition, in bytes: the API allows 32 KiB, but people read a line or two.
const MessageLimit = 512

// SetCondition sets c in conditions. LastTransitionTime is set to now if the status has changed, and kept otherwise; a long message is
// truncated. The result is sorted by type, so that equal conditions compare as equal.
func SetCondition(conditions []metav1.Condition, c metav1.Condition, now time.Time) []metav1.Condition {
	c.Message = Truncate(c.Message)
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	out := slices.Clone(conditions)
	for i := range out {
		if out[i].Type != c.Type {
			continue
		}
		if out[i].Status == c.Status {
			c.LastTransitionTime = out[i].LastTransitionTime
		}
		out[i] = c
		return out
	}
	out = append(out, c)
	slices.SortFunc(out, func(a, b metav1.Condition) int {
		if a.Type < b.Type {
			return -1
		}
		return 1
	})
	return out
}

// Truncate shortens the message of a condition to MessageLimit. Kinds with their own condition type use it too.
func Truncate(message string) string {
	return event.Truncate(message, MessageLimit)
}

// GetCondition returns the condition with that type, or nil.
func GetCondition(conditions []metav1.Condition, conditionType string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

// IsConditionTrue reports whether the condition is present and True.
func IsConditionTrue(conditions []metav1.Condition, conditionType string) bool {
	c := GetCondition(conditions, conditionType)
	return c != nil && c.Status == metav1.ConditionTrue
}

// RemoveCondition returns conditions without that type.
func RemoveCondition(conditions []metav1.Condition, conditionType string) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool { return c.Type == conditionType })
}

// ConditionStatus returns True or False.
func ConditionStatus(b bool) metav1.ConditionStatus {
	if b {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

package placement

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/pkg/control/report"
)

func TestTransitions(t *testing.T) {
	t.Parallel()
	c := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	before := []metav1.Condition{
		c("Same", metav1.ConditionTrue, "A", "one"), c("Removed", metav1.ConditionFalse, "A", ""), c("Turned", metav1.ConditionFalse, "A", ""),
	}
	after := []metav1.Condition{
		c("Turned", metav1.ConditionTrue, "A", "now"), c("Same", metav1.ConditionTrue, "A", "two"), c("Added", metav1.ConditionFalse, "A", ""),
	}
	form := report.ConditionForm(0)
	got := Transitions(form, before, after)
	require.Equal(t, []Transition{
		{Type: "Turned", From: form.Entry(before[2]), To: form.Entry(after[0])},
		{Type: "Added", To: form.Entry(after[2])},
		{Type: "Removed", From: form.Entry(before[1])},
	}, got)
	require.True(t, got[0].EverTrue())
	require.False(t, got[1].EverTrue())
	require.Empty(t, Transitions(form, after, after))
	require.Len(t, Transitions(form, after[:1], []metav1.Condition{c("Turned", metav1.ConditionTrue, "B", "now")}), 1, "another reason")
}

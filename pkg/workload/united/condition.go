package united

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// Form is how a UnitedDeployment represents conditions.
func Form() report.Form[appsv1beta1.UnitedDeploymentCondition] {
	type condition = appsv1beta1.UnitedDeploymentCondition
	return report.Form[condition]{
		Type: func(c condition) string { return string(c.Type) },
		Entry: func(c condition) report.ConditionEntry {
			return report.ConditionEntry{Status: c.Status, Reason: c.Reason, Message: c.Message, Turned: c.LastTransitionTime}
		},
		New: func(t string, e report.ConditionEntry) condition {
			return condition{
				Type: appsv1beta1.UnitedDeploymentConditionType(t), Status: e.Status, Reason: e.Reason, Message: e.Message,
				LastTransitionTime: e.Turned,
			}
		},
	}
}

// SetCondition is report.SetCondition for the condition type of a UnitedDeployment. The input is not changed.
func SetCondition(
	list []appsv1beta1.UnitedDeploymentCondition, c appsv1beta1.UnitedDeploymentCondition, now time.Time,
) []appsv1beta1.UnitedDeploymentCondition {
	c.Message = report.Truncate(c.Message)
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	same := func(other appsv1beta1.UnitedDeploymentCondition) bool { return other.Type == c.Type }
	if i := slices.IndexFunc(list, same); i >= 0 && list[i].Status == c.Status {
		c.LastTransitionTime = list[i].LastTransitionTime
	}
	return report.PutCondition(list, same, &c)
}

// Updated returns the condition UnitedDeploymentUpdated for the revisions in s. Its reasons and messages match OpenKruise, because scripts and
// alerts compare both.
func Updated(s *appsv1beta1.UnitedDeploymentStatus) appsv1beta1.UnitedDeploymentCondition {
	c := appsv1beta1.UnitedDeploymentCondition{
		Type: appsv1beta1.UnitedDeploymentUpdated, Status: corev1.ConditionFalse, Reason: "UnitedDeploymentRevisionUpdating",
	}
	switch {
	case s.UpdatedRevision == "":
	case s.CurrentRevision == s.UpdatedRevision:
		c.Status, c.Reason = corev1.ConditionTrue, "UnitedDeploymentRevisionUpdated"
		c.Message = "updated to revision " + s.UpdatedRevision
	default:
		c.Message = "updating to revision " + s.UpdatedRevision
	}
	return c
}

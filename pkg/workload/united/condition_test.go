package united

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func TestSetConditionMovesTheTimeWithTheStatus(t *testing.T) {
	t.Parallel()
	type condition = appsv1beta1.UnitedDeploymentCondition
	before, now := metav1.Unix(1000, 0), time.Unix(2000, 0)
	observed := []condition{
		{Type: appsv1beta1.SubsetProvisioned, Status: corev1.ConditionTrue, Reason: "AllSubsets", LastTransitionTime: before},
		{Type: appsv1beta1.SubsetUpdated, Status: corev1.ConditionTrue, Reason: "AllSubsets", LastTransitionTime: before},
	}
	got := observed
	for _, c := range []condition{
		{Type: appsv1beta1.SubsetProvisioned, Status: corev1.ConditionTrue, Reason: "Other"},
		{Type: appsv1beta1.SubsetUpdated, Status: corev1.ConditionFalse, Reason: "Waiting"},
		{Type: appsv1beta1.SubsetFailure, Status: corev1.ConditionTrue, Reason: "Error"},
	} {
		got = SetCondition(got, c, now)
	}
	require.Empty(t, cmp.Diff([]condition{
		{Type: appsv1beta1.SubsetProvisioned, Status: corev1.ConditionTrue, Reason: "Other", LastTransitionTime: before},
		{Type: appsv1beta1.SubsetUpdated, Status: corev1.ConditionFalse, Reason: "Waiting", LastTransitionTime: metav1.NewTime(now)},
		{Type: appsv1beta1.SubsetFailure, Status: corev1.ConditionTrue, Reason: "Error", LastTransitionTime: metav1.NewTime(now)},
	}, got))
	require.Equal(t, "AllSubsets", observed[0].Reason, "the observed conditions are not changed")
}

func TestUpdatedHasTheWordsOfOpenKruise(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, current, updated string
		want                   appsv1beta1.UnitedDeploymentCondition
	}{
		{
			"at the update revision", "web-2", "web-2",
			appsv1beta1.UnitedDeploymentCondition{Status: "True", Reason: "UnitedDeploymentRevisionUpdated", Message: "updated to revision web-2"},
		},
		{
			"on the way", "web-1", "web-2",
			appsv1beta1.UnitedDeploymentCondition{Status: "False", Reason: "UnitedDeploymentRevisionUpdating", Message: "updating to revision web-2"},
		},
		{
			"before the revision is known", "", "",
			appsv1beta1.UnitedDeploymentCondition{Status: "False", Reason: "UnitedDeploymentRevisionUpdating"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Type = "UnitedDeploymentUpdated"
			require.Equal(t, tt.want, Updated(&appsv1beta1.UnitedDeploymentStatus{CurrentRevision: tt.current, UpdatedRevision: tt.updated}))
		})
	}
}

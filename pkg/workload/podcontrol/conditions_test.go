package podcontrol

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

func TestConditionsArePresentWhileSomethingFails(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	later := now.Add(time.Minute)
	stalled := report.StalledFailure("UpdateStalled", "web-0 has not completed its update", "ErrImagePull")
	refused := report.WriteFailure(errors.New("create pod web-1: quota"))

	first, events := Conditions(nil, WorkloadConditions(), refused, stalled, report.Failure{}, report.Failure{}, now)
	require.Equal(t, []appsv1beta1.WorkloadCondition{
		{Type: "FailedCreatePod", Status: "True", Reason: "WriteFailed", Message: "create pod web-1: quota", LastTransitionTime: metav1.NewTime(now)},
		{Type: "FailedUpdatePod", Status: "True", Reason: "UpdateStalled", Message: "web-0 has not completed its update: ErrImagePull", LastTransitionTime: metav1.NewTime(now)},
	}, first)
	require.Len(t, events, 1, "each failed attempt of a write has an event")
	require.Equal(t, ReasonFailedUpdate, events[0].Reason)

	again, events := Conditions(first, WorkloadConditions(), refused, report.StalledFailure("UpdateStalled", "web-0 has not completed its update", "ImagePullBackOff"), report.Failure{}, report.Failure{}, later)
	require.Equal(t, first, again, "a lasting condition is written once")
	require.Empty(t, events, "and reported once")

	healed, events := Conditions(first, WorkloadConditions(), report.Failure{}, report.Failure{}, report.Failure{}, report.Failure{}, later)
	require.Empty(t, healed)
	require.Empty(t, events)
	require.Len(t, first, 2, "the observed conditions are not changed")
}

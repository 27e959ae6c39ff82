package v1alpha1

import (
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// partDuration is the name of the part of a UnitedDeployment that says how long a subset counts as unschedulable.
const partDuration = "unschedulableDuration"

type (
	durationV1alpha1 struct {
		Duration *int32 `json:"duration,omitempty"`
		// Last is the name of the field in OpenKruise up to 1.8.
		Last *int32 `json:"last,omitempty"`
	}
	durationV1beta1 struct {
		Duration *int32 `json:"duration,omitempty"`
	}
)

func durationToV1beta1(a durationV1alpha1) durationV1beta1 {
	if a.Duration != nil {
		return durationV1beta1{a.Duration}
	}
	return durationV1beta1{a.Last}
}

func durationToV1alpha1(b durationV1beta1) durationV1alpha1 {
	return durationV1alpha1{Duration: b.Duration}
}

// topologyToV1beta1 converts a topology: unschedulableLastSeconds becomes unschedulableDuration, unless both are set.
func topologyToV1beta1(t *transfer, in *Topology) (appsv1beta1.Topology, error) {
	out := appsv1beta1.Topology{
		Subsets: in.Subsets, Placement: in.Placement, Dependencies: in.Dependencies,
		ScheduleStrategy: appsv1beta1.UnitedDeploymentScheduleStrategy{Type: in.ScheduleStrategy.Type},
	}
	a := in.ScheduleStrategy.Adaptive
	if a == nil {
		return out, nil
	}
	d, err := convert(t, partDuration, durationV1alpha1{a.UnschedulableDuration, a.UnschedulableLastSeconds}, durationToV1beta1, durationToV1alpha1)
	out.ScheduleStrategy.Adaptive = &appsv1beta1.AdaptiveScheduleStrategy{
		RescheduleCriticalSeconds: a.RescheduleCriticalSeconds, UnschedulableDuration: d.Duration, ReserveUnschedulablePods: a.ReserveUnschedulablePods,
	}
	return out, err
}

// topologyToV1alpha1 converts a topology with the inverse rules: a value that was written as unschedulableLastSeconds is restored there.
func topologyToV1alpha1(t *transfer, in *appsv1beta1.Topology) (Topology, error) {
	out := Topology{
		Subsets: in.Subsets, Placement: in.Placement, Dependencies: in.Dependencies,
		ScheduleStrategy: ScheduleStrategy{Type: in.ScheduleStrategy.Type},
	}
	b := in.ScheduleStrategy.Adaptive
	if b == nil {
		return out, nil
	}
	d, err := convert(t, partDuration, durationV1beta1{b.UnschedulableDuration}, durationToV1alpha1, durationToV1beta1)
	out.ScheduleStrategy.Adaptive = &AdaptiveScheduleStrategy{
		RescheduleCriticalSeconds: b.RescheduleCriticalSeconds, UnschedulableDuration: d.Duration, UnschedulableLastSeconds: d.Last,
		ReserveUnschedulablePods: b.ReserveUnschedulablePods,
	}
	return out, err
}

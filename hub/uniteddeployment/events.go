package uniteddeployment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// Reasons of events on a UnitedDeployment of a hub.
const (
	// eventBlocked means that a subset is not as desired. The note says where and why.
	eventBlocked = "SubsetBlocked"
	// eventPlaced means that every replica is where it should run.
	eventPlaced = "ReplicasPlaced"
	// eventUnplaced means that replicas are being moved, or can't be placed.
	eventUnplaced = "ReplicasMoving"
	// eventWave means that a wave of a rollout begins, or waits for an approval.
	eventWave = "RolloutWave"
	// eventWithdrawing means that the object is being deleted. The note names the clusters that still hold it.
	eventWithdrawing = "WithdrawingSlices"
)

// changed returns how a change of status is reported. A failure, its end, a deletion, a collision and the end of a change must be written
// immediately.
// replicas is the number in the spec.
func changed(replicas int32, before, after appsv1beta1.UnitedDeploymentStatus) placement.Change {
	var events []event.Event
	mayWait := ptr.Equal(before.CollisionCount, after.CollisionCount)
	mayWait = mayWait && (!complete(after) || complete(before) && before.ObservedGeneration == after.ObservedGeneration)
	for _, t := range placement.Transitions(united.Form(), before.Conditions, after.Conditions) {
		ok := t.To.Status == corev1.ConditionTrue
		switch t.Type {
		case string(appsv1beta1.SubsetFailure):
			mayWait = mayWait && !t.EverTrue()
			if ok {
				events = append(events, event.Warning(eventBlocked, "Place", "%s: %s", t.To.Reason, t.To.Message))
			}
		case string(appsv1beta1.UnitedDeploymentPlaced):
			switch {
			case ok:
				events = append(events, event.Normal(eventPlaced, "Place", "all replicas are placed: %d", replicas))
			case t.To.Reason == reasonDeleting:
				mayWait = false
				events = append(events, event.Normal(eventWithdrawing, "Withdraw", "%s", t.To.Message))
			case t.To.Status != "":
				events = append(events, event.Normal(eventUnplaced, "Place", "%s: %s", t.To.Reason, t.To.Message))
			}
		}
	}
	if note := waveChange(before.Rollout, after.Rollout); note != "" {
		mayWait = false
		events = append(events, event.Normal(eventWave, "Rollout", "%s", note))
	}
	switch {
	case !mayWait:
		return placement.Change{Events: events}
	case hasJustBegun(before, after):
		return placement.Change{Collect: begunDelay, Events: events}
	}
	return placement.Change{Collect: placement.StatusDelay, Events: events}
}

// waveChange says what is new about the waves of a rollout; "" if that may wait.
func waveChange(before, after *pods.RolloutStatus) string {
	if after == nil || after.Wave == "" {
		return ""
	}
	at := func(s *pods.RolloutStatus) pods.RolloutWavePhase {
		if s != nil && s.Revision == after.Revision {
			for _, w := range s.Waves {
				if w.Name == after.Wave {
					return w.Phase
				}
			}
		}
		return pods.WavePending
	}
	switch was, is := at(before), at(after); {
	case is == pods.WaveAwaitingApproval && was != is:
		return after.Message
	case before == nil || before.Revision != after.Revision || before.Wave != after.Wave:
		return fmt.Sprintf("wave %s begins to be updated to revision %s", after.Wave, after.Revision)
	}
	return ""
}

func find(list []appsv1beta1.UnitedDeploymentCondition, t appsv1beta1.UnitedDeploymentConditionType) *appsv1beta1.UnitedDeploymentCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

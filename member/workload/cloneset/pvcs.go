package cloneset

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// ownershipTransfer is a claim that goes with a pod.
type ownershipTransfer struct {
	claim *corev1.PersistentVolumeClaim
	pod   *corev1.Pod
}

// instance is what there is under one instance id.
type instance struct {
	claims []*corev1.PersistentVolumeClaim
	pod    *podset.Pod // nil if there is none
}

// planClaims decides on claims, and on the ids of new pods, because an id with claims is what a claim is reused by.
//
// Claims of a pod that is deleted by this plan go with it: they are deleted after it, or with reuse given to it before, see
// sendOff. What becomes of claims whose pod went otherwise (its node was lost, it was evicted, somebody deleted it) is the
// user's choice:
//
//	reuse      they stay, and the next new pod gets their id. As a pod's name comes from its id, a new pod waits while the
//	           former one is still there; one that has ended by itself is deleted, so that the wait has an end.
//	no reuse   they go with their pod: the pod becomes their owner. Claims without any pod are deleted.
//
// Claims of a pod that is disowned always go with it.
func (w *planned) planClaims(o observed) {
	if len(o.claims) == 0 { // Most sets have none, and it takes a look at each pod.
		return
	}
	instances := map[string]*instance{}
	of := func(id string) *instance {
		if instances[id] == nil {
			instances[id] = &instance{}
		}
		return instances[id]
	}
	for _, c := range o.claims {
		if id := instanceID(c); id != "" && c.DeletionTimestamp == nil {
			of(id).claims = append(of(id).claims, c)
		}
	}
	for i := range w.Pods {
		if id := instanceID(w.Pods[i].Object); id != "" {
			of(id).pod = &w.Pods[i]
		}
	}
	if o.set.Spec.ScaleStrategy.EnablePVCReuse {
		w.sendOff(instances)
	}
	for _, pod := range w.Release {
		if in := instances[instanceID(pod)]; in != nil && in.pod == nil {
			w.give(in.claims, pod)
			in.claims = nil
		}
	}
	var free []string // ids with claims and without a pod
	var ending int    // pods about to go whose claims stay
	for _, id := range slices.Sorted(maps.Keys(instances)) {
		in := instances[id]
		switch {
		case len(in.claims) == 0 || in.pod != nil && !in.pod.Inactive:
		case !o.set.Spec.ScaleStrategy.EnablePVCReuse:
			w.letGo(in)
		case in.pod == nil:
			free = append(free, id)
		default:
			ending++
			if in.pod.Object.DeletionTimestamp == nil {
				w.Steps = append(w.Steps, podset.Step{Kind: rollout.StepDelete, Pod: in.pod, Reason: rollout.ReasonEnded, Why: fmt.Sprintf(
					"phase %s; %d PVCs are for the pod that replaces it", in.pod.Object.Status.Phase, len(in.claims))})
			}
		}
	}
	w.planBirths(free, ending)
}

// sendOff gives the claims of pods that are deleted to these: a crash between two deletions would leave them for the next
// new pod. But a pod that is not deleted after all, because it has changed since it was seen, would have lost them to no
// purpose. So such a pod is first named for deletion, by its label and in the version that was seen, which settles that it
// goes; and it is deleted when the cache shows that.
func (w *planned) sendOff(instances map[string]*instance) {
	for i := range w.Steps {
		s := &w.Steps[i]
		if s.Kind != rollout.StepDelete {
			continue
		}
		in := instances[instanceID(s.Pod.Object)]
		if in == nil || len(in.claims) == 0 {
			continue
		}
		if _, named := s.Pod.Object.Labels[keys.SpecifiedDelete]; !named {
			s.Kind = rollout.StepMarkForDeletion
			continue
		}
		w.give(in.claims, s.Pod.Object)
		in.claims = nil
	}
}

// letGo gives claims to the pod that is about to go, or deletes them if it has gone.
func (w *planned) letGo(in *instance) {
	if in.pod == nil {
		w.dropClaims = append(w.dropClaims, in.claims...)
		return
	}
	w.give(in.claims, in.pod.Object)
}

func (w *planned) give(claims []*corev1.PersistentVolumeClaim, pod *corev1.Pod) {
	for _, c := range claims {
		w.giveClaims = append(w.giveClaims, ownershipTransfer{claim: c, pod: pod})
	}
}

// planBirths gives free ids to new pods first, leaves out as many as wait for the id of a pod that is about to go, and
// leaves new ids for the rest to be drawn.
func (w *planned) planBirths(free []string, ending int) {
	held := 0
	steps := make([]podset.Step, 0, len(w.Steps))
	for _, s := range w.Steps {
		switch {
		case s.Kind != rollout.StepCreate:
		case len(free) > 0:
			s.Slot, free = free[0], free[1:]
			s.Why += "; reuses the PVCs of " + s.Slot
		case held < ending:
			held++
			continue
		}
		steps = append(steps, s)
	}
	w.Steps = steps
	if held > 0 {
		w.Holds = append(w.Holds, rollout.Hold{Reason: reasonPVC, Pods: held, Why: fmt.Sprintf(
			"%d new pods wait for PVCs of pods that are about to go", held)})
	}
}

// claimsOf are the claims to delete after the set's own pod of that id.
func claimsOf(o observed, id string) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for _, c := range o.claims {
		if id != "" && instanceID(c) == id && c.DeletionTimestamp == nil {
			out = append(out, c)
		}
	}
	return out
}

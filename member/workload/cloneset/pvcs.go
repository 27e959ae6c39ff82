package cloneset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// ownershipTransfer makes a pod the owner of a PVC, so that the PVC is deleted with the pod.
type ownershipTransfer struct {
	pvc *corev1.PersistentVolumeClaim
	pod *corev1.Pod
}

// instance is the pod and the PVCs of one instance ID.
type instance struct {
	pvcs []*corev1.PersistentVolumeClaim
	pod  *podset.Pod // nil if there is none
}

// planPVCs plans the PVCs, and assigns instance IDs to new pods. A new pod reuses PVCs by getting their ID.
//
// PVCs of a pod that this plan deletes are deleted as well: after the pod or, with reuse, by transferring them to the pod first (see
// transferDeleted). For PVCs whose pod is lost for another reason (its node is gone, it was evicted, a user deleted it), the user chooses with
// enablePVCReuse:
//
//	reuse      they stay, and the next new pod gets their ID. Because the pod's name contains the ID, the new pod waits until the
//	           old one is gone; a pod that has ended is deleted for this.
//	no reuse   they are deleted with their pod, which becomes their owner. PVCs without a pod are deleted.
//
// PVCs of a pod that is released are always transferred to it.
func (p *planned) planPVCs(o observed) {
	left := p.idsLeft(o)
	if len(o.pvcs) == 0 { // Most sets have none, and the code below visits each pod.
		p.assignIDs(nil, nil, left)
		return
	}
	instances := map[string]*instance{}
	instanceOf := func(id string) *instance {
		if instances[id] == nil {
			instances[id] = &instance{}
		}
		return instances[id]
	}
	for _, c := range o.pvcs {
		if id := instanceID(c); id != "" && c.DeletionTimestamp == nil {
			instanceOf(id).pvcs = append(instanceOf(id).pvcs, c)
		}
	}
	for i := range p.Pods {
		if id := instanceID(p.Pods[i].Object); id != "" {
			instanceOf(id).pod = &p.Pods[i]
		}
	}
	if o.set.Spec.ScaleStrategy.EnablePVCReuse {
		p.transferDeleted(instances)
	}
	for _, pod := range p.Release {
		if in := instances[instanceID(pod)]; in != nil && in.pod == nil {
			p.transfer(in.pvcs, pod)
			in.pvcs = nil
		}
	}
	var free []string      // IDs with PVCs and without a pod
	var releasing []string // inactive pods whose PVCs are to be reused
	for _, id := range slices.Sorted(maps.Keys(instances)) {
		in := instances[id]
		switch {
		case len(in.pvcs) == 0 || in.pod != nil && !in.pod.Inactive:
		case slices.Contains(left, id): // Its pod is yet to be created.
		case !o.set.Spec.ScaleStrategy.EnablePVCReuse:
			p.discard(in)
		case in.pod == nil:
			free = append(free, id)
		default:
			releasing = append(releasing, in.pod.Key)
			if in.pod.Object.DeletionTimestamp == nil {
				why := fmt.Sprintf("phase %s; %d PVC(s) will go to the pod that replaces it", in.pod.Object.Status.Phase, len(in.pvcs))
				p.Steps = append(p.Steps, podset.Step{Step: rollout.Step{Kind: rollout.StepDelete, Reason: rollout.ReasonEnded, Why: why}, Pod: in.pod})
			}
		}
	}
	p.assignIDs(free, releasing, left)
}

// idsLeft returns the IDs of new pods that the last attempt failed to create.
func (p *planned) idsLeft(o observed) []string {
	names := o.memory.Names()
	if len(names) == 0 {
		return nil
	}
	used, left := usedIDs(observed{pods: o.pods}), []string(nil)
	for _, name := range names {
		if id := strings.TrimPrefix(name, o.set.Name+"-"); !used[id] {
			left = append(left, id)
		}
	}
	return left[:min(len(left), len(p.Of(rollout.StepCreate)))]
}

// transferDeleted makes pods that are about to be deleted the owners of their PVCs. Otherwise, after a crash between the two deletions, a new
// pod would reuse the PVCs. But if the pod has changed since it was observed, its deletion is refused after the transfer. So the pod is first
// labelled for deletion, at the observed resourceVersion, and deleted once the cache shows the label.
func (p *planned) transferDeleted(instances map[string]*instance) {
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Kind != rollout.StepDelete {
			continue
		}
		in := instances[instanceID(s.Pod.Object)]
		if in == nil || len(in.pvcs) == 0 {
			continue
		}
		if _, marked := s.Pod.Object.Labels[keys.SpecifiedDelete]; !marked {
			s.Kind = rollout.StepMarkForDeletion
			continue
		}
		p.transfer(in.pvcs, s.Pod.Object)
		in.pvcs = nil
	}
}

// discard transfers PVCs to their pod, which is terminating or has ended, or deletes them if the pod is gone.
func (p *planned) discard(in *instance) {
	if in.pod == nil {
		p.deletePVCs = append(p.deletePVCs, in.pvcs...)
		return
	}
	p.transfer(in.pvcs, in.pod.Object)
}

func (p *planned) transfer(pvcs []*corev1.PersistentVolumeClaim, pod *corev1.Pod) {
	for _, c := range pvcs {
		p.transfers = append(p.transfers, ownershipTransfer{pvc: c, pod: pod})
	}
}

// assignIDs assigns IDs to new pods, first the IDs with free PVCs. Then one new pod for each releasing pod waits for its ID. The rest get the
// IDs left from the last attempt, or random ones when they are created.
func (p *planned) assignIDs(free, releasing, left []string) {
	if len(free)+len(releasing)+len(left) == 0 {
		return
	}
	held := 0
	steps := make([]podset.Step, 0, len(p.Steps))
	for _, s := range p.Steps {
		switch {
		case s.Kind != rollout.StepCreate:
		case len(free) > 0:
			s.Slot, free = free[0], free[1:]
			s.Why += "; reuses the PVCs of " + s.Slot
		case held < len(releasing):
			held++
			continue
		case len(left) > 0:
			s.Slot, left = left[0], left[1:]
		}
		steps = append(steps, s)
	}
	p.Steps = steps
	if held > 0 {
		p.Holds = append(p.Holds, rollout.Hold{Reason: rollout.ReasonPVC, Pods: held, Why: fmt.Sprintf(
			"%d new pod(s) waiting for PVCs of pods that are terminating or have ended: %s", held, event.Names(releasing))})
	}
}

// pvcsOf returns the PVCs of an instance ID that are not being deleted yet.
func pvcsOf(o observed, id string) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for _, c := range o.pvcs {
		if id != "" && instanceID(c) == id && c.DeletionTimestamp == nil {
			out = append(out, c)
		}
	}
	return out
}

package statefulset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// reasonFailedUpdatePVC (condition, event): a PVC can't follow its template.
const reasonFailedUpdatePVC = "FailedUpdatePVC"

// storageClassRecheck is how often to check a storage class that does not allow resizing. Storage classes are not watched.
const storageClassRecheck = time.Minute

// ownershipTransfer changes the owners of a PVC.
type ownershipTransfer struct {
	pvc *corev1.PersistentVolumeClaim
	// slot is the slot of the pod that becomes an owner, or stops being one.
	slot string
	from []types.UID
	to   []metav1.OwnerReference
}

// resize gives a PVC the size in its template.
type resize struct{ pvc, template *corev1.PersistentVolumeClaim }

// planPVCs plans the PVCs. They outlive their pods, and the controller never deletes them.
func (p *planned) planPVCs(o observed, g rollout.Goal, now time.Time) {
	waiting := p.holdCreates(o)
	if len(o.set.Spec.VolumeClaimTemplates)+len(p.Claims(p.Current.Name, nil)) == 0 {
		return
	}
	wanted := make(map[string]bool, len(g.Slots))
	for _, s := range g.Slots {
		wanted[s.Key] = true
	}
	for i := range p.Pods {
		// A pod that has a node but has not started would wait forever. A pod in an unwanted slot would leave the new PVC behind.
		if m := &p.Pods[i]; wanted[m.Slot] && !m.Inactive && m.Rank.Phase == corev1.PodPending {
			p.createPVCs = append(p.createPVCs, o.missing(setAtRevision(o.set, &p.Plan, m.Revision), m.Slot)...)
			if m.Object.Spec.NodeName == "" {
				waiting = append(waiting, m.Key)
			}
		}
	}
	p.detectStalledPVC(o, waiting, now)
	p.planOwners(o, wanted)
	if o.resizes() && g.Mode != rollout.OnDelete && !g.Paused {
		p.planResizes(o, g, now)
	}
}

// missing returns the PVCs of an ordinal that do not exist. set is the set as it was for the pod.
func (o *observed) missing(set *appsv1beta1.StatefulSet, ordinal string) []*corev1.PersistentVolumeClaim {
	return slices.DeleteFunc(newPVCs(set, o.gates, ordinal), func(c *corev1.PersistentVolumeClaim) bool {
		return o.pvcs[c.Name] != nil
	})
}

// holdCreates drops steps that create a pod if an orphan has its name and is adopted instead, or if one of its PVCs is about to be deleted.
// Such a PVC is terminating, or is owned by an earlier pod of that name or an earlier set, and the garbage collector has yet to delete it. It
// returns the names of the pods that wait for PVCs.
func (p *planned) holdCreates(o observed) (held []string) {
	before := len(p.Steps)
	current := p.Claims(p.Current.Name, o.set.Spec.VolumeClaimTemplates)
	p.Steps = slices.DeleteFunc(p.Steps, func(s podset.Step) bool {
		if s.Kind != rollout.StepCreate {
			return false
		}
		pod := podName(o.set, s.Slot)
		if slices.ContainsFunc(p.adopt, func(p *corev1.Pod) bool { return p.Name == pod }) {
			return true
		}
		claims := o.set.Spec.VolumeClaimTemplates
		if s.Old {
			claims = current
		}
		for _, t := range claims {
			pvc := o.pvcs[pvcNames(pod)(t.Name)]
			if pvc != nil && (pvc.DeletionTimestamp != nil || slices.ContainsFunc(pvc.OwnerReferences, func(ref metav1.OwnerReference) bool {
				return ref.Kind == "Pod" && ref.Name == pod || ref.Kind == Kind().Kind && ref.Name == o.set.Name && ref.UID != o.set.UID
			})) {
				held = append(held, pod)
				return true
			}
		}
		return false
	})
	p.CreatesDeferred = p.CreatesDeferred || len(p.Steps) < before
	if len(held) > 0 {
		p.Holds = append(p.Holds, rollout.Hold{Reason: rollout.ReasonPVC, Pods: len(held), Why: fmt.Sprintf(
			"%d new pod(s) waiting for PVCs that are being deleted", len(held))})
	}
	return held
}

// detectStalledPVC finds, among the PVCs of these pods, the one that has been terminating for the longest time, if that exceeds the deadline.
// Another controller's finalizer may hold it.
func (p *planned) detectStalledPVC(o observed, pods []string, now time.Time) {
	if len(pods) == 0 {
		return
	}
	var first *corev1.PersistentVolumeClaim
	claims := slices.Concat(o.set.Spec.VolumeClaimTemplates, p.Claims(p.Current.Name, nil))
	for _, pod := range pods {
		for _, t := range claims {
			c := o.pvcs[pvcNames(pod)(t.Name)]
			if c != nil && c.DeletionTimestamp != nil && (first == nil || c.DeletionTimestamp.Before(first.DeletionTimestamp)) {
				first = c
			}
		}
	}
	if first == nil {
		return
	}
	since := first.DeletionTimestamp.UTC()
	if left := since.Add(podset.DefaultProgressDeadline).Sub(now); left > 0 {
		p.Recheck = timing.Sooner(p.Recheck, left)
		return
	}
	p.stalledPVC = report.StalledFailure(string(rollout.ReasonPVC),
		fmt.Sprintf("pod %s is waiting for the deletion of PVC %s, which has been terminating since %s",
			podOfPVC(o.set, first.Name), first.Name, since.Format(time.RFC3339)),
		"held by "+strings.Join(first.Finalizers, ", "))
}

// retention reports whether PVCs are deleted with their set, and with a pod that is scaled in. Both are false while the gate is off.
func retention(set *appsv1beta1.StatefulSet, g Gates) (deleted, scaled bool) {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil || !g.DeletePVCs {
		return false, false
	}
	const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return p.WhenDeleted == remove, p.WhenScaled == remove
}

// planOwners plans the owners that PVCs are to be deleted with: the set, or a pod in an unwanted ordinal. A PVC without a pod gets no owner,
// because it was kept under an earlier policy, and a new policy does not undo that. But it is no longer deleted with a set that keeps its
// PVCs. With the gate off, every set keeps its PVCs, even those that got an owner while the gate was on.
func (p *planned) planOwners(o observed, wanted map[string]bool) {
	withSet, withPod := retention(o.set, o.gates)
	withPod = withPod && p.Ignored == "" // Otherwise it is unknown which ordinals are wanted, and data could be lost.
	members := make(map[string]*podset.Pod, len(p.Pods))
	for i := range p.Pods {
		members[p.Pods[i].Key] = &p.Pods[i]
	}
	ofSet := metav1.NewControllerRef(o.set, Kind())
	for _, name := range slices.Sorted(maps.Keys(o.pvcs)) {
		pvc, m := o.pvcs[name], members[podOfPVC(o.set, name)]
		ours := owns(pvc, o.set.UID)
		switch {
		case o.template(name) == nil || pvc.DeletionTimestamp != nil || foreign(pvc, o.set, m):
		case m == nil && ours && !withSet:
			p.transfer(pvc, ordinalIn(o.set, podOfPVC(o.set, name)), []types.UID{o.set.UID}, nil)
		case m == nil:
		case !wanted[m.Slot] && withPod:
			if !owns(pvc, m.Object.UID) || ours {
				p.transfer(pvc, m.Slot, []types.UID{o.set.UID}, &metav1.OwnerReference{
					APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod", Name: m.Key, UID: m.Object.UID, Controller: new(true),
				})
			}
		case m.Inactive && withPod && owns(pvc, m.Object.UID):
			// The PVC is deleted, and the next pod of its name gets a new one.
		case ours != withSet || owns(pvc, m.Object.UID):
			var to *metav1.OwnerReference
			if withSet {
				to = ofSet
			}
			p.transfer(pvc, m.Slot, []types.UID{o.set.UID, m.Object.UID}, to)
		}
	}
}

// transfer plans to replace the owners in from that the PVC has with to.
func (p *planned) transfer(pvc *corev1.PersistentVolumeClaim, slot string, from []types.UID, to *metav1.OwnerReference) {
	h := ownershipTransfer{pvc: pvc, slot: slot}
	if to != nil && !owns(pvc, to.UID) {
		h.to = append(h.to, *to)
	}
	for _, uid := range from {
		if owns(pvc, uid) && (to == nil || to.UID != uid) {
			h.from = append(h.from, uid)
		}
	}
	p.transfers = append(p.transfers, h)
}

func owns(pvc *corev1.PersistentVolumeClaim, uid types.UID) bool {
	return slices.ContainsFunc(pvc.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}

// foreign reports whether a PVC has another controller, or is owned by an earlier pod.
func foreign(pvc *corev1.PersistentVolumeClaim, set *appsv1beta1.StatefulSet, m *podset.Pod) bool {
	return slices.ContainsFunc(pvc.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return (ptr.Deref(ref.Controller, false) || ref.Kind == "Pod") && ref.UID != set.UID && (m == nil || ref.UID != m.Object.UID)
	})
}

// resizes reports whether existing PVCs follow their templates.
func (o *observed) resizes() bool {
	return o.gates.ResizePVCs && o.set.Spec.VolumeClaimUpdateStrategy.Type == appsv1beta1.StatefulSetClaimOnPodRollingUpdate
}

// template returns the template for a PVC of the set; nil if it was removed.
func (o *observed) template(pvc string) *corev1.PersistentVolumeClaim {
	pod := podOfPVC(o.set, pvc)
	if pod == "" {
		return nil
	}
	return templateOf(o.set, pvc[:len(pvc)-len(pod)-1])
}

func templateOf(set *appsv1beta1.StatefulSet, name string) *corev1.PersistentVolumeClaim {
	all := set.Spec.VolumeClaimTemplates
	i := slices.IndexFunc(all, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// pvcState is how a PVC compares with its template. Higher values are worse.
type pvcState int

const (
	// pvcFits means that the PVC requests and has at least the size in its template, or has no volume yet.
	pvcFits pvcState = iota
	// pvcResizing means that the volume is still smaller than requested.
	pvcResizing
	// pvcTooSmall means that the PVC requests less than its template.
	pvcTooSmall
	// pvcIncompatible means that storage class or access modes differ from the template; both are immutable.
	pvcIncompatible
)

// compare compares a PVC with its template, which is nil if it was removed.
func compare(pvc, template *corev1.PersistentVolumeClaim) pvcState {
	if template == nil {
		return pvcFits
	}
	requests := pvc.Spec.Resources.Requests
	switch {
	case !compatible(pvc, template):
		return pvcIncompatible
	case pvc.Status.Phase != corev1.ClaimBound:
	case larger(template.Spec.Resources.Requests, requests):
		return pvcTooSmall
	case condition(pvc, corev1.PersistentVolumeClaimFileSystemResizePending) != nil:
		// The resize completes when a pod mounts the volume.
	case larger(requests, pvc.Status.Capacity):
		return pvcResizing
	}
	return pvcFits
}

// compatible reports whether a PVC has the access modes of its template, and the template's storage class if it names one.
func compatible(pvc, template *corev1.PersistentVolumeClaim) bool {
	a, b := &pvc.Spec, &template.Spec
	modes := func(s *corev1.PersistentVolumeClaimSpec) []corev1.PersistentVolumeAccessMode {
		return slices.Sorted(slices.Values(s.AccessModes))
	}
	return (b.StorageClassName == nil || ptr.Equal(a.StorageClassName, b.StorageClassName)) && slices.Equal(modes(a), modes(b))
}

// larger reports whether a has more storage than b.
func larger(a, b corev1.ResourceList) bool {
	x, y := a[corev1.ResourceStorage], b[corev1.ResourceStorage]
	return x.Cmp(y) > 0
}

// condition returns the condition of a PVC if it is True, otherwise nil.
func condition(pvc *corev1.PersistentVolumeClaim, t corev1.PersistentVolumeClaimConditionType) *corev1.PersistentVolumeClaimCondition {
	for i := range pvc.Status.Conditions {
		if c := &pvc.Status.Conditions[i]; c.Type == t && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// planResizes plans to resize PVCs. PVCs of a pod that is about to be updated are resized before the update, PVCs of an updated pod at any
// time (#1699). In total, it resizes PVCs for at most maxUnavailable pods at a time.
func (p *planned) planResizes(o observed, g rollout.Goal, now time.Time) {
	fits, room := make(map[string]pvcState, len(p.Pods)), g.MaxUnavailable
	for i := range p.Pods {
		m := &p.Pods[i]
		if m.Slot != "" && !m.Inactive {
			fits[m.Key] = p.compare(o, m, now)
		}
		if fits[m.Key] == pvcResizing {
			room--
		}
	}
	waiting := 0
	p.Steps = slices.DeleteFunc(p.Steps, func(s podset.Step) bool {
		if s.Pod == nil || fits[s.Pod.Key] == pvcFits || s.Reason != rollout.ReasonInPlace && s.Reason != rollout.ReasonRecreate {
			return false
		}
		if waiting++; fits[s.Pod.Key] == pvcTooSmall {
			p.resizeAll(o, s.Pod)
			room--
		}
		return true
	})
	for _, m := range p.updatedTooSmall(g, fits) {
		if room <= 0 {
			waiting++
			continue
		}
		p.resizeAll(o, m)
		room--
	}
	if waiting > 0 {
		p.Holds = append(p.Holds, rollout.Hold{Reason: rollout.ReasonPVCResize, Pods: waiting, Why: fmt.Sprintf(
			"%d pod(s) waiting for their PVCs to be resized", waiting)})
	}
}

// updatedTooSmall returns the pods at the update revision whose PVCs are too small, in update order and down to the partition.
func (p *planned) updatedTooSmall(g rollout.Goal, fits map[string]pvcState) []*podset.Pod {
	keeps := map[string]bool{}
	for _, s := range g.Slots {
		keeps[s.Key] = s.Old
	}
	var out []*podset.Pod
	old := 0
	for i := range p.Pods {
		m := &p.Pods[i]
		keep, wanted := keeps[m.Slot]
		switch {
		case !wanted || m.Inactive:
		case m.Old:
			old++
		case fits[m.Key] == pvcTooSmall && !keep:
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *podset.Pod) int {
		return cmp.Or(cmp.Compare(a.Rank.Order, b.Rank.Order), cmp.Compare(a.Key, b.Key))
	})
	return out[:max(0, min(len(out), len(out)+old-g.Partition))]
}

// resizeAll plans to resize the PVCs of a pod.
func (p *planned) resizeAll(o observed, m *podset.Pod) {
	for name, t := range o.pvcsOf(m.Key) {
		if c := o.pvcs[name]; c != nil && compare(c, t) == pvcTooSmall && o.resizable(c) {
			p.resizes = append(p.resizes, resize{pvc: c, template: t})
		}
	}
}

// pvcsOf yields the names and templates of a pod's PVCs.
func (o *observed) pvcsOf(pod string) func(yield func(string, *corev1.PersistentVolumeClaim) bool) {
	return func(yield func(string, *corev1.PersistentVolumeClaim) bool) {
		for i := range o.set.Spec.VolumeClaimTemplates {
			t := &o.set.Spec.VolumeClaimTemplates[i]
			if !yield(pvcNames(pod)(t.Name), t) {
				return
			}
		}
	}
}

// resizable reports whether the storage class of a PVC allows resizing.
func (o *observed) resizable(c *corev1.PersistentVolumeClaim) bool {
	return o.classes[ptr.Deref(c.Spec.StorageClassName, "")]
}

// compare returns the worst state of a pod's PVCs, and notes why one can't follow its template.
func (p *planned) compare(o observed, m *podset.Pod, now time.Time) pvcState {
	worst := pvcFits
	for name, t := range o.pvcsOf(m.Key) {
		c := o.pvcs[name]
		if c == nil || c.DeletionTimestamp != nil {
			continue
		}
		state := compare(c, t)
		if state == pvcFits && c.Status.Phase != corev1.ClaimBound && m.Ready {
			state = pvcResizing // It has a volume that the cache does not show yet.
		}
		worst = max(worst, state)
		if since, _ := resizingSince(c); state == pvcResizing && !since.IsZero() {
			p.Recheck = timing.Sooner(p.Recheck, max(since.Add(podset.DefaultProgressDeadline).Sub(now), 0))
		}
		if state == pvcTooSmall && !o.resizable(c) {
			p.Recheck = timing.Sooner(p.Recheck, storageClassRecheck)
		}
		if why := o.resizeFailure(c, state, now); why != "" && p.resizeFailure.Reason == "" {
			p.resizeFailure = report.StalledFailure(reasonFailedUpdatePVC, fmt.Sprintf("PVC %s can't follow its template", name), why)
		}
	}
	return worst
}

// resizeFailure returns why a PVC can't follow its template; empty if it can.
func (o *observed) resizeFailure(c *corev1.PersistentVolumeClaim, state pvcState, now time.Time) string {
	switch state {
	case pvcIncompatible:
		return "its storage class or access modes differ: delete the PVC and its pod to have both re-created"
	case pvcTooSmall:
		if !o.resizable(c) {
			if class := ptr.Deref(c.Spec.StorageClassName, ""); class != "" {
				return fmt.Sprintf("storage class %q doesn't allow resizing", class)
			}
			return "it can't be resized without a storage class"
		}
	case pvcResizing:
		if c.Status.Phase == corev1.ClaimLost {
			return "its volume is lost: delete the PVC and its pod to have both re-created"
		}
		for _, t := range []corev1.PersistentVolumeClaimConditionType{
			corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
		} {
			if e := condition(c, t); e != nil {
				return fmt.Sprintf("%s since %s: %s", t, e.LastTransitionTime.UTC().Format(time.RFC3339), e.Message)
			}
		}
		if since, why := resizingSince(c); !since.IsZero() && !now.Before(since.Add(podset.DefaultProgressDeadline)) {
			return why
		}
	case pvcFits:
	}
	return ""
}

// resizingSince returns since when a PVC is being resized or has waited for the resize to start, and a sentence that says so. The time is zero
// if it is unknown.
func resizingSince(c *corev1.PersistentVolumeClaim) (since time.Time, why string) {
	if e := condition(c, corev1.PersistentVolumeClaimResizing); e != nil {
		since = e.LastTransitionTime.UTC()
		return since, fmt.Sprintf("%s since %s: %s", e.Type, since.Format(time.RFC3339), e.Message)
	}
	since, err := time.Parse(time.RFC3339, c.Annotations[keys.ResizeRequested])
	if err != nil {
		return time.Time{}, ""
	}
	return since, fmt.Sprintf("nothing has started to resize it since %s: does the provisioner of its storage class have a resizer?",
		since.UTC().Format(time.RFC3339))
}

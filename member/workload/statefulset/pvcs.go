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
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// Reasons of holds and failures.
const (
	// reasonPVC (Hold): a new pod waits for a claim that is being deleted.
	reasonPVC rollout.Reason = "PVC"
	// reasonPVCResize (Hold): the update of a pod waits for its claim to grow.
	reasonPVCResize rollout.Reason = "PVCResize"
	// reasonFailedUpdatePVC (condition, event): a claim can't come to what its template asks for.
	reasonFailedUpdatePVC = "FailedUpdatePVC"
)

// classEvery is how often a storage class is looked at that lets no claim grow: nothing tells of its changes.
const classEvery = time.Minute

// handOver is a claim that gets another owner.
type handOver struct {
	claim *corev1.PersistentVolumeClaim
	// slot is the place of the pod that goes with the claim, or does so no more.
	slot string
	from []types.UID
	to   []metav1.OwnerReference
}

// growth is a claim that is to have the size of its template.
type growth struct{ claim, template *corev1.PersistentVolumeClaim }

// planClaims decides on claims. They outlive their pods, and are never deleted by the set.
func (w *planned) planClaims(o observed, g rollout.Goal, now time.Time) {
	waits := w.holdBirths(o)
	if len(o.set.Spec.VolumeClaimTemplates) == 0 {
		return
	}
	wanted := make(map[string]bool, len(g.Slots))
	for _, s := range g.Slots {
		wanted[s.Key] = true
	}
	for i := range w.Pods {
		// One that is bound to a node and has not started yet would wait for ever; what a spare one got would stay behind.
		if m := &w.Pods[i]; wanted[m.Slot] && !m.Inactive && m.Rank.Phase == corev1.PodPending {
			w.anew = append(w.anew, o.missing(m.Slot)...)
			if m.Object.Spec.NodeName == "" {
				waits = append(waits, m.Key)
			}
		}
	}
	w.judgeWaits(o, waits, now)
	if o.gates.DeleteClaims {
		w.retain(o, wanted)
	}
	if o.resizes() && g.Mode != rollout.OnDelete && !g.Paused {
		w.resize(o, g, now)
	}
}

// missing are the claims of an ordinal that are not there.
func (o *observed) missing(ordinal string) []*corev1.PersistentVolumeClaim {
	return slices.DeleteFunc(newClaims(o.set, o.gates, ordinal), func(c *corev1.PersistentVolumeClaim) bool {
		return o.claims[c.Name] != nil
	})
}

// holdBirths leaves out new pods whose name an orphan has, which is adopted instead, and those with a claim that is about to
// go: because it is being deleted, or because it went to a former pod of that name, or to a former set, and the collector has
// not come by yet. It returns the names of those that wait for claims.
func (w *planned) holdBirths(o observed) (held []string) {
	before := len(w.Steps)
	w.Steps = slices.DeleteFunc(w.Steps, func(s podset.Step) bool {
		if s.Kind != rollout.StepCreate {
			return false
		}
		pod := podName(o.set, s.Slot)
		if slices.ContainsFunc(w.adopt, func(p *corev1.Pod) bool { return p.Name == pod }) {
			return true
		}
		for i := range o.set.Spec.VolumeClaimTemplates {
			claim := o.claims[claimNames(pod)(o.set.Spec.VolumeClaimTemplates[i].Name)]
			if claim != nil && (claim.DeletionTimestamp != nil || slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
				return ref.Kind == "Pod" && ref.Name == pod || ref.Kind == Kind().Kind && ref.Name == o.set.Name && ref.UID != o.set.UID
			})) {
				held = append(held, pod)
				return true
			}
		}
		return false
	})
	w.CreatesDeferred = len(w.Steps) < before
	if len(held) > 0 {
		w.Holds = append(w.Holds, rollout.Hold{Reason: reasonPVC, Pods: len(held), Why: fmt.Sprintf(
			"%d new pods wait for PVCs that are being deleted", len(held))})
	}
	return held
}

// judgeWaits finds the claim of these pods that has been going for the longest time, if that is too long: what holds it may be
// somebody else's.
func (w *planned) judgeWaits(o observed, pods []string, now time.Time) {
	var first *corev1.PersistentVolumeClaim
	for _, pod := range pods {
		for name := range o.claimsOf(pod) {
			c := o.claims[name]
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
		w.Recheck = podset.SoonerOf(w.Recheck, left)
		return
	}
	w.waits = report.StalledFailure(string(reasonPVC),
		fmt.Sprintf("pod %s waits for claim %s to be gone, which is being deleted since %s", podOfClaim(o.set, first.Name), first.Name, since.Format(time.RFC3339)),
		"held by "+strings.Join(first.Finalizers, ", "))
}

// retention tells whether claims go with their set, and with a pod that is scaled in.
func retention(set *appsv1beta1.StatefulSet, g Gates) (deleted, scaled bool) {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil || !g.DeleteClaims {
		return false, false
	}
	const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return p.WhenDeleted == remove, p.WhenScaled == remove
}

// retain gives claims the owners that they are to go with: the set, or a pod in an ordinal that is not wanted. A claim without
// a pod gets none, because a policy is no order to delete what was kept under another one; but it is not to go any more with
// a set that keeps its claims.
func (w *planned) retain(o observed, wanted map[string]bool) {
	withSet, withPod := retention(o.set, o.gates)
	withPod = withPod && w.Ignored == "" // Else it is unknown which ordinals are wanted, and a PVC that goes with its pod is lost.
	members := make(map[string]*podset.Pod, len(w.Pods))
	for i := range w.Pods {
		members[w.Pods[i].Key] = &w.Pods[i]
	}
	ofSet := metav1.NewControllerRef(o.set, Kind())
	for _, name := range slices.Sorted(maps.Keys(o.claims)) {
		claim, m := o.claims[name], members[podOfClaim(o.set, name)]
		ours := owns(claim, o.set.UID)
		switch {
		case o.template(name) == nil || claim.DeletionTimestamp != nil || foreign(claim, o.set, m):
		case m == nil && ours && !withSet:
			w.hand(claim, ordinalIn(o.set, podOfClaim(o.set, name)), []types.UID{o.set.UID}, nil)
		case m == nil:
		case !wanted[m.Slot] && withPod:
			if !owns(claim, m.Object.UID) || ours {
				w.hand(claim, m.Slot, []types.UID{o.set.UID}, &metav1.OwnerReference{
					APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod", Name: m.Key, UID: m.Object.UID, Controller: new(true),
				})
			}
		case m.Inactive && withPod && owns(claim, m.Object.UID):
			// It goes, and the next pod of its name gets a new one.
		case ours != withSet || owns(claim, m.Object.UID):
			var to *metav1.OwnerReference
			if withSet {
				to = ofSet
			}
			w.hand(claim, m.Slot, []types.UID{o.set.UID, m.Object.UID}, to)
		}
	}
}

// hand plans another owner, which is not among the former ones that it keeps.
func (w *planned) hand(claim *corev1.PersistentVolumeClaim, slot string, from []types.UID, to *metav1.OwnerReference) {
	h := handOver{claim: claim, slot: slot}
	if to != nil && !owns(claim, to.UID) {
		h.to = append(h.to, *to)
	}
	for _, uid := range from {
		if owns(claim, uid) && (to == nil || to.UID != uid) {
			h.from = append(h.from, uid)
		}
	}
	w.handOver = append(w.handOver, h)
}

func owns(claim *corev1.PersistentVolumeClaim, uid types.UID) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}

// foreign tells of a claim that somebody else controls, or that goes with a former pod.
func foreign(claim *corev1.PersistentVolumeClaim, set *appsv1beta1.StatefulSet, m *podset.Pod) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return (ptr.Deref(ref.Controller, false) || ref.Kind == "Pod") && ref.UID != set.UID && (m == nil || ref.UID != m.Object.UID)
	})
}

// resizes tells whether claims that exist follow their templates.
func (o *observed) resizes() bool {
	return o.gates.ResizeClaims && o.set.Spec.VolumeClaimUpdateStrategy.Type == appsv1beta1.StatefulSetClaimOnPodRollingUpdate
}

// template is that of a claim of the set, nil if it has none any more.
func (o *observed) template(claim string) *corev1.PersistentVolumeClaim {
	pod := podOfClaim(o.set, claim)
	if pod == "" {
		return nil
	}
	return templateOf(o.set, claim[:len(claim)-len(pod)-1])
}

func templateOf(set *appsv1beta1.StatefulSet, name string) *corev1.PersistentVolumeClaim {
	all := set.Spec.VolumeClaimTemplates
	i := slices.IndexFunc(all, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// claimFit is how a claim stands to its template. Higher ones are worse.
type claimFit int

const (
	// claimFits: it asks for what its template does, or for more, and has it. So does one without a volume yet.
	claimFits claimFit = iota
	// claimGrows: its volume is still smaller than what it asks for.
	claimGrows
	// claimSmall: it asks for less than its template.
	claimSmall
	// claimOdd: its storage class or access modes are others than those of its template, which nobody can change.
	claimOdd
)

// fit compares a claim with its template; without one there is nothing to come to.
func fit(claim, template *corev1.PersistentVolumeClaim) claimFit {
	if template == nil {
		return claimFits
	}
	asks := claim.Spec.Resources.Requests
	switch {
	case !sameKind(claim, template):
		return claimOdd
	case claim.Status.Phase != corev1.ClaimBound:
	case larger(template.Spec.Resources.Requests, asks):
		return claimSmall
	case told(claim, corev1.PersistentVolumeClaimFileSystemResizePending) != nil:
		// The rest happens when a pod mounts it.
	case larger(asks, claim.Status.Capacity):
		return claimGrows
	}
	return claimFits
}

// sameKind tells whether a claim has the storage class, if it names one, and the modes of its template.
func sameKind(claim, template *corev1.PersistentVolumeClaim) bool {
	a, b := &claim.Spec, &template.Spec
	modes := func(s *corev1.PersistentVolumeClaimSpec) []corev1.PersistentVolumeAccessMode {
		return slices.Sorted(slices.Values(s.AccessModes))
	}
	return (b.StorageClassName == nil || ptr.Equal(a.StorageClassName, b.StorageClassName)) && slices.Equal(modes(a), modes(b))
}

// larger tells whether a has more storage than b.
func larger(a, b corev1.ResourceList) bool {
	x, y := a[corev1.ResourceStorage], b[corev1.ResourceStorage]
	return x.Cmp(y) > 0
}

// told is a condition of a claim that holds, nil if it does not.
func told(claim *corev1.PersistentVolumeClaim, t corev1.PersistentVolumeClaimConditionType) *corev1.PersistentVolumeClaimCondition {
	for i := range claim.Status.Conditions {
		if c := &claim.Status.Conditions[i]; c.Type == t && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// resize lets claims follow their templates: those of a pod that is to be updated before it is, those of an updated pod by
// themselves (#1699), and of all no more at a time than may be unavailable.
func (w *planned) resize(o observed, g rollout.Goal, now time.Time) {
	fits, room := make(map[string]claimFit, len(w.Pods)), g.MaxUnavailable
	for i := range w.Pods {
		m := &w.Pods[i]
		if m.Slot != "" && !m.Inactive {
			fits[m.Key] = w.fit(o, m, now)
		}
		if fits[m.Key] == claimGrows {
			room--
		}
	}
	waits := 0
	w.Steps = slices.DeleteFunc(w.Steps, func(s podset.Step) bool {
		if s.Pod == nil || fits[s.Pod.Key] == claimFits || s.Reason != rollout.ReasonInPlace && s.Reason != rollout.ReasonRecreate {
			return false
		}
		if waits++; fits[s.Pod.Key] == claimSmall {
			w.growAll(o, s.Pod)
			room--
		}
		return true
	})
	for _, m := range w.updatedSmall(g, fits) {
		if room <= 0 {
			waits++
			continue
		}
		w.growAll(o, m)
		room--
	}
	if waits > 0 {
		w.Holds = append(w.Holds, rollout.Hold{Reason: reasonPVCResize, Pods: waits, Why: fmt.Sprintf(
			"%d pods wait for their PVCs to be resized", waits)})
	}
}

// updatedSmall are the pods at the update revision whose claims are to grow, in the order of an update and down to the
// partition.
func (w *planned) updatedSmall(g rollout.Goal, fits map[string]claimFit) []*podset.Pod {
	keeps := map[string]bool{}
	for _, s := range g.Slots {
		keeps[s.Key] = s.Old
	}
	var out []*podset.Pod
	old := 0
	for i := range w.Pods {
		m := &w.Pods[i]
		keep, wanted := keeps[m.Slot]
		switch {
		case !wanted || m.Inactive:
		case m.Old:
			old++
		case fits[m.Key] == claimSmall && !keep:
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *podset.Pod) int {
		return cmp.Or(cmp.Compare(a.Rank.Order, b.Rank.Order), cmp.Compare(a.Key, b.Key))
	})
	return out[:max(0, min(len(out), len(out)+old-g.Partition))]
}

// growAll plans to let the claims of a pod grow.
func (w *planned) growAll(o observed, m *podset.Pod) {
	for name, t := range o.claimsOf(m.Key) {
		if c := o.claims[name]; c != nil && fit(c, t) == claimSmall && o.expands(c) {
			w.grow = append(w.grow, growth{claim: c, template: t})
		}
	}
}

// claimsOf yields the names and templates of a pod's claims.
func (o *observed) claimsOf(pod string) func(yield func(string, *corev1.PersistentVolumeClaim) bool) {
	return func(yield func(string, *corev1.PersistentVolumeClaim) bool) {
		for i := range o.set.Spec.VolumeClaimTemplates {
			t := &o.set.Spec.VolumeClaimTemplates[i]
			if !yield(claimNames(pod)(t.Name), t) {
				return
			}
		}
	}
}

// expands tells whether the class of a claim lets it grow.
func (o *observed) expands(c *corev1.PersistentVolumeClaim) bool {
	return o.classes[ptr.Deref(c.Spec.StorageClassName, "")]
}

// fit is the worst of a pod's claims, and notes why one can't come to its template.
func (w *planned) fit(o observed, m *podset.Pod, now time.Time) claimFit {
	worst := claimFits
	for name, t := range o.claimsOf(m.Key) {
		c := o.claims[name]
		if c == nil || c.DeletionTimestamp != nil {
			continue
		}
		is := fit(c, t)
		if is == claimFits && c.Status.Phase != corev1.ClaimBound && m.Ready {
			is = claimGrows // It has a volume, and the cache does not show that yet.
		}
		worst = max(worst, is)
		if at := told(c, corev1.PersistentVolumeClaimResizing); is == claimGrows && at != nil {
			w.Recheck = podset.SoonerOf(w.Recheck, max(at.LastTransitionTime.Add(podset.DefaultProgressDeadline).Sub(now), 0))
		}
		if is == claimSmall && !o.expands(c) {
			w.Recheck = podset.SoonerOf(w.Recheck, classEvery)
		}
		if why := o.stuck(c, is, now); why != "" && w.stuck.Reason == "" {
			w.stuck = report.StalledFailure(reasonFailedUpdatePVC, fmt.Sprintf("claim %s can't follow its template", name), why)
		}
	}
	return worst
}

// stuck is why a claim does not come to its template; empty if it may.
func (o *observed) stuck(c *corev1.PersistentVolumeClaim, is claimFit, now time.Time) string {
	switch is {
	case claimOdd:
		return "its storage class or access modes differ: delete the claim, and its pod is made anew with another one"
	case claimSmall:
		if !o.expands(c) {
			return fmt.Sprintf("storage class %q does not let claims grow", ptr.Deref(c.Spec.StorageClassName, ""))
		}
	case claimGrows:
		if c.Status.Phase == corev1.ClaimLost {
			return "its volume is lost: delete the claim, and its pod is made anew with another one"
		}
		for _, t := range []corev1.PersistentVolumeClaimConditionType{
			corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
			corev1.PersistentVolumeClaimResizing,
		} {
			e := told(c, t)
			if e != nil && (t != corev1.PersistentVolumeClaimResizing || !now.Before(e.LastTransitionTime.Add(podset.DefaultProgressDeadline))) {
				return fmt.Sprintf("%s since %s: %s", t, e.LastTransitionTime.UTC().Format(time.RFC3339), e.Message)
			}
		}
	case claimFits:
	}
	return ""
}

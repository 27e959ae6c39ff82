package sim

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Provisioner binds each PVC to a volume of the requested size, and resizes volumes: it first sets the condition Resizing, then the new
// capacity. A PVC that it can't resize gets the corresponding condition.
type Provisioner struct {
	// Fails reports whether a PVC's volume can't be resized. Nil means that all can.
	Fails func(*corev1.PersistentVolumeClaim) bool
	// Static reports whether a PVC's volume is never resized, without any report about it. Nil means none.
	Static func(*corev1.PersistentVolumeClaim) bool
}

// Steps implements Actor.
func (p Provisioner) Steps(w *World) []Step {
	var out []Step
	for _, c := range All[*corev1.PersistentVolumeClaim](w) {
		if next := p.next(w, c); next != nil {
			out = append(out, Step{"", func(context.Context) error { return w.updateObject("provisioner", "status", next) }})
		}
	}
	return out
}

// next returns the PVC after the next change to its volume, or nil if there is none.
func (p Provisioner) next(w *World, current *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c := current.DeepCopy()
	has, asks := c.Status.Capacity[corev1.ResourceStorage], c.Spec.Resources.Requests[corev1.ResourceStorage]
	on := func(t corev1.PersistentVolumeClaimConditionType) bool {
		return slices.ContainsFunc(c.Status.Conditions, func(o corev1.PersistentVolumeClaimCondition) bool { return o.Type == t })
	}
	say := func(t corev1.PersistentVolumeClaimConditionType, message string) {
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
			Type: t, Status: corev1.ConditionTrue, Message: message, LastTransitionTime: metav1.NewTime(w.Now()),
		}}
	}
	switch fails := p.Fails != nil && p.Fails(c); {
	case c.DeletionTimestamp != nil:
		return nil
	case c.Status.Phase != corev1.ClaimBound:
		c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, c.Spec.Resources.Requests
	case has.Cmp(asks) >= 0 || p.Static != nil && p.Static(c):
		return nil
	case fails && !on(corev1.PersistentVolumeClaimControllerResizeError):
		say(corev1.PersistentVolumeClaimControllerResizeError, "no room")
	case fails:
		return nil
	case !on(corev1.PersistentVolumeClaimResizing):
		say(corev1.PersistentVolumeClaimResizing, "")
	default:
		c.Status.Capacity, c.Status.Conditions = c.Spec.Resources.Requests, nil
	}
	return c
}

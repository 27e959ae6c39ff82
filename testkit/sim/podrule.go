package sim

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Edited returns the pod before and after a write of the controller, if the write changes what the pod's containers run.
func Edited(c Change) (before, after *corev1.Pod, ok bool) {
	before, _ = c.Before.(*corev1.Pod)
	after, _ = c.After.(*corev1.Pod)
	return before, after, before != nil && after != nil && c.Verb == Patch && before.Generation != after.Generation
}

// Once is the rule that a write that changes what a pod's containers run also changes the pod's revision to the wanted one, and is made only
// once. wanted returns the name of the update revision in the controller's cache, or "".
func Once(wanted func(*World) string) Rule {
	return Rule{Name: "a pod is updated once for a revision", Write: func(w *World, c Change) error {
		before, after, ok := Edited(c)
		if !ok {
			return nil
		}
		old, current := before.Labels[keys.ControllerRevisionHash], after.Labels[keys.ControllerRevisionHash]
		if revision.Same(old, current) {
			return fmt.Errorf("%s changed the spec, and the revision %s was there", c.Request, current)
		}
		if name := wanted(w); !c.Late && name != "" && !podset.AtRevision(after, name) {
			return fmt.Errorf("%s went to %s, which is not wanted", c.Request, current)
		}
		return nil
	}}
}

// PausedHolds is the rule that no pod is updated in place while updates are paused, according to the controller's cache.
func PausedHolds(paused func(*World) bool) Rule {
	return Rule{Name: "no update while paused", Write: func(w *World, c Change) error {
		if _, _, ok := Edited(c); ok && !c.Late && paused(w) {
			return errors.New(c.String())
		}
		return nil
	}}
}

// HooksHold is the rule that no pod is updated in place or deleted while a hook holds it, whatever the cache shows. hooks returns the
// workload's hooks in the apiserver, or nil. active reports whether a pod is an active pod of the workload.
func HooksHold(hooks func(*World) *pods.Lifecycle, active func(*World, *corev1.Pod) bool) Rule {
	return Rule{Name: "hooks are never skipped", Write: func(w *World, c Change) error {
		before, ok := c.Before.(*corev1.Pod)
		l := hooks(w)
		if !ok || c.After == nil || l == nil || !active(w, before) {
			return nil
		}
		_, _, edit := Edited(c)
		if edit && lifecycle.Hooked(l.InPlaceUpdate, before) || c.Verb == Delete && lifecycle.Hooked(l.PreDelete, before) {
			return errors.New(c.String())
		}
		return nil
	}}
}

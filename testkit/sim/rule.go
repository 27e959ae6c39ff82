package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Rule must always hold. Its functions only read the world.
type Rule struct {
	Name string
	// Write checks a write of the controller after it has reached the apiserver. Nil if the rule is not about writes.
	Write func(*World, Change) error
	// State checks the world after each step. Nil if the rule is not about states.
	State func(*World) error
}

// DeletesByUID is the rule that deletions have a UID precondition: another object with the same name may have been created meanwhile.
func DeletesByUID() Rule {
	return Rule{Name: "deletions name the UID", Write: func(_ *World, c Change) error {
		if c.Verb == Delete && (c.Preconditions == nil || c.Preconditions.UID == nil) {
			return fmt.Errorf("%s has no UID precondition", c.Request)
		}
		return nil
	}}
}

// OwnOnly is the rule that the controller changes and deletes only those objects of type T for which own returned true before the write.
func OwnOnly[T client.Object](own func(*World, T) bool) Rule {
	return Rule{Name: "others' objects are left alone", Write: func(w *World, c Change) error {
		before, ok := c.Before.(T)
		if ok && c.Verb != Create && c.Err == nil && !own(w, before) {
			return fmt.Errorf("%s belongs to %s", c.Request, ownerOf(before))
		}
		return nil
	}}
}

// WithoutLabel is the rule that the controller never adds a label to pods.
func WithoutLabel(key string) Rule {
	return Rule{Name: "pods do not get label " + key, Write: func(_ *World, c Change) error {
		after, ok := c.After.(*corev1.Pod)
		if ok && c.Err == nil && after.Labels[key] != "" && (c.Before == nil || c.Before.GetLabels()[key] == "") {
			return errors.New(c.String())
		}
		return nil
	}}
}

func ownerOf(o client.Object) string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.Kind + " " + ref.Name
	}
	return "none"
}

// AtMost is the rule that no creation by the controller may leave more than the allowed number of objects of type T that count. No controller
// can prevent late writes, so each of them raises the limit by one.
func AtMost[T client.Object](name string, counts func(*World, T) bool, most func(*World) int) Rule {
	return Rule{Name: name, Write: func(w *World, c Change) error {
		if _, ok := c.After.(T); !ok || c.Verb != Create || c.Late {
			return nil
		}
		have, limit := 0, most(w)
		for _, o := range All[T](w) {
			if counts(w, o) {
				have++
			}
		}
		for _, change := range w.changes {
			if change.Late && change.Verb == Create {
				limit++
			}
		}
		if have > limit {
			return fmt.Errorf("%d after %s, and at most %d may be", have, c.Request, limit)
		}
		return nil
	}}
}

// AtLeast is a minimum of good objects of type T that the controller's own writes must leave: when one of its writes changes or deletes a
// good object, enough others must be good as far as the controller can know.
//
// The controller knows its cache and its own writes, including those of an earlier process and those that got no response. It doesn't know
// what others did until a watch event shows it. So it may delete a pod that has become ready meanwhile. Late writes are not checked, but
// counted.
type AtLeast[T client.Object] struct {
	Name string
	// By is the name of the process whose writes are checked. Default controller.
	By string
	// Good reports whether an object counts.
	Good func(*World, T) bool
	// Least returns how many good objects must be left.
	Least func(*World) int
	// Verbs are the writes that are checked and counted. Nil means all.
	Verbs []Verb
	// Free reports whether a write is counted but not checked. Nil means that all are checked.
	Free func(*World, Change) bool
}

// Rule returns the rule.
func (f AtLeast[T]) Rule() Rule { return Rule{Name: f.Name, Write: f.check} }

func (f AtLeast[T]) check(w *World, c Change) error {
	limit := f.Least(w)
	if limit <= 0 || c.Late || !f.reduces(w, c) || f.Free != nil && f.Free(w, c) {
		return nil
	}
	out := map[types.UID]int64{} // The version after that write.
	for _, change := range w.changes {
		if f.reduces(w, change) {
			out[change.Before.GetUID()] = version(change.After)
		}
	}
	known, seen := 0, true
	for _, o := range CachedBy[T](w, cmp.Or(f.By, controller)) {
		good := f.Good(w, o)
		if o.GetUID() == c.Before.GetUID() {
			seen = good
		}
		if at, taken := out[o.GetUID()]; good && (!taken || version(o) > at) {
			known++
		}
	}
	if seen && known < limit {
		return fmt.Errorf("%d are left after %s, and %d must be", known, c.Request, limit)
	}
	return nil
}

// reduces reports whether a write changed or deleted a good object.
func (f AtLeast[T]) reduces(w *World, c Change) bool {
	if c.By != cmp.Or(f.By, controller) || c.Err != nil || c.Verb == Create || f.Verbs != nil && !slices.Contains(f.Verbs, c.Verb) {
		return false
	}
	return f.counted(w, c.Before) && (c.Verb == Delete || !f.counted(w, c.After))
}

func (f AtLeast[T]) counted(w *World, o client.Object) bool {
	t, ok := o.(T)
	return ok && f.Good(w, t)
}

func version(o client.Object) int64 {
	n, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

package sim

import (
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Rule must hold all the time. Its functions read the world and change nothing.
type Rule struct {
	Name string
	// Write judges a write of the controller, when it has reached the apiserver; nil if the rule is not about writes.
	Write func(*World, Change) error
	// State judges the world after each step; nil if the rule is not about states.
	State func(*World) error
}

// DeletesByUID is the rule that the controller deletes nothing but the very object that it means: another one may have
// taken the name since its cache was filled.
func DeletesByUID() Rule {
	return Rule{Name: "deletions name the UID", Write: func(_ *World, c Change) error {
		if c.Verb == Delete && (c.Preconditions == nil || c.Preconditions.UID == nil) {
			return fmt.Errorf("%s has no UID precondition", c.Request)
		}
		return nil
	}}
}

// OwnOnly is the rule that the controller changes and deletes objects of type T only if mine, by what they were before.
func OwnOnly[T client.Object](mine func(*World, T) bool) Rule {
	return Rule{Name: "others' objects are left alone", Write: func(w *World, c Change) error {
		before, ok := c.Before.(T)
		if ok && c.Verb != Create && c.Err == nil && !mine(w, before) {
			return fmt.Errorf("%s belongs to %s", c.Request, ownerOf(before))
		}
		return nil
	}}
}

func ownerOf(o client.Object) string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.Kind + " " + ref.Name
	}
	return "nobody"
}

// AtMost is the rule that no creation of the controller makes more than most objects of type T that count. A late write
// is one too many that no controller can help, so each of them is one more.
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
		for _, was := range w.changes {
			if was.Late && was.Verb == Create {
				limit++
			}
		}
		if have > limit {
			return fmt.Errorf("%d after %s, and at most %d may be", have, c.Request, limit)
		}
		return nil
	}}
}

// AtLeast is a number of good objects of type T that the controller must not go below by its own hand: whenever it takes a
// good one out, by a change or a deletion, enough others must be good by what it can know.
//
// It can know its cache and its own writes, also those of a former process and those whose answer it never got; it
// cannot know what others did and no watch has shown. So a pod that has become ready since its cache was filled may go.
// Late writes are not judged, but they count.
type AtLeast[T client.Object] struct {
	Name string
	// Good reports whether an object counts.
	Good func(*World, T) bool
	// Least is how many must be left.
	Least func(*World) int
	// Verbs are the writes that are judged and counted; nil means all.
	Verbs []Verb
	// Free tells of a write that it counts and is not judged; nil means that all are.
	Free func(*World, Change) bool
}

// Rule returns the rule.
func (f AtLeast[T]) Rule() Rule { return Rule{Name: f.Name, Write: f.check} }

func (f AtLeast[T]) check(w *World, c Change) error {
	limit := f.Least(w)
	if limit <= 0 || c.Late || !f.took(w, c) || f.Free != nil && f.Free(w, c) {
		return nil
	}
	out := map[types.UID]int64{} // in which version it was taken out
	for _, was := range w.changes {
		if f.took(w, was) {
			out[was.Before.GetUID()] = version(was.After)
		}
	}
	known, seen := 0, true
	for _, o := range Cached[T](w) {
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

// took reports whether a write took a good object out.
func (f AtLeast[T]) took(w *World, c Change) bool {
	if c.By != controller || c.Err != nil || c.Verb == Create || f.Verbs != nil && !slices.Contains(f.Verbs, c.Verb) {
		return false
	}
	return f.good(w, c.Before) && (c.Verb == Delete || !f.good(w, c.After))
}

func (f AtLeast[T]) good(w *World, o client.Object) bool {
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

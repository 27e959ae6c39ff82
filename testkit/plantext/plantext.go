// Package plantext writes plans as text, for golden files that a reviewer reads.
package plantext

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/revision"
)

// Plan writes a plan in the order in which it is done. before and after are lines of what the kind does besides: before pods
// are changed, and after they are made.
func Plan(w *podset.Plan, before, after []string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	if w.Revision.Change != revision.Keep {
		line("revision: %s number %d", w.Revision.Change, w.Revision.Revision.Revision)
	}
	if w.InvalidSpec != "" {
		line("fault: %s", w.InvalidSpec)
	}
	for _, s := range before {
		line("%s", s)
	}
	for _, p := range w.Disown {
		line("disown %s", p.Name)
	}
	for _, part := range []struct {
		verb string
		list []podset.Change
	}{
		{"prepare to delete", w.PrepareDelete},
		{"name for deletion", w.Name},
		{"delete", w.Delete},
		{"recall", w.Return},
		{"prepare to update", w.PrepareUpdate},
		{"mark", w.Mark},
		{"edit", w.Edit},
		{"release", w.Release},
	} {
		for _, c := range part.list {
			if c.Back {
				c.Why += "; back to the current revision"
			}
			line("%s %s: %s: %s", part.verb, c.Key, c.Reason, c.Why)
		}
	}
	for _, c := range w.Create {
		age := "new"
		if c.Old {
			age = "old"
		}
		line("create %s (%s): %s: %s", age, cmp.Or(c.Slot, "any id"), c.Reason, c.Why)
	}
	for _, s := range after {
		line("%s", s)
	}
	for _, h := range w.RevisionsToDelete {
		line("drop revision number %d", h.Revision)
	}
	for _, h := range w.Holds {
		line("hold %d: %s: %s", h.Pods, h.Reason, h.Why)
	}
	if w.Recheck != 0 {
		line("recheck after %s", w.Recheck)
	}
	if b.Len() == 0 {
		line("nothing")
	}
	return b.String()
}

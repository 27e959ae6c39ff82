// Package plantext writes plans as text, for golden files that a reviewer reads.
package plantext

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/revision"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// verbs say what is done to pods that exist, in the order in which it is written.
var verbs = []struct {
	verb string
	kind rollout.StepKind
}{
	{"prepare to delete", rollout.StepPrepareDelete},
	{"name for deletion", rollout.StepMarkForDeletion},
	{"delete", rollout.StepDelete},
	{"recall", rollout.StepCancelDelete},
	{"prepare to update", rollout.StepPrepareUpdate},
	{"mark", rollout.StepMarkUnready},
	{"edit", rollout.StepUpdateInPlace},
	{"release", rollout.StepMarkReady},
}

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
	for _, p := range w.Release {
		line("disown %s", p.Name)
	}
	for _, v := range verbs {
		for _, s := range w.Of(v.kind) {
			if s.Old {
				s.Why += "; back to the current revision"
			}
			line("%s %s: %s: %s", v.verb, s.Pod.Key, s.Reason, s.Why)
		}
	}
	for _, s := range w.Of(rollout.StepCreate) {
		age := "new"
		if s.Old {
			age = "old"
		}
		line("create %s (%s): %s: %s", age, cmp.Or(s.Slot, "any id"), s.Reason, s.Why)
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

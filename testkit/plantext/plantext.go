// Package plantext writes plans as text, for golden files.
package plantext

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// kinds are the kinds of steps for existing pods, in the order in which they are written.
var kinds = []rollout.StepKind{ //nolint:gochecknoglobals // A table that nothing changes.
	rollout.StepPrepareDelete, rollout.StepMarkForDeletion, rollout.StepDelete, rollout.StepCancelDelete,
	rollout.StepPrepareUpdate, rollout.StepMarkUnready, rollout.StepUpdateInPlace, rollout.StepMarkReady,
}

// Plan returns a plan as text, in the order in which it is applied. before and after are lines for what is specific to the kind: before pods
// are changed, and after they are created.
func Plan(p *podset.Plan, before, after []string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	if p.Revision.Change != revision.Keep {
		line("revision: %s number %d", p.Revision.Change, p.Revision.Revision.Revision)
	}
	if p.InvalidSpec != "" {
		line("invalid spec: %s", p.InvalidSpec)
	}
	if p.Ignored != "" {
		line("ignored: %s", p.Ignored)
	}
	for _, s := range before {
		line("%s", s)
	}
	for _, pod := range p.Release {
		line("release %s", pod.Name)
	}
	for _, kind := range kinds {
		for _, s := range p.Of(kind) {
			if s.Old {
				s.Why += "; back to the current revision"
			}
			line("%s %s: %s: %s", kind, s.Pod.Key, s.Reason, s.Why)
		}
	}
	for _, s := range p.Of(rollout.StepCreate) {
		age := "new"
		if s.Old {
			age = "old"
		}
		line("Create %s (%s): %s: %s", age, cmp.Or(s.Slot, "any id"), s.Reason, s.Why)
	}
	for _, s := range after {
		line("%s", s)
	}
	for _, h := range p.RevisionsToDelete {
		line("delete revision number %d", h.Revision)
	}
	for _, h := range p.Holds {
		line("hold %d: %s: %s", h.Pods, h.Reason, h.Why)
	}
	if p.Recheck != 0 {
		line("recheck after %s", p.Recheck)
	}
	if b.Len() == 0 {
		line("nothing")
	}
	return b.String()
}

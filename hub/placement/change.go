package placement

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// StatusDelay is how long a status change that may wait is collected with later ones, and the minimum time between two such writes.
const StatusDelay = 3 * time.Second

// Change says how a status change is reported.
type Change struct {
	// Collect is how long the change is collected with later ones; 0 means that it is written at once.
	Collect time.Duration
	// Events are sent once it was written.
	Events []event.Event
}

// Wait returns how long a status change is collected with later ones, given whether it may wait.
func Wait(may bool) time.Duration {
	if may {
		return StatusDelay
	}
	return 0
}

// Transition is a condition whose status or reason has changed. From and To are the condition before and after; one of them is zero if the
// condition was added or removed.
type Transition struct {
	Type     string
	From, To report.ConditionEntry
}

// EverTrue reports whether the condition was or is True.
func (t Transition) EverTrue() bool {
	return t.From.Status == corev1.ConditionTrue || t.To.Status == corev1.ConditionTrue
}

// Transitions compares the conditions of two statuses. It returns those that changed in more than their message, in the order of the new
// status, followed by those that were removed.
func Transitions[C any](form report.Form[C], before, after []C) []Transition {
	old := make(map[string]report.ConditionEntry, len(before))
	for _, c := range before {
		old[form.Type(c)] = form.Entry(c)
	}
	var out []Transition
	for _, c := range after {
		t := Transition{Type: form.Type(c), From: old[form.Type(c)], To: form.Entry(c)}
		if t.From.Status != t.To.Status || t.From.Reason != t.To.Reason {
			out = append(out, t)
		}
		delete(old, t.Type)
	}
	for _, c := range before {
		if from, removed := old[form.Type(c)]; removed {
			out = append(out, Transition{Type: form.Type(c), From: from})
		}
	}
	return out
}

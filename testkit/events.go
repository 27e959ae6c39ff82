package testkit

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// Events is an event.Recorder that keeps the events. The zero value is ready to use. It is safe for concurrent use.
type Events struct {
	mu  sync.Mutex
	all []event.Event
}

// Record keeps one event.
func (e *Events) Record(_ runtime.Object, one event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, one)
}

// All returns the events so far, in order of arrival.
func (e *Events) All() []event.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Reasons returns the reasons of the events so far.
func (e *Events) Reasons() []string { return Reasons(e.All()) }

// Lines returns the reason and note of each event so far.
func (e *Events) Lines() []string {
	all := e.All()
	out := make([]string, 0, len(all))
	for _, one := range all {
		out = append(out, one.Reason+": "+one.Note)
	}
	return out
}

// Reasons returns the reasons of events, or nil if there are none.
func Reasons(events []event.Event) []string {
	if len(events) == 0 {
		return nil
	}
	out := make([]string, 0, len(events))
	for _, one := range events {
		out = append(out, one.Reason)
	}
	return out
}

package testkit

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-io/flotilla/pkg/event"
)

// Events is an event.Recorder that keeps what it is given. The zero value is ready; it may be used concurrently.
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

// All returns the events so far, in the order in which they came.
func (e *Events) All() []event.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Reasons returns the reasons of the events so far.
func (e *Events) Reasons() []string { return Reasons(e.All()) }

// Lines returns reason and note of each event so far.
func (e *Events) Lines() []string {
	var out []string
	for _, one := range e.All() {
		out = append(out, one.Reason+": "+one.Note)
	}
	return out
}

// Reasons returns the reasons of events, nil for none.
func Reasons(events []event.Event) []string {
	var out []string
	for _, one := range events {
		out = append(out, one.Reason)
	}
	return out
}

package event

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
)

const (
	// noteLimit is the longest note that events.k8s.io/v1 accepts, in bytes.
	noteLimit = 1024
	// notesApart is how many notes with one reason about one object are kept separate at a time. More are aggregated.
	notesApart = 10
	// reasonsKnown is the number of pairs of object and reason whose notes are remembered.
	reasonsKnown = 4096
)

// Event is something that happened to an object.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is a CamelCase word for automation.
	Reason string
	// Action is what the controller was doing, in CamelCase; events.k8s.io requires one.
	Action string
	// Note is a human-readable sentence.
	Note string
}

// Normal returns an event of type Normal.
func Normal(reason, action, format string, args ...any) Event {
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Note: fmt.Sprintf(format, args...)}
}

// Warning returns an event of type Warning.
func Warning(reason, action, format string, args ...any) Event {
	return Event{Type: corev1.EventTypeWarning, Reason: reason, Action: action, Note: fmt.Sprintf(format, args...)}
}

// Names shortens a list of names for a note: the first three, and how many more there are. An empty list gives "none".
func Names(names []string) string {
	const shown = 3
	switch {
	case len(names) == 0:
		return "none"
	case len(names) <= shown:
		return strings.Join(names, ", ")
	default:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
}

// Truncate shortens text to limit bytes, between characters, with an ellipsis.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..."
}

// Recorder sends events. It may be called concurrently and never blocks on the API.
type Recorder interface {
	Record(regarding runtime.Object, e Event)
}

// New returns a Recorder that sends through r, for example that of a manager created with NewManager.
func New(r events.EventRecorder) Recorder { return &recorder{sink: r, notes: lru.New(reasonsKnown)} }

// recorder keeps different notes separate. client-go aggregates events into a series by everything except the note, and a series shows only the
// note of its first event.
type recorder struct {
	sink events.EventRecorder

	mu sync.Mutex
	// notes holds the *notes of each series.
	notes *lru.Cache
}

// series is the part of client-go's aggregation key that we control.
type series struct {
	uid             types.UID
	namespace, name string
	eventType       string
	reason, action  string
}

// notes are the notes of one series that are kept separate; the next new note replaces the one at index next.
type notes struct {
	known []string
	next  int
}

// index returns the index of a note: its current one, or else the index of the oldest note, which it replaces.
func (n *notes) index(note string) int {
	if at := slices.Index(n.known, note); at >= 0 {
		return at
	}
	at := n.next
	if at == len(n.known) {
		n.known = append(n.known, note)
	}
	n.known[at], n.next = note, (at+1)%notesApart
	return at
}

// Record sends one event.
func (r *recorder) Record(regarding runtime.Object, e Event) {
	note := Truncate(e.Note, noteLimit)
	r.sink.Eventf(regarding, r.related(regarding, e, note), e.Type, e.Reason, e.Action, "%s", note)
}

// related returns the related object that keeps a note separate from the first one of its series: the same object, with the note's index. It is
// nil for the first note. A sink removes it before the event is sent.
func (r *recorder) related(regarding runtime.Object, e Event, note string) runtime.Object {
	o, err := meta.Accessor(regarding)
	if err != nil {
		return nil
	}
	key := series{o.GetUID(), o.GetNamespace(), o.GetName(), e.Type, e.Reason, e.Action}
	r.mu.Lock()
	defer r.mu.Unlock()
	own := &notes{}
	if known, ok := r.notes.Get(key); ok {
		own = known.(*notes)
	} else {
		r.notes.Add(key, own)
	}
	at := own.index(note)
	if at == 0 {
		return nil
	}
	return &corev1.ObjectReference{
		Namespace: key.namespace, Name: key.name, UID: key.uid, FieldPath: fmt.Sprintf("note{%d}", at),
	}
}

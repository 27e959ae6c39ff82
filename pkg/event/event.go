package event

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// noteLimit is the longest note that events.k8s.io/v1 takes, in bytes.
const noteLimit = 1024

// Event is something that happened to an object.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is a CamelCase word that automation may match.
	Reason string
	// Action says what the controller was doing, in CamelCase; events.k8s.io requires one.
	Action string
	// Note is a sentence for people.
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

// Names folds names for a note: the first three, and how many more there are. No name gives "none".
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

// Recorder sends events. It may be called concurrently and never blocks on the API.
type Recorder interface {
	Record(regarding runtime.Object, e Event)
}

// New returns a Recorder that sends through r, for example manager.GetEventRecorder("flotilla-member").
func New(r events.EventRecorder) Recorder { return recorder{r} }

type recorder struct{ events.EventRecorder }

func (r recorder) Record(regarding runtime.Object, e Event) {
	note := e.Note
	if len(note) > noteLimit {
		note = strings.ToValidUTF8(note[:noteLimit-3], "") + "..."
	}
	r.Eventf(regarding, nil, e.Type, e.Reason, e.Action, "%s", note)
}

package event

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// api stores the events that are created, and counts all other calls.
type api struct {
	events.EventSink
	mu      sync.Mutex
	created map[string]*eventsv1.Event // by note
	patches int
}

func (a *api) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.created[e.Note] = e
	return e, nil
}

func (a *api) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.patches++
	return e, nil
}

func (a *api) has(events, patches int) func() bool {
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.created) == events && a.patches == patches
	}
}

func TestDifferentNotesAreEventsThatRelateToNothing(t *testing.T) {
	t.Parallel()
	a := &api{created: map[string]*eventsv1.Event{}}
	b := &broadcaster{sink: a, scheme: scheme.Scheme}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "uid"}}
	require.NoError(t, b.run(t.Context(), func(context.Context) error {
		r := New(lazyRecorder{b, "test"})
		r.Record(pod, Warning("Denied", "Judge", "the key must be P-256"))
		r.Record(pod, Warning("Denied", "Judge", "the token has been used"))
		require.Eventually(t, a.has(2, 0), testtimeout.Scale(10*time.Second), time.Millisecond)
		r.Record(pod, Warning("Denied", "Judge", "the token has been used"))
		require.Eventually(t, a.has(2, 1), testtimeout.Scale(10*time.Second), time.Millisecond, "the equal one is counted")
		return nil
	}))
	require.Len(t, a.created, 2)
	for note, e := range a.created {
		require.Nil(t, e.Related, note)
		require.Equal(t, "a", e.Regarding.Name)
	}
}

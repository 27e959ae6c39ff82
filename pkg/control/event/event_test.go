package event_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// sent is a fake of client-go's recorder. It uses the aggregation key of events: everything except the note.
type sent struct {
	series map[string]int
	notes  []string
}

func (s *sent) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	s.series[fmt.Sprint(regarding.(metav1.Object).GetName(), related, kind, reason, action)]++
	s.notes = append(s.notes, fmt.Sprintf(note, args...))
}

func newSent() *sent { return &sent{series: map[string]int{}} }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
}

func TestDifferentNotesStaySeparate(t *testing.T) {
	t.Parallel()
	s := newSent()
	r := event.New(s)
	r.Record(pod("a"), event.Warning("Denied", "Judge", "the key must be P-256"))
	r.Record(pod("a"), event.Warning("Denied", "Judge", "the token has been used"))
	require.Len(t, s.series, 2, "they would become one event with the first note")
}

func TestEqualNotesFold(t *testing.T) {
	t.Parallel()
	s := newSent()
	r := event.New(s)
	for range 3 {
		r.Record(pod("a"), event.Warning("Denied", "Judge", "the key must be P-256"))
		r.Record(pod("a"), event.Warning("Denied", "Judge", "the token has been used"))
		r.Record(pod("b"), event.Warning("Denied", "Judge", "the token has been used"))
	}
	require.Len(t, s.series, 3)
	require.Len(t, s.notes, 9, "the library counts them")
}

func TestAStormOfNotesIsBounded(t *testing.T) {
	t.Parallel()
	s := newSent()
	r := event.New(s)
	for i := range 1000 {
		r.Record(pod("a"), event.Warning("Denied", "Judge", "try %d", i))
	}
	require.Len(t, s.series, 10)
}

func TestALongNoteIsTruncated(t *testing.T) {
	t.Parallel()
	s := newSent()
	event.New(s).Record(pod("a"), event.Normal("Updated", "Update", "%s", strings.Repeat("ä", 1024)))
	require.LessOrEqual(t, len(s.notes[0]), 1024)
	require.True(t, strings.HasSuffix(s.notes[0], "ä..."))
}

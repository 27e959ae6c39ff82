package podset

import (
	"maps"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// memorySpan is how long a pod's facts are remembered at most. An API server restored from a backup may reuse a resourceVersion for different
// content.
const memorySpan = 5 * time.Minute

// Memory remembers the facts of the pods of one workload, so that a reconcile views only the pods that have changed. It changes no result: View
// is pure, and Facts.ChangesAt is when one of the facts changes just by time passing.
//
// The zero value is ready to use, and a nil Memory remembers nothing. It must not be used concurrently.
type Memory struct {
	rules Rules
	pods  map[types.UID]*remembered
	round int
	// names are the names of pods that could not be created.
	names []string
}

// Names returns the names of pods that could not be created, for reuse in the next attempt. With new random names, each attempt would have a
// different error, and so a different event and a status write, which starts the next attempt at once. It would also create more PVCs.
func (m *Memory) Names() []string {
	if m == nil {
		return nil
	}
	return m.names
}

// KeepNames replaces the names that Names returns.
func (m *Memory) KeepNames(names []string) {
	if m != nil {
		m.names = names
	}
}

// remembered holds the facts of one version of a pod, and when they were viewed. round is the last round that asked for them.
type remembered struct {
	version string
	at      time.Time
	facts   Facts
	round   int
}

// begin starts a round, in which all pods of the workload are viewed.
func (m *Memory) begin(r Rules) {
	if m == nil {
		return
	}
	m.round++
	if m.pods == nil || !reflect.DeepEqual(m.rules, r) {
		m.rules, m.pods = r, map[types.UID]*remembered{}
	}
}

// view is View with the rules of the round, answered from memory if possible.
func (m *Memory) view(pod *corev1.Pod, r Rules, now time.Time) Facts {
	if m == nil || pod.UID == "" || pod.ResourceVersion == "" {
		return View(pod, r, now)
	}
	known := m.pods[pod.UID]
	if known == nil {
		known = &remembered{}
		m.pods[pod.UID] = known
	}
	known.round = m.round
	if known.version != pod.ResourceVersion || !known.isValid(now) {
		known.version, known.at, known.facts = pod.ResourceVersion, now, View(pod, r, now)
	}
	return known.facts
}

// isValid reports whether the facts are still valid. The clock may have been set back.
func (k *remembered) isValid(now time.Time) bool {
	return !now.Before(k.at) && now.Sub(k.at) < memorySpan && (k.facts.ChangesAt.IsZero() || now.Before(k.facts.ChangesAt))
}

// end forgets the pods that were not viewed in the round, because they are gone; viewed is the number of pods that were.
func (m *Memory) end(viewed int) {
	if m != nil && len(m.pods) > viewed {
		maps.DeleteFunc(m.pods, func(_ types.UID, k *remembered) bool { return k.round != m.round })
	}
}

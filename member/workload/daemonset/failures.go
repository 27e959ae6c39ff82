package daemonset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A pod that has ended is deleted and re-created: the first time at once, then after firstWait, then after twice that, and so on up to
// lastWait. If a node has no failure for twice lastWait, it starts over. As in kube 1.36, DaemonSet controller.
const (
	firstWait = time.Second
	lastWait  = 15 * time.Minute
)

// failures is the back-off of nodes, by set. The zero value is ready to use. It is safe for concurrent use. It does not survive a restart,
// after which a pod may be deleted too early once.
type failures struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]map[string]failure
}

type failure struct {
	at   time.Time
	wait time.Duration
	// generation is the generation of the set: a new spec may have fixed the cause.
	generation int64
}

// note records that a pod that had ended was deleted on a node.
func (f *failures) note(set types.NamespacedName, generation int64, node string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.sets[set][node]
	next := failure{at: now, wait: min(2*was.wait, lastWait), generation: generation}
	if was.wait == 0 || was.generation != generation || now.Sub(was.at) > 2*lastWait {
		next.wait = firstWait
	}
	if f.sets == nil {
		f.sets = map[types.NamespacedName]map[string]failure{}
	}
	if f.sets[set] == nil {
		f.sets[set] = map[string]failure{}
	}
	f.sets[set][node] = next
}

// until returns the nodes of a set in back-off, with the time before which a pod that has ended is not deleted.
func (f *failures) until(set types.NamespacedName, generation int64, now time.Time) map[string]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out map[string]time.Time
	for node, e := range f.sets[set] {
		at := e.at.Add(e.wait)
		switch {
		case now.Sub(e.at) > 2*lastWait:
			delete(f.sets[set], node)
		case e.generation == generation && at.After(now):
			if out == nil {
				out = map[string]time.Time{}
			}
			out[node] = at
		}
	}
	return out
}

// forget drops the back-off of a set that is gone.
func (f *failures) forget(set types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sets, set)
}

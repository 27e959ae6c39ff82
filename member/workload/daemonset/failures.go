package daemonset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A pod that has ended is deleted, and one is re-created: the first time at once, then after firstWait, twice that and so on, up to
// lastWait. A node whose pods ran for twice that long begins anew. Source: kube 1.36, DaemonSet controller.
const (
	firstWait = time.Second
	lastWait  = 15 * time.Minute
)

// failures remembers where pods ended. The zero value is ready; it may be used concurrently. A restart forgets it, which costs
// one deletion more.
type failures struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]map[string]failure
}

type failure struct {
	at   time.Time
	wait time.Duration
	// generation is that of the set: another one may have mended what made pods end.
	generation int64
}

// note notes that a pod that had ended was deleted on a node.
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

// until tells for each node of a set until when a pod that has ended stays there.
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

// forget drops what is known of a set that is gone.
func (f *failures) forget(set types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sets, set)
}

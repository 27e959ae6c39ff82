package daemonset

import "time"

// A pod that has ended is deleted and re-created: the first time at once, then after firstWait, then after twice that, and so on up to
// lastWait. If a node has no failure for twice lastWait, it starts over. As in kube 1.36, DaemonSet controller.
const (
	firstWait = time.Second
	lastWait  = 15 * time.Minute
)

// failures is the back-off of nodes. It does not survive a restart, after which a pod may be deleted too early once.
type failures map[string]failure

type failure struct {
	at   time.Time
	wait time.Duration
	// generation is the generation of the set: a new spec may have fixed the cause.
	generation int64
}

// record notes that a pod that had ended was deleted on a node.
func (f *failures) record(generation int64, node string, now time.Time) {
	last := (*f)[node]
	next := failure{at: now, wait: min(2*last.wait, lastWait), generation: generation}
	if last.wait == 0 || last.generation != generation || now.Sub(last.at) > 2*lastWait {
		next.wait = firstWait
	}
	if *f == nil {
		*f = failures{}
	}
	(*f)[node] = next
}

// until returns the nodes in back-off, with the time before which a pod that has ended is not deleted. It forgets nodes without failures.
func (f failures) until(generation int64, now time.Time) map[string]time.Time {
	var out map[string]time.Time
	for node, e := range f {
		at := e.at.Add(e.wait)
		switch {
		case now.Sub(e.at) > 2*lastWait:
			delete(f, node)
		case e.generation == generation && at.After(now):
			if out == nil {
				out = map[string]time.Time{}
			}
			out[node] = at
		}
	}
	return out
}

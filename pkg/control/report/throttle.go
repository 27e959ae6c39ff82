package report

import (
	"cmp"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// countsInterval is the default of Throttle.Interval.
const countsInterval = time.Second

// Throttle delays status writes that may wait. While many pods start, each reconcile would count one more, and the status would be written as
// many times as there are pods. The zero value is ready to use; it may be used concurrently.
type Throttle struct {
	// Interval is the minimum time between a write and a later one that may wait; 0 means a second.
	Interval time.Duration
	// Collect is how long a change that may wait is collected with later ones before it is written; 0 means that it isn't.
	Collect time.Duration

	mu sync.Mutex
	by map[types.NamespacedName]writes
}

// writes records the writes of one status.
type writes struct {
	last time.Time // zero if there was none
	due  time.Time // when a waiting change has been collected for long enough; zero if none waits
}

// Reworded reports whether the statuses of a reconcile that ended with an error differ only in the messages of conditions. A write refused by a
// webhook may return a different message each time, for example with a time or the name of a request in it. If the status were written each
// time, the watch would start the next attempt at once, bypassing the queue's back-off.
func Reworded(old, status any, err error) bool {
	if err == nil || apiequality.Semantic.DeepEqual(old, status) {
		return false
	}
	before, after := map[string]any{}, map[string]any{}
	if toFields(before, old) != nil || toFields(after, status) != nil {
		return false
	}
	dropMessages(before)
	dropMessages(after)
	return apiequality.Semantic.DeepEqual(before, after)
}

// dropMessages removes the messages of the conditions in a status.
func dropMessages(status map[string]any) {
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			delete(c, "message")
		}
	}
}

// Due returns whether to write a status now. changed: it differs from the status that was last written. mayWait: it is to be written once
// Collect has passed since the first call with this change, and Interval since the last write. later is how long that takes; 0 if nothing waits.
func (t *Throttle) Due(key types.NamespacedName, changed, mayWait bool, now time.Time) (write bool, later time.Duration) {
	if changed && !mayWait {
		return true, 0
	}
	return t.DueIn(key, changed, t.Collect, now)
}

// DueIn is Due for a change that may wait and is collected for that long instead of Collect. If several changes wait, the one with the shortest
// wait triggers the write of all.
func (t *Throttle) DueIn(key types.NamespacedName, changed bool, collect time.Duration, now time.Time) (write bool, later time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.by[key]
	if !changed {
		if !w.due.IsZero() {
			t.set(key, writes{last: w.last})
		}
		return false, 0
	}
	if due := now.Add(collect); w.due.IsZero() || due.Before(w.due) {
		w.due = due
		t.set(key, w)
	}
	due := w.due
	if !w.last.IsZero() {
		if next := w.last.Add(cmp.Or(t.Interval, countsInterval)); next.After(due) {
			due = next
		}
	}
	later = max(due.Sub(now), 0)
	return later == 0, later
}

// Wrote records that the status was written.
func (t *Throttle) Wrote(key types.NamespacedName, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(key, writes{last: now})
}

func (t *Throttle) set(key types.NamespacedName, w writes) {
	if t.by == nil {
		t.by = map[types.NamespacedName]writes{}
	}
	t.by[key] = w
}

// Forget drops what is known about an object that is gone.
func (t *Throttle) Forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.by, key)
}

package agent

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// breakerWindow is the period over which deletions of rows by anyone other than the hub are counted.
	breakerWindow = time.Minute
	// breakerFloor and breakerShare limit the deletions per window: the floor, or a 20th (5 %) of the ledger, whichever is higher.
	breakerFloor   = 10
	breakerDivisor = 20
)

// breaker limits how many rows the agent withdraws if something other than the hub deleted them, such as a script or the deletion of their namespace.
// Once it has held one back, it holds all further ones until none is held; an administrator confirms each. It is kept in memory, so a restart may
// allow another window. It is safe for concurrent use.
type breaker struct {
	mu     sync.Mutex
	passed map[client.ObjectKey]time.Time
	held   map[client.ObjectKey]bool
}

func newBreaker() *breaker {
	return &breaker{passed: map[client.ObjectKey]time.Time{}, held: map[client.ObjectKey]bool{}}
}

// pass reports whether a row may be withdrawn, and counts it once. ledger is the number of lines in the ledger.
func (b *breaker) pass(row client.ObjectKey, ledger int, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, counted := b.passed[row]; counted {
		return true
	}
	for other, at := range b.passed {
		if now.Sub(at) >= breakerWindow {
			delete(b.passed, other)
		}
	}
	if len(b.held) > 0 || len(b.passed) >= max(breakerFloor, ledger/breakerDivisor) {
		b.held[row] = true
		return false
	}
	b.passed[row] = now
	return true
}

// release forgets a row that was held back, because it was confirmed or is gone.
func (b *breaker) release(row client.ObjectKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, row)
}

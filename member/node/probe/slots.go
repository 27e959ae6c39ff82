package probe

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// maxExecs limits how many commands run at once on a node, and maxExecsOf how many of them belong to one namespace. A command that waits for
	// a slot is probed later, and holds no other command's slot.
	maxExecs   = 64
	maxExecsOf = 8
)

// slots limits how many commands run at once. Slots are granted in the order in which they are requested.
type slots struct {
	all *semaphore.Weighted

	mu          sync.Mutex
	byNamespace map[string]*namespaceSlots
}

type namespaceSlots struct {
	*semaphore.Weighted

	// users is how many callers hold or wait for a slot.
	users int
}

func newSlots() *slots {
	return &slots{all: semaphore.NewWeighted(maxExecs), byNamespace: map[string]*namespaceSlots{}}
}

// take waits for a slot for a namespace, and returns a function that gives it back. An error means that ctx has ended.
func (s *slots) take(ctx context.Context, namespace string) (func(), error) {
	s.mu.Lock()
	own := s.byNamespace[namespace]
	if own == nil {
		own = &namespaceSlots{Weighted: semaphore.NewWeighted(maxExecsOf)}
		s.byNamespace[namespace] = own
	}
	own.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(s.byNamespace, namespace)
		}
	}
	if err := own.Acquire(ctx, 1); err != nil {
		leave()
		return nil, err //nolint:wrapcheck // It is ctx's own error.
	}
	if err := s.all.Acquire(ctx, 1); err != nil { // Waiting here holds up only the caller's own namespace.
		own.Release(1)
		leave()
		return nil, err //nolint:wrapcheck // Likewise.
	}
	return func() {
		s.all.Release(1)
		own.Release(1)
		leave()
	}, nil
}
